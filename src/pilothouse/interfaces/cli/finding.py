"""From what people type to an id: of a run or a conversation its id, the beginning of it, or ``last``; of a wait its
node, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pilothouse.errors import BadInput, NotFound
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.words import short

LAST = "last"
_FULL = 36
_SHORTEST = 4
_PAGE = 200
_MOST_PAGES = 100
_SHOWN = 5
_MOST_CHATS = 1000
_LIKE_AN_ID = re.compile(r"[0-9a-fA-F-]{1,36}")


def find_plan(client: Client, given: str) -> str:
    return find_run(client, given, kind="plan")


def find_run(client: Client, given: str, *, kind: str | None = None) -> str:
    """The id. Raises ``NotFound`` and, when it is too short or begins several ids, ``BadInput``."""
    what = kind or "run"
    if given == LAST:
        newest = client.get("/api/runs", kind=kind, limit=1)["runs"]
        if not newest:
            raise NotFound(f"there is no {what} yet")
        return str(newest[0]["id"])
    if not _LIKE_AN_ID.fullmatch(given):
        raise NotFound(f"{given!r} is no id; see `pilothouse {what if kind else 'runs'} list`")
    if len(given) == _FULL:
        return given.lower()
    return _begun_by(given, _ids(client, kind), what, f"{what if kind else 'runs'} list")


def find_chat(client: Client, given: str) -> str:
    """The id of a conversation. Raises ``NotFound`` and, when it is too short or begins several ids, ``BadInput``."""
    if len(given) == _FULL:
        return given.lower()
    if given != LAST:
        return _begun_by(given, _chat_ids(client), "conversation", "chats")
    if (newest := next(_chat_ids(client), None)) is None:
        raise NotFound("there is no conversation yet")
    return newest


def _begun_by(given: str, ids: Iterable[str], what: str, see: str) -> str:
    """The one id that begins so. Nothing is asked for what is too short. Raises as above."""
    if len(given) < _SHORTEST:
        raise BadInput(f"{given!r} is too short for the beginning of an id", fix="give 4 characters or more, or `last`")
    found = [id for id in ids if id.startswith(given.lower())]
    if not found:
        raise NotFound(f"no {what} begins with {given!r}; see `pilothouse {see}`")
    if len(found) > 1:
        some = ", ".join(short(id) for id in found[:_SHOWN])
        raise BadInput(f"{len(found)} of them begin with {given!r}: {some}", fix="give more of the id")
    return found[0]


def find_wait(client: Client, given: str) -> str:
    """The id of what waits: given whole, by its beginning, or by the producer id of the node that waits. Raises
    ``NotFound`` and, when it means several, ``BadInput``."""
    waits = client.get("/api/approvals")["approvals"]
    if any(wait["id"] == given for wait in waits):
        return given
    begins = [wait["id"] for wait in waits if len(given) >= _SHORTEST and wait["id"].startswith(given.lower())]
    found = begins or [wait["id"] for wait in waits if (wait.get("detail") or {}).get("node") == given]
    if not found:
        raise NotFound(f"nothing waits for an answer under {given!r}; see `pilothouse approvals list`")
    if len(found) > 1:
        raise BadInput(f"{len(found)} wait under {given!r}", fix="give an id of `pilothouse approvals list`")
    return str(found[0])


def _ids(client: Client, kind: str | None) -> Iterator[str]:
    before: object = None
    for _ in range(_MOST_PAGES):
        page = client.get("/api/runs", kind=kind, limit=_PAGE, before=before)
        yield from (str(row["id"]) for row in page["runs"])
        before = page.get("next")
        if before is None:
            return


def _chat_ids(client: Client) -> Iterator[str]:
    """The last used first."""
    yield from (str(chat["id"]) for chat in client.get("/api/copilot/chats", limit=_MOST_CHATS)["chats"])
