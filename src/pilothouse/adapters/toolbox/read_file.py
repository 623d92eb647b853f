"""The tool ``read_file``: lines of a text file of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, BinaryIO

from msgspec import Meta

from pilothouse.adapters.toolbox.text import as_text, is_binary, line
from pilothouse.adapters.toolbox.threads import FILES, Wanted
from pilothouse.adapters.toolbox.workspace import Workspace
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.errors import BadInput

MOST_LINES = 5_000
MOST_CHARS = 100_000
"""Of one answer."""
LARGEST = 256 << 20
"""Bytes of a file that are gone through at most."""

_PIECE = 8_192
_BLOCK = 1 << 20


class ReadFile(Parameters, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="A file, relative to the workspace.")]
    offset: Annotated[int, Meta(description="The first line, counted from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="Most lines that are answered.", ge=1, le=MOST_LINES)] = 1_000


class ReadFileTool:
    spec = ToolSpec(
        name="read_file",
        description=(
            "Read a text file of the workspace. The answer says from which line to go on when there is more. "
            'Example: {"path": "src/app.py", "offset": 120, "limit": 80}'
        ),
        parameters=schema_of(ReadFile),
        touches=Touches.NOTHING,
        of_workspace=True,
        timeout_ms=30_000,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(ReadFile, arguments)
        return await FILES.run(lambda wanted: _read(Workspace(context.workspace), given, wanted))


def _read(workspace: Workspace, given: ReadFile, wanted: Wanted) -> ToolAnswer:
    with workspace.file(given.path) as descriptor:
        size = os.fstat(descriptor).st_size
        if is_binary(os.pread(descriptor, _PIECE, 0)):
            raise BadInput(f"{given.path!r} is binary ({size:,} bytes)", field="path", fix="only text can be read")
        lines, more = _lines(descriptor, given, wanted)
    text = "\n".join(lines)
    result: dict[str, Any] = {"path": given.path, "size": size, "text": text, "firstLine": given.offset}
    if not lines and given.offset > 1:
        raise BadInput(f"{given.path!r} has fewer than {given.offset:,} lines", field="offset")
    result["lastLine"] = given.offset + len(lines) - 1
    if more:
        result["more"] = f"go on with offset {given.offset + len(lines)}"
    return ToolAnswer(ok=True, result=result)


def _lines(descriptor: int, given: ReadFile, wanted: Wanted) -> tuple[list[str], bool]:
    """The lines that were asked for, as far as an answer may be long, and whether there are more."""
    found: list[str] = []
    chars = 0
    with os.fdopen(os.dup(descriptor), "rb") as file:
        _skip(file, given.offset - 1, wanted)
        for raw in _pieces(file, wanted):
            if len(found) == given.limit:
                return found, True
            text = line(as_text(raw, given.path).rstrip("\r\n"))
            if found and chars + len(text) > MOST_CHARS:
                return found, True
            chars += len(text) + 1
            found.append(text)
    return found, False


def _skip(file: BinaryIO, lines: int, wanted: Wanted) -> None:
    """Go on to where so many lines have ended, or to the end. By blocks, as lines may be short. Raises ``BadInput``."""
    at = 0
    while lines > 0 and (block := file.read(_BLOCK)):
        wanted.check()
        count = block.count(b"\n")
        if count >= lines:
            place = -1
            for _ in range(lines):
                place = block.index(b"\n", place + 1)
            file.seek(at + place + 1)
            return
        lines -= count
        at += len(block)
        _bounded(at)


def _pieces(file: BinaryIO, wanted: Wanted) -> Iterator[bytes]:
    """Lines, of each of which only the beginning is taken into memory. Raises ``BadInput`` when it takes too many
    bytes to get where somebody wants to be."""
    while piece := file.readline(_PIECE):
        rest = piece
        while rest and not rest.endswith(b"\n") and file.tell() <= LARGEST:
            wanted.check()
            rest = file.readline(_PIECE)
        _bounded(file.tell())
        whole = piece.endswith(b"\n") or len(piece) < _PIECE
        yield piece if whole else piece.decode("utf-8", "ignore").encode()  # ended where a character ends


def _bounded(at: int) -> None:
    if at > LARGEST:
        raise BadInput(f"goes beyond the first {LARGEST >> 20} MiB", field="offset", fix="use search_files")
