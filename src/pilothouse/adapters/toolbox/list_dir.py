"""The tool ``list_dir``: what is in a directory of the workspace."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pilothouse.adapters.toolbox.threads import FILES, Wanted
from pilothouse.adapters.toolbox.workspace import Workspace
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches

MOST_ENTRIES = 1_000

_SKIPPED = frozenset({".git"})
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ListDir(Parameters, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="A directory, relative to the workspace.")] = "."
    depth: Annotated[int, Meta(description="How many levels are listed.", ge=1, le=5)] = 1
    limit: Annotated[int, Meta(description="Most entries that are answered.", ge=1, le=MOST_ENTRIES)] = 300


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One name. ``path`` is relative to the directory that was asked for; ``size`` is in bytes."""

    path: str
    type: str
    size: int | None = None
    to: str = ""
    """Where a symbolic link points."""


class ListDirTool:
    spec = ToolSpec(
        name="list_dir",
        description=(
            "List a directory of the workspace: files with their size, directories, links. "
            'Example: {"path": "src", "depth": 2}'
        ),
        parameters=schema_of(ListDir),
        touches=Touches.NOTHING,
        of_workspace=True,
        timeout_ms=30_000,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(ListDir, arguments)
        return await FILES.run(lambda wanted: _list(Workspace(context.workspace), given, wanted))


def _list(workspace: Workspace, given: ListDir, wanted: Wanted) -> ToolAnswer:
    entries: list[Entry] = []
    with workspace.directory(given.path) as descriptor:
        complete = _collect(descriptor, "", given.depth, given.limit, entries, wanted)
    result: dict[str, Any] = {"path": given.path, "entries": msgspec.to_builtins(entries)}
    if not complete:
        result["more"] = f"only the first {given.limit} are listed; list a directory inside it"
    return ToolAnswer(ok=True, result=result)


def _collect(descriptor: int, prefix: str, depth: int, limit: int, into: list[Entry], wanted: Wanted) -> bool:
    """Whether everything had its place. Directories that vanish meanwhile are left out."""
    with os.scandir(descriptor) as found:
        names = sorted(entry.name for entry in found if entry.name not in _SKIPPED)
    for name in names:
        wanted.check()
        if len(into) >= limit:
            return False
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            into.append(_entry(name, prefix, status, descriptor))
            if stat.S_ISDIR(status.st_mode) and depth > 1:
                inner = os.open(name, _FLAGS, dir_fd=descriptor)
                try:
                    if not _collect(inner, f"{prefix}{name}/", depth - 1, limit, into, wanted):
                        return False
                finally:
                    os.close(inner)
        except OSError:
            continue
    return True


def _entry(name: str, prefix: str, status: os.stat_result, descriptor: int) -> Entry:
    path = _printable(f"{prefix}{name}")
    if stat.S_ISDIR(status.st_mode):
        return Entry(path=path, type="directory")
    if stat.S_ISLNK(status.st_mode):
        return Entry(path=path, type="link", to=_printable(os.readlink(name, dir_fd=descriptor)))
    if stat.S_ISREG(status.st_mode):
        return Entry(path=path, type="file", size=status.st_size)
    return Entry(path=path, type="special")


def _printable(name: str) -> str:
    """A name that JSON can hold, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")
