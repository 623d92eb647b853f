"""What the warden and its clients say to each other: one JSON object per line, in both directions.

Frozen and versioned: after an upgrade an old warden meets a new server, so within a version fields are only ever
added and unknown ones are ignored. Standard library only. Knows no sockets and no processes.

A request is ``{"op": …, "id": n, …}`` and is answered by ``{"re": n, "ok": true, …}`` or
``{"re": n, "ok": false, "error": code, "message": text}``. The first request of a connection is ``hello``.

=========== ================================================= ==========================================
op          fields                                            answer
=========== ================================================= ==========================================
hello       version, epoch, orphanGraceMs?                    version, instance, pid
ping                                                          —
open        attempt, fence                                    instance
start       key, argv, cwd, env, output, errors?, stdin,      known: true when the key was known already
            timeoutMs, graceMs, redact                        and nothing was started
attach      key                                               state: running | ended | unknown, to?,
                                                              errorsTo?, exit?
detach      key                                               — (no answer when it has no id)
cancel      key, graceMs?                                     —
inventory                                                     instance, running: [key], ended: {key: exit}
forget      key                                               —
shutdown    when: now | idle                                  —; the warden ends and the connection closes
=========== ================================================= ==========================================

After ``attach`` the warden pushes ``{"ev": "grew", "key", "to", "errorsTo"?}`` (bursts merged) and, once,
``{"ev": "ended", "key", "exit"}``. A connection that a newer owner has replaced gets ``{"ev": "fenced"}`` and is
closed. ``errors`` names the output of stderr; without it, and with a warden that is older than this field, stderr
goes to ``output``.
An exit is ``{reason, code, signal, error, outputTo, startedAt, endedAt}``.
"""

from __future__ import annotations

import json
from typing import Any, TypedDict

VERSION = 1
MAX_LINE = 64 << 20
"""Bytes. A command carries its whole environment and its standard input."""

STALE_EPOCH = "stale_epoch"
STALE_FENCE = "stale_fence"
BAD_REQUEST = "bad_request"
ENDING = "ending"
FAILED = "failed"
WRONG_VERSION = "wrong_version"

Message = dict[str, Any]


class ExitDict(TypedDict):
    """How a command ended, as it travels and as it is kept in the spool."""

    reason: str
    code: int | None
    signal: int | None
    error: str
    outputTo: int
    startedAt: int
    endedAt: int


def exit_dict(
    reason: str,
    *,
    status: int | None = None,
    error: str = "",
    output_to: int = 0,
    started_at: int = 0,
    ended_at: int = 0,
) -> ExitDict:
    """``status`` is what ``os.waitstatus_to_exitcode`` answered: negative for a signal."""
    return {
        "reason": reason,
        "code": status if status is not None and status >= 0 else None,
        "signal": -status if status is not None and status < 0 else None,
        "error": error,
        "outputTo": output_to,
        "startedAt": started_at,
        "endedAt": ended_at,
    }


class ProtocolError(Exception):
    """Raised when a line is not one JSON object or is too long."""


def encode(message: Message) -> bytes:
    """One line. ASCII, so that undecodable bytes of an environment survive as escaped surrogates."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


class Lines:
    """Turns a stream of bytes into messages."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[Message]:
        """The messages completed by ``data``. Raises ``ProtocolError``."""
        self._buffer += data
        if b"\n" not in data:
            if len(self._buffer) > self._limit:
                raise ProtocolError("line too long")
            return []
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        messages: list[Message] = []
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError as error:
                raise ProtocolError("not JSON") from error
            if not isinstance(message, dict):
                raise ProtocolError("not an object")
            messages.append(message)
        return messages
