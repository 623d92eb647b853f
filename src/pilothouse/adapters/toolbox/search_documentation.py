"""The tool ``search_documentation``: full text over Pilothouse's documentation and the user's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from pilothouse.adapters.toolbox.documents import Folder, Part, files_of, folders_of, own_documentation, parts_of
from pilothouse.adapters.toolbox.index import Index, Section
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches

_SHOWN = 2_500
"""Characters of a section that are answered: of a longer one, what matches."""

_State = tuple[tuple[str, int, int], ...]


class SearchDocumentation(Parameters, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="Words to look for.", min_length=1, max_length=1_000)]
    limit: Annotated[int, Meta(description="Most sections that are answered.", ge=1, le=20)] = 5


class SearchDocumentationTool:
    spec = ToolSpec(
        name="search_documentation",
        description=(
            "Search the documentation of Pilothouse (plan files, workflows, agents, sandbox, API, settings) and of the "
            'user. Answers sections, the best first. Example: {"query": "retry a failed node", "limit": 3}'
        ),
        parameters=schema_of(SearchDocumentation),
        touches=Touches.NOTHING,
    )

    def __init__(self, folders: Iterable[str] = ()) -> None:
        """``folders`` are the user's. Raises ``BadInput`` for what is none."""
        own = own_documentation()
        self._folders: list[Folder] = [*([own] if own else []), *folders_of(folders)]
        self._lock = threading.Lock()
        self._state: _State | None = None
        self._parts: dict[str, Part] = {}
        self._index: Index | None = None

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(SearchDocumentation, arguments)
        return await asyncio.to_thread(self._search, given)

    def _search(self, given: SearchDocumentation) -> ToolAnswer:
        with self._lock:
            index, parts = self._fresh()
            found = index.find(given.query, given.limit)
        sections = []
        for key, excerpt in found:
            part = parts[key]
            text = part.text.strip() if len(part.text) <= _SHOWN else excerpt
            sections.append({"path": part.path, "line": part.line, "title": part.title, "text": text})
        return ToolAnswer(ok=True, result={"sections": sections})

    def _fresh(self) -> tuple[Index, dict[str, Part]]:
        """The index of what there is now: made anew when a file was changed, added or removed."""
        files = [(folder, *found) for folder in self._folders for found in files_of(folder)]
        state: _State = tuple((str(path), size, changed) for _, path, size, changed in files)
        if self._index is None or state != self._state:
            parts = (part for folder, path, _, _ in files for part in parts_of(folder, path))
            self._parts = {str(number): part for number, part in enumerate(parts)}
            if self._index is not None:
                self._index.close()
            self._index = Index(
                Section(key, f"{part.title} {part.path}", part.text) for key, part in self._parts.items()
            )
            self._state = state
        return self._index, self._parts
