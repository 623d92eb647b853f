"""Messages as mail: one to be sent, made; one that was received, read. Values in, values out."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from pilothouse.errors import BadInput

LONGEST_BODY = 50_000
"""Characters of a message that are shown."""

_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"<(?:br|/p|/div|/tr|/li|/h[1-6])\b[^>]*>", re.IGNORECASE)
_BLANKS = re.compile(r"\n\s*\n\s*")


def compose(
    *, to: Sequence[str], cc: Sequence[str], subject: str, text: str, answers: Mapping[str, str] | None = None
) -> str:
    """A message as Gmail takes it. ``answers`` are headers of the message that it answers. Raises ``BadInput``."""
    message = EmailMessage(policy=SMTP)
    try:
        message["To"] = [_address(one, "to") for one in to]
        if cc:
            message["Cc"] = [_address(one, "cc") for one in cc]
        message["Subject"] = " ".join(subject.split())
        if answers and (id_ := answers.get("message-id")):
            message["In-Reply-To"] = id_
            message["References"] = " ".join(f"{answers.get('references', '')} {id_}".split())
        message.set_content(text)
    except (MessageError, ValueError) as error:
        raise BadInput(f"cannot be sent: {error}", field="message") from None
    return base64.urlsafe_b64encode(message.as_bytes()).decode()


def _address(text: str, field: str) -> Address:
    name, _, rest = text.strip().rpartition("<")
    spec = rest.removesuffix(">").strip()
    try:
        return Address(display_name=name.strip().strip('"'), addr_spec=spec)
    except (MessageError, ValueError, IndexError):
        raise BadInput(f"{text!r} is no address", field=field, fix="as in grace@example.org") from None


def headers_of(payload: Any) -> dict[str, str]:
    """By name, in lower case; of several the first."""
    found: dict[str, str] = {}
    given = payload.get("headers") if isinstance(payload, dict) else None
    for header in given if isinstance(given, list) else ():
        match header:
            case {"name": str(name), "value": str(value)}:
                found.setdefault(name.lower(), value)
    return found


def body_of(payload: Any) -> str:
    """The text of a message: plain if there is any, else what its HTML says."""
    parts = list(_parts(payload))
    plain = [text for kind, text in parts if kind == "text/plain"]
    text = "\n".join(plain) if plain else "\n".join(_without_tags(text) for kind, text in parts if kind == "text/html")
    return text if len(text) <= LONGEST_BODY else f"{text[:LONGEST_BODY]}… ({len(text)} characters)"


def attachments_of(payload: Any) -> list[dict[str, Any]]:
    found = []
    for part in _walk(payload):
        if part.get("filename"):
            body = part.get("body")
            size = body.get("size") if isinstance(body, dict) else None
            found.append({"name": part["filename"], "type": part.get("mimeType"), "size": size})
    return found


def _parts(payload: Any) -> Iterator[tuple[str, str]]:
    for part in _walk(payload):
        body = part.get("body")
        data = body.get("data") if isinstance(body, dict) else None
        if isinstance(data, str) and not part.get("filename"):
            yield str(part.get("mimeType")), _decoded(data, headers_of(part).get("content-type", ""))


def _walk(part: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if not isinstance(part, dict) or depth > 20:
        return
    yield part
    inner = part.get("parts")
    for one in inner if isinstance(inner, list) else ():
        yield from _walk(one, depth + 1)


def _decoded(data: str, kind: str) -> str:
    try:
        raw = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
    except binascii.Error:
        return ""
    charset = re.search(r'charset="?([\w.:-]+)', kind, re.IGNORECASE)
    try:
        return raw.decode(charset[1] if charset else "utf-8", "replace")
    except LookupError:
        return raw.decode("utf-8", "replace")


def _without_tags(text: str) -> str:
    return _BLANKS.sub("\n\n", html.unescape(_TAG.sub("", _BREAK.sub("\n", text)))).strip()
