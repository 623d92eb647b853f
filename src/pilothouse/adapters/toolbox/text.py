"""Text of files and answers, within bounds: what is text at all, lines that fit, and where something was left out."""

from __future__ import annotations

from pilothouse.errors import BadInput

LINE_CHARS = 2_000
"""What is shown of one line."""
_LOOKED_AT = 8_192
"""Bytes in which a file with a NUL is taken for binary, as git does."""


def as_text(data: bytes, path: str) -> str:
    """Raises ``BadInput`` for what is no UTF-8 text."""
    if is_binary(data):
        raise BadInput(f"{path!r} is binary ({len(data):,} bytes)", field="path", fix="only text can be read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path!r} is no UTF-8 text", field="path", fix="convert it first") from None


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:_LOOKED_AT]


def line(text: str, limit: int = LINE_CHARS) -> str:
    """One line, cut with a note of how much is missing."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} characters more)"
