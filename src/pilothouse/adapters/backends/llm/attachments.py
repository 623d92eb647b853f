"""What a message brings along, as a model can take it: text as text, images as images, and a note of the rest.

Nothing is fetched: what lies behind an address is named, not read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from pydantic_ai.messages import BinaryContent, UserContent

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_TEXT = 200_000
"""Characters of one attachment or piece of context that a model gets."""
_NAMES = ("name", "filename", "fileName")
_TYPES = ("mimeType", "mediaType", "media_type", "mimetype", "type")
_TEXTS = ("text", "content")
_DATA = ("data", "base64", "url")


def attached(attachments: Iterable[Mapping[str, Any]]) -> Iterator[UserContent]:
    """Attachments: ``{name, mimeType, text}`` or ``{name, mimeType, data}`` with base64 or a ``data:`` address."""
    for one in attachments:
        name, media = _first(one, _NAMES) or "attachment", _first(one, _TYPES)
        if text := _first(one, _TEXTS):
            yield _framed("attachment", name, text)
            continue
        data = _first(one, _DATA)
        if data.startswith("data:"):
            head, _, data = data.partition(",")
            media = head.removeprefix("data:").split(";")[0] or media
        content = _decoded(data)
        if content and media in IMAGES:
            yield BinaryContent(content, media_type=media)
        elif content and (text := _as_text(content)):
            yield _framed("attachment", name, text)
        else:
            yield f"[An attachment that cannot be shown: {name}{f' ({media})' if media else ''}]"


def surroundings(context: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Pieces of context: ``{type, content}``, whatever else they are."""
    for one in context:
        content = one.get("content", one.get("text"))
        kind = _first(one, ("type", "kind")) or "context"
        if content is None:
            content = {key: value for key, value in one.items() if key not in ("type", "kind")}
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        if text:
            yield _framed("context", kind, text)


def _framed(tag: str, name: str, text: str) -> str:
    kept = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n… {len(text) - MAX_TEXT:,} more characters"
    label = name.replace('"', "'")
    return f'<{tag} name="{label}">\n{kept}\n</{tag}>'


def _first(one: Mapping[str, Any], names: Iterable[str]) -> str:
    found = (one.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _as_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""
