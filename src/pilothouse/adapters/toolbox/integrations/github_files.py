"""Files and directories of a repository on GitHub, at any revision."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api
from pilothouse.adapters.toolbox.integrations.github_repos import OfRepo, repo_path
from pilothouse.errors import BadInput, Refused

LARGEST = 200_000
"""Bytes of a file that are shown."""


class GetFile(OfRepo, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="From the root of the repository; empty: the root itself.")] = ""
    ref: Annotated[str, Meta(description="A branch, tag or commit; the default branch when left out.")] = ""


async def get_file(api: Api, given: GetFile) -> dict[str, Any]:
    parts = given.path.strip("/").split("/") if given.path.strip("/") else []
    if any(part in ("", ".", "..") for part in parts):
        raise BadInput("is no path in a repository", field="path", fix="as in src/app.py")
    where = "/".join(quote(part, safe="") for part in parts)
    path = f"{repo_path(given.repo)}/contents/{where}".rstrip("/")
    # The object form is one for files and directories.
    reply = await api.get(path, {"ref": given.ref}, accept="application/vnd.github.object+json")
    found = reply.table
    if found.get("type") == "dir" or isinstance(reply.body, list):
        entries = reply.body if isinstance(reply.body, list) else found.get("entries") or []
        return {"path": given.path, "type": "dir", "entries": [_entry(one) for one in entries if isinstance(one, dict)]}
    if found.get("type") != "file":
        raise Refused(f"GitHub: {given.path} is a {found.get('type')}, not a file")
    size = found.get("size")
    if not isinstance(size, int) or size > LARGEST:
        raise Refused(f"GitHub: {given.path} has {size} bytes; at most {LARGEST} are shown")
    return {
        "path": given.path,
        "type": "file",
        "size": size,
        "sha": found.get("sha"),
        "url": found.get("html_url"),
        "content": _text(found, given.path),
    }


def _text(found: Mapping[str, Any], path: str) -> str:
    try:
        content = base64.b64decode(str(found.get("content", "")))
    except binascii.Error:
        raise Refused(f"GitHub: the content of {path} cannot be read") from None
    if b"\0" in content:
        raise Refused(f"GitHub: {path} is no text file")
    return content.decode("utf-8", "replace")


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": entry.get("name"), "type": entry.get("type"), "size": entry.get("size")}
