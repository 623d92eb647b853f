"""What a call is before anybody makes it: a generator of requests that is driven by either client, waiting or awaiting.

So each call is written once, without I/O. A flow yields what is to be done, is sent the answer or has the error thrown
into it, and returns what the caller gets. ``in_sync`` and ``in_async`` make methods of it.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from pilothouse.client.failures import Unreachable

P = ParamSpec("P")
T = TypeVar("T")

PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0)
"""Seconds before what may be asked twice is asked again after no answer came."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request; sent back is the JSON answered, None for an empty answer. ``timeout``: seconds, None for the
    client's own. ``reads``: an answer to a failure is one too where it has this field."""

    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    reads: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Now:
    """Sent back is a clock that only goes forward, in seconds."""


Step: TypeAlias = Ask | Pause | Now
Flow: TypeAlias = Generator[Step, Any, T]


def ask(
    method: str,
    path: str,
    body: object = None,
    *,
    query: Mapping[str, object] | None = None,
    key: str | None = None,
    timeout: float | None = None,
    again: bool = False,
    reads: str = "",
) -> Flow[Any]:
    """One request, made again when no answer came and that can do no harm: nobody heard it, it only looks, it has a
    ``key`` under which it is done once, or ``again`` says so. What is None in ``query`` is left out."""
    headers = {} if key is None else {"Idempotency-Key": key}
    given = {name: value for name, value in (query or {}).items() if value is not None}
    step = Ask(method, path, given, body, headers, timeout, reads)
    harmless = again or method == "GET" or key is not None
    for pause in PAUSES:
        try:
            return (yield step)
        except Unreachable as error:
            if error.sent and not harmless:
                raise
        yield Pause(pause)
    return (yield step)


def get(path: str, **query: object) -> Flow[Any]:
    return ask("GET", path, query=query)


def post(path: str, body: object = None) -> Flow[Any]:
    return ask("POST", path, {} if body is None else body)


def given(**fields: object) -> dict[str, object]:
    """A body of what was given; None: not."""
    return {name: value for name, value in fields.items() if value is not None}


def segment(name: str) -> str:
    """One part of a path, whatever is in it."""
    return quote(name, safe="")


class Waiting(Protocol):
    """What drives flows and returns when they have."""

    def run(self, flow: Flow[T], /) -> T: ...


class Awaiting(Protocol):
    """What drives flows and can be awaited meanwhile."""

    def run(self, flow: Flow[T], /) -> Awaitable[T]: ...


class Group:
    """Calls that belong together, of a client that waits: ``client.plans``."""

    def __init__(self, door: Waiting) -> None:
        self._door = door


class AsyncGroup:
    """Calls that belong together, of a client that is awaited."""

    def __init__(self, door: Awaiting) -> None:
        self._door = door


def in_sync(flow: Callable[P, Flow[T]]) -> Callable[Concatenate[Group, P], T]:
    """The method that makes the call and returns what it brought."""

    @functools.wraps(flow)
    def method(group: Group, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return group._door.run(flow(*args, **kwargs))

    return method


def in_async(flow: Callable[P, Flow[T]]) -> Callable[Concatenate[AsyncGroup, P], Awaitable[T]]:
    """The method that makes the call when it is awaited."""

    @functools.wraps(flow)
    def method(group: AsyncGroup, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return group._door.run(flow(*args, **kwargs))

    return method
