"""Reading a backend's stream: network chunks in, what it says out, whichever of the two wires it speaks.

Pieces of the answer that came in one chunk and follow each other are told as one: nobody could have seen them apart.
"""

from __future__ import annotations

from pilothouse.core.chat.backend import BackendEvent, NotUnderstood
from pilothouse.core.chat.envelope import EnvelopeReader, is_enveloped
from pilothouse.core.chat.sse import SseDecoder
from pilothouse.core.chat.untyped import UntypedReader


class WireReader:
    """One stream of one backend. ``feed`` it chunks, then ``end`` it; both raise ``EventTooLong``."""

    def __init__(self) -> None:
        self._decoder = SseDecoder()
        self._reader: UntypedReader | EnvelopeReader | None = None

    @property
    def done(self) -> bool:
        """Whether the stream said that it is over, beyond what its events say."""
        return self._decoder.done

    @property
    def enveloped(self) -> bool:
        """Whether it is the strict wire, as far as is known."""
        return isinstance(self._reader, EnvelopeReader)

    def feed(self, chunk: bytes) -> list[BackendEvent]:
        """What a chunk says."""
        return self._read(self._decoder.feed(chunk))

    def end(self) -> list[BackendEvent]:
        """What is left when the stream has ended."""
        return self._read(self._decoder.end())

    def _read(self, payloads: list[bytes]) -> list[BackendEvent]:
        found: list[BackendEvent] = []
        for index, payload in enumerate(payloads):
            if self._reader is not None:
                return found + self._reader.read_all(payloads[index:])
            found += self._first(payload)
        return found

    def _first(self, payload: bytes) -> list[BackendEvent]:
        """The first event that is understood decides which wire it is."""
        reader = EnvelopeReader() if is_enveloped(payload) else UntypedReader()
        found = reader.read(payload)
        if any(not isinstance(event, NotUnderstood) for event in found):
            self._reader = reader
        return found
