"""From what people type to the id of a run: an id, its beginning, or ``last``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pilothouse.errors import BadInput, NotFound
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.words import short

LAST = "last"
_FULL = 36
_SHORTEST = 4
_PAGE = 200
_MOST_PAGES = 100
_SHOWN = 5
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
    if len(given) < _SHORTEST:
        raise BadInput(f"{given!r} is too short for the beginning of an id", fix="give 4 characters or more, or `last`")
    found = [run_id for run_id in _ids(client, kind) if run_id.startswith(given.lower())]
    if not found:
        raise NotFound(f"no {what} begins with {given!r}; see `pilothouse {what if kind else 'runs'} list`")
    if len(found) > 1:
        some = ", ".join(short(run_id) for run_id in found[:_SHOWN])
        raise BadInput(f"{len(found)} of them begin with {given!r}: {some}", fix="give more of the id")
    return found[0]


def _ids(client: Client, kind: str | None) -> Iterator[str]:
    before: object = None
    for _ in range(_MOST_PAGES):
        page = client.get("/api/runs", kind=kind, limit=_PAGE, before=before)
        yield from (str(row["id"]) for row in page["runs"])
        before = page.get("next")
        if before is None:
            return
