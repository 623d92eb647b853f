"""Events every kind of run shares. Frozen, in the past tense; a state is the fold of its events.

Field names are snake_case here and camelCase on every wire. ``type`` is the tag. What is common to a batch
(run id, sequence numbers, time) is not part of an event but of its envelope, see ``Recorded``.
The names and meanings of the lifecycle, control and wait events are the runtime document's; those it does not
have (RUN_CREATED, PAUSE_REQUESTED, …) are marked *ours*.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from pilothouse.core.run.waits import Wait


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """Base of all events.

    ``durable`` events are synced to disk before anything follows from them: intents, answers, ends.
    ``version`` rises when the shape changes; the registry then holds an upcaster from each older one.
    """

    durable: ClassVar[bool] = True
    version: ClassVar[int] = 1

    @classmethod
    def type_name(cls) -> str:
        return str(cls.__struct_config__.tag)


class Recorded(msgspec.Struct, frozen=True):
    """An event with its place in the log. ``at`` is milliseconds since the epoch; order is by ``seq``."""

    run_id: str
    seq: int
    at: int
    event: Event

    @property
    def id(self) -> str:
        return f"{self.run_id}:{self.seq}"


class Source(StrEnum):
    """Who asked for a stop."""

    USER = "user"
    SYSTEM = "system"
    ERROR = "error"


class Link(StrEnum):
    """How a run hangs on its parent."""

    OWNED = "owned"
    """A stop of the parent stops it."""
    DETACHED = "detached"
    """It goes on by itself and reports into the parent's session."""


class RunCreated(Event, frozen=True, kw_only=True, tag="RUN_CREATED"):
    """The run exists. First event of every run (*ours*)."""

    kind: str
    name: str
    owner: str
    """The principal it belongs to."""
    session_id: str | None = None
    parent_run_id: str | None = None
    root_run_id: str
    link: Link = Link.DETACHED
    cause: str = ""
    """Why it exists: ``cli``, ``http``, an event id of the parent …"""


class RunStarted(Event, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """The first leg opened."""

    task: str = ""
    config: dict[str, Any] = {}
    leg: int = 1


class RunResumed(Event, frozen=True, kw_only=True, tag="RUN_RESUMED"):
    """Work goes on: in the same leg after a pause, in a new one after a terminal event (*ours*)."""

    leg: int
    source: Source = Source.USER
    reason: str = ""


class RunRecovered(Event, frozen=True, kw_only=True, tag="RUN_RECOVERED"):
    """A new owner took the run over after the last one was gone (*ours*). ``adopted`` are effects that still run or
    whose end was waiting; ``lost`` are those whose outcome nobody knows."""

    epoch: int
    adopted: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class RunFinished(Event, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """The leg ended by itself. ``status`` is SUCCEEDED or PARTIAL."""

    status: str = "SUCCEEDED"
    summary: dict[str, Any] = {}


class RunFailed(Event, frozen=True, kw_only=True, tag="RUN_FAILED"):
    """The leg ended without any success."""

    error: str
    recoverable: bool = True
    summary: dict[str, Any] = {}


class RunCanceled(Event, frozen=True, kw_only=True, tag="RUN_CANCELED"):
    """Ended for good: canceled, or discarded after an interruption (*ours*)."""

    reason: str = ""
    summary: dict[str, Any] = {}


class PauseRequested(Event, frozen=True, kw_only=True, tag="PAUSE_REQUESTED"):
    """Nothing new is started from here on (*ours*)."""

    source: Source = Source.USER


class Paused(Event, frozen=True, kw_only=True, tag="PAUSED"):
    """What was running has finished (*ours*)."""


class StopRequested(Event, frozen=True, kw_only=True, tag="STOP_REQUESTED"):
    source: Source = Source.USER


class CancelRequested(Event, frozen=True, kw_only=True, tag="CANCEL_REQUESTED"):
    """A stop that is final (*ours*)."""

    source: Source = Source.USER


class StopAcknowledged(Event, frozen=True, kw_only=True, tag="STOP_ACKNOWLEDGED"):
    """Nothing more will be dispatched. ``draining`` are the effects that were."""

    source: Source = Source.USER
    draining: tuple[str, ...] = ()


class Stopped(Event, frozen=True, kw_only=True, tag="STOPPED"):
    """Nothing of the run is left alive. ``forced``: an effect had to be given up in the middle."""

    source: Source = Source.USER
    forced: bool = False


class StopDelayed(Event, frozen=True, kw_only=True, tag="STOP_DELAYED"):
    """The stop takes longer than promised, and this is what it waits for (*ours*)."""

    waiting_for: tuple[str, ...]


class WaitOpened(Event, frozen=True, kw_only=True, tag="WAIT_OPENED"):
    """Something waits (*ours*; NEEDS_APPROVAL and USER_TAKEOVER_ON are the document's special cases)."""

    wait: Wait


class NeedsApproval(WaitOpened, frozen=True, kw_only=True, tag="NEEDS_APPROVAL"):
    """Somebody must allow that a tool is used. The wait is of kind approval; unanswered for ``timeout`` milliseconds
    it is refused (None: it waits for ever). ``action`` and ``preview`` are the runtime document's: what will be done,
    and to what. ``request_id`` and ``to`` are an agent's: how it calls its request, and as in every event of one."""

    action: str
    preview: dict[str, str] = msgspec.field(default_factory=dict)
    timeout: int | None = None
    request_id: str = ""
    to: int = 0


class WaitClosed(Event, frozen=True, kw_only=True, tag="WAIT_CLOSED"):
    """A wait was answered, or fell away (``answer`` empty). One answer wins (*ours*)."""

    wait_id: str
    answer: str = ""
    by: str = ""
    scope: str = ""


RUN_EVENTS: tuple[type[Event], ...] = (
    RunCreated,
    RunStarted,
    RunResumed,
    RunRecovered,
    RunFinished,
    RunFailed,
    RunCanceled,
    PauseRequested,
    Paused,
    StopRequested,
    CancelRequested,
    StopAcknowledged,
    Stopped,
    StopDelayed,
    WaitOpened,
    NeedsApproval,
    WaitClosed,
)
