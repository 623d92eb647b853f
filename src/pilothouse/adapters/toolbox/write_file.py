"""The tool ``write_file``: a file of the workspace made, replaced, or edited where a text stands exactly once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pilothouse.adapters.toolbox.text import as_text
from pilothouse.adapters.toolbox.threads import FILES, Wanted
from pilothouse.adapters.toolbox.workspace import Workspace
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.errors import BadInput

LARGEST = 4 << 20
"""Bytes of a file that is written or edited."""


class Edit(Parameters, frozen=True, kw_only=True):
    old: Annotated[str, Meta(description="The exact text, white space included, with enough around to be unique.")]
    new: Annotated[str, Meta(description="What stands there afterwards.")]
    every: Annotated[bool, Meta(description="Replace it wherever it stands.")] = False


class WriteFile(Parameters, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="A file, relative to the workspace. Directories are made as needed.")]
    content: Annotated[str | None, Meta(description="The whole new content. Give this or edits.")] = None
    edits: Annotated[tuple[Edit, ...], Meta(description="Done in order: all of them, or none.", max_length=100)] = ()


class WriteFileTool:
    spec = ToolSpec(
        name="write_file",
        description=(
            "Make or replace a text file of the workspace by its whole content, or edit one by replacing exact texts. "
            'Examples: {"path": "notes.md", "content": "# Notes\\n"} and '
            '{"path": "src/app.py", "edits": [{"old": "timeout = 10", "new": "timeout = 30"}]}'
        ),
        parameters=schema_of(WriteFile),
        touches=Touches.FILES,
        of_workspace=True,
        timeout_ms=30_000,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(WriteFile, arguments)
        if (given.content is None) == (not given.edits):
            raise BadInput("either content or edits is needed", field="content", fix="give one of them")
        return await FILES.run(lambda wanted: _write(Workspace(context.workspace), given, wanted))


def _write(workspace: Workspace, given: WriteFile, wanted: Wanted) -> ToolAnswer:
    seen: os.stat_result | None = None
    if given.content is not None:
        text = given.content
    else:
        text, seen = _edited(workspace, given)
    content = text.encode("utf-8", "replace")
    _bounded(len(content), given.path)
    wanted.check()
    made = workspace.write(given.path, content, seen, wanted.committing)
    what = "created" if made else "replaced" if given.content is not None else "edited"
    return ToolAnswer(ok=True, result={"path": given.path, "done": what, "size": len(content)})


def _edited(workspace: Workspace, given: WriteFile) -> tuple[str, os.stat_result]:
    with workspace.file(given.path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
        seen = os.fstat(descriptor)
        _bounded(seen.st_size, given.path)
        text = as_text(file.read(LARGEST + 1), given.path)
    windows = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    for index, edit in enumerate(given.edits):
        text = _replaced(text, _with_returns(edit) if windows else edit, f"edits[{index}].old")
    return text, seen


def _replaced(text: str, edit: Edit, field: str) -> str:
    count = text.count(edit.old) if edit.old else 0
    if count == 0:
        raise BadInput("does not stand in the file exactly like this", field=field, fix="read the file again")
    if count > 1 and not edit.every:
        raise BadInput(f"stands there {count} times", field=field, fix="give more of what is around it, or set every")
    return text.replace(edit.old, edit.new)


def _with_returns(edit: Edit) -> Edit:
    """The edit as it is meant in a file whose lines all end with a carriage return, which models never see."""
    old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (edit.old, edit.new))
    return msgspec.structs.replace(edit, old=old, new=new)


def _bounded(size: int, path: str) -> None:
    if size > LARGEST:
        raise BadInput(f"{path!r} would be larger than {LARGEST >> 20} MiB", field="content", fix="write several files")
