"""How far an agent that may use its tools unasked may reach with them: the plan's folders and addresses. Pure.

Where agents can be told folders and addresses they keep to them by themselves; here are those that ask instead. That
this is no sandbox goes without saying: a shell command says nothing of what it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from pilothouse.adapters.agents.acp.news import Wanted

CHANGES = frozenset({"edit", "delete", "move"})
"""What the protocol calls tools that change files."""


def too_far(wanted: Wanted, within: Callable[[str], bool], urls: Iterable[str]) -> bool:
    """Whether a tool would change files where the agent has no business, or fetch what nobody named.

    ``within``: whether a path lies in the worktree or a folder that was named. Without any ``urls`` it may fetch
    what it likes.
    """
    if wanted.kind in CHANGES:
        return not all(map(within, wanted.paths))
    if wanted.kind == "fetch" and wanted.url:
        named = tuple(urls)
        return bool(named) and not any(covers(one, wanted.url) for one in named)
    return False


def covers(named: str, url: str) -> bool:
    """Whether ``url`` is at an address that was named: by its beginning, or by its host (``*.`` for all below)."""
    if "://" in named:
        return url == named or url.startswith(f"{named.rstrip('/')}/")
    try:
        host = (urlsplit(url if "://" in url else f"//{url}").hostname or "").lower()
    except ValueError:
        return False
    wanted = named.lower().rstrip("/")
    return host == wanted or (wanted.startswith("*.") and host.endswith(wanted[1:]))
