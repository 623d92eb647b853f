"""The tools of a server that need nothing of the engine, put together from what was set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.adapters.toolbox.http_request import HttpRequestTool
from pilothouse.adapters.toolbox.list_dir import ListDirTool
from pilothouse.adapters.toolbox.read_file import ReadFileTool
from pilothouse.adapters.toolbox.search_documentation import SearchDocumentationTool
from pilothouse.adapters.toolbox.search_files import SearchFilesTool
from pilothouse.adapters.toolbox.search_patterns import SearchPatternsTool
from pilothouse.adapters.toolbox.write_file import WriteFileTool


class ToolboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``http_allow``: hosts, addresses and networks that may be asked although they are not public; ``docs``: folders
    of the user's documentation."""

    http_allow: tuple[str, ...] = ()
    docs: tuple[str, ...] = ()


def open_toolbox(config: ToolboxConfig) -> Iterator[Any]:
    """Each of them is a ``Tool`` of the engine. Raises ``BadInput`` for settings that are wrong."""
    yield ListDirTool()
    yield ReadFileTool()
    yield WriteFileTool()
    yield SearchFilesTool()
    yield HttpRequestTool(config.http_allow)
    yield SearchDocumentationTool(config.docs)
    yield SearchPatternsTool()
