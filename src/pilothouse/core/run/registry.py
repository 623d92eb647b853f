"""The event registry: every event type, its versions, and how it is written and read.

Owns the stored form (a JSON array of events, one per batch) and the wire form (one JSON object per event with its
envelope). Does not know where either goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import msgspec

from pilothouse.core.run.events import Event, Recorded
from pilothouse.errors import StoreFailed

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the stored form of one version, gives that of the next."""


class _Envelope(msgspec.Struct, rename="camel"):
    id: str
    seq: int
    run_id: str
    timestamp: int


class Registry:
    """All event types of a server, composed of one family per kind of run."""

    def __init__(
        self,
        *families: Iterable[type[Event]],
        upcasters: dict[tuple[str, int], Upcaster] | None = None,
    ) -> None:
        """``upcasters`` maps (type, version) to the step to version + 1. Raises ``ValueError`` for a type that is
        registered twice or a version with no way up."""
        self.types: dict[str, type[Event]] = {}
        self._upcasters = upcasters or {}
        for cls in (cls for family in families for cls in family):
            name = cls.type_name()
            if name in self.types:
                raise ValueError(f"event type {name} is registered twice")
            missing = [v for v in range(1, cls.version) if (name, v) not in self._upcasters]
            if missing:
                raise ValueError(f"event type {name} has no upcaster from version {missing[0]}")
            self.types[name] = cls
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(list[Union[tuple(self.types.values())]])  # type: ignore[misc]  # noqa: UP007  # built at run time

    def encode(self, events: Sequence[Event]) -> bytes:
        """The stored form of a batch."""
        if not self._upcasters:
            return self._encoder.encode(events)
        return self._encoder.encode([{**msgspec.to_builtins(e), "v": type(e).version} for e in events])

    def decode(self, body: bytes) -> list[Event]:
        """The events of a stored batch, brought up to their present version.

        Raises ``StoreFailed`` for a type or version this program does not know (written by a newer one).
        """
        try:
            if not self._upcasters and b'"v":' not in body:  # a version beside a type is a newer program's
                return list(self._decoder.decode(body))
            return [self._upcast(raw) for raw in msgspec.json.decode(body, type=list[dict[str, Any]])]
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise StoreFailed(f"the log holds an event this version cannot read: {error}") from error

    def _upcast(self, raw: dict[str, Any]) -> Event:
        name, version = str(raw["type"]), int(raw.pop("v", 1))
        cls = self.types.get(name)
        if cls is None or version > cls.version:
            raise StoreFailed(f"the log holds {name} version {version}, which this version cannot read")
        while version < cls.version:
            raw = self._upcasters[(name, version)](raw)
            version += 1
        return msgspec.convert(raw, cls)

    def wire(self, recorded: Recorded) -> bytes:
        """The wire form: one JSON object, envelope first."""
        envelope = _Envelope(recorded.id, recorded.seq, recorded.run_id, recorded.at)
        return self._encoder.encode(envelope)[:-1] + b"," + self._encoder.encode(recorded.event)[1:]

    def unwire(self, data: bytes | str) -> Recorded:
        """The inverse of ``wire``, for clients that fold a stream."""
        envelope = msgspec.json.decode(data, type=_Envelope)
        event = self._decoder.decode(b"[" + (data.encode() if isinstance(data, str) else data) + b"]")[0]
        return Recorded(envelope.run_id, envelope.seq, envelope.timestamp, event)
