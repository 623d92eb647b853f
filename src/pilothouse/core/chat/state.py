"""The state of a turn: the fold of its events.

Texts are kept in the pieces they arrived in and joined when somebody reads them, so that a long answer is folded in
time proportional to its length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pilothouse.core.chat.call_states import OVER, check_move
from pilothouse.core.chat.calls import BackendEnd, CallReason, CallStatus, Offered, RunBy
from pilothouse.core.chat.effects import AnswerBackend
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.chat.message import Block
from pilothouse.core.run.contract import Effect, Timer
from pilothouse.core.run.state import Common
from pilothouse.core.run.usage import Tally
from pilothouse.core.tools.spec import Permit


@dataclass(slots=True)
class TextPart:
    """Text of one lane, or a thought (``thinking``), that nothing else of its lane interrupts. ``ended``: no more text
    goes to it."""

    call: int
    lane: str = ""
    thinking: bool = False
    ended: bool = False
    pieces: list[str] = field(default_factory=list)
    block: Block | None = field(default=None, compare=False, repr=False)
    """What is read of it, once it has ended and somebody did."""

    @property
    def text(self) -> str:
        """The pieces joined, once."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


@dataclass(slots=True)
class ToolCall:
    """One call. ``told``: it has been told whole; before that, its arguments are still arriving. ``brought``: the
    request its result went with; 0: none yet. Times are milliseconds since the epoch."""

    id: str
    name: str = ""
    status: CallStatus = CallStatus.GENERATING
    arguments: dict[str, Any] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    """Its arguments as JSON text, as far as they were told that way."""
    lane: str = ""
    call: int = 1
    run_by: RunBy = RunBy.BACKEND
    permit: Permit = Permit.ALLOW
    told: bool = False
    attempt: int = 0
    background: bool = False
    wait_id: str = ""
    brought: int = 0
    result: Any = None
    error: str = ""
    reason: str = ""
    runs: tuple[str, ...] = ()
    asked_at: int | None = None
    """When a person was asked about it."""
    started_at: int | None = None
    ended_at: int | None = None
    block: Block | None = field(default=None, compare=False, repr=False)
    """What is read of it, once it is over and somebody did; until something more is told of it."""

    def move(self, new: CallStatus) -> None:
        """Raises ``IllegalMove``."""
        check_move(self.status, new)
        self.status = new

    @property
    def over(self) -> bool:
        return self.status in OVER

    @property
    def ours(self) -> bool:
        """The backend does not execute it, and so has to be brought its result."""
        return self.run_by is not RunBy.BACKEND

    @property
    def answered(self) -> bool:
        """There is something to tell the backend of it: how it ended, or not to wait for it."""
        return self.over or self.background


@dataclass(slots=True)
class SteeringPart:
    """``call``: the request that it went with; 0: it has not been heard yet. ``told``: the user was told so."""

    id: str
    text: str
    call: int = 0
    told: bool = False
    block: None = None
    """It may yet go with another request."""


Part: TypeAlias = TextPart | ToolCall | SteeringPart


@dataclass(slots=True)
class Fault:
    """Why something went wrong. ``shown`` is meant for people where it differs from ``error``."""

    error: str
    shown: str = ""
    code: str = ""


@dataclass(slots=True)
class Request:
    """One request to the backend. ``asked`` is what for: of one that is made again, what the first was made for.
    ``heard``: it brought something; ``said``: how many characters of it. ``tries`` counts it and those before it that
    it repeats. ``fault``: an error in the middle of its stream, which its end may outrank. ``backoff``: the wait before
    it is made again."""

    number: int
    reason: CallReason
    asked: CallReason
    checkpoint_id: str
    results: tuple[str, ...]
    tries: int = 1
    heard: bool = False
    said: int = 0
    fault: Fault | None = None
    end: BackendEnd | None = None
    ended_at: int = 0
    error: str = ""
    shown: str = ""
    code: str = ""
    transient: bool = False
    retry_after_ms: int = 0
    paused_at: str = ""
    """The checkpoint that it ended with."""
    pending: tuple[str, ...] = ()
    backoff: str = ""
    again: bool = False
    """The wait is over."""

    @property
    def key(self) -> str:
        return call_key(self.number)

    @property
    def open(self) -> bool:
        return self.end is None

    @property
    def failed(self) -> bool:
        return self.end not in (None, BackendEnd.COMPLETE, BackendEnd.PAUSED)


@dataclass(slots=True)
class TurnState:
    """``open``: the gated effects whose intent is recorded and whose outcome is not. ``housekeeping``: the ungated ones
    that are owed. ``timers``: what ends waits, and the leg, when nobody does.
    ``parts``: everything that was said and called, in the order each began; ``tails``: the part of each lane
    that more text goes to. ``calls``: all tool calls by id; ``live``: those that are not over; of these,
    ``ready``: may begin as soon as there is room; ``fresh``: were told, and something else is to become of them here;
    ``leftover``: the last request did not bring to an end, though it came to a good one itself.
    ``questions``: what an agent asked, by wait, still without the answer. ``grants``: tools that a person allowed for
    longer than once. ``new_leg``: the backend has not been asked in it yet.
    ``left_ms``: what was left of the leg's time when the turn began to wait for a person; None: its clock runs."""

    common: Common
    received: TurnReceived | None = None
    chat_id: str = ""
    owner: str = ""
    offered: dict[str, Offered] = field(default_factory=dict)
    open: dict[str, Effect] = field(default_factory=dict)
    housekeeping: dict[str, Effect] = field(default_factory=dict)
    timers: dict[str, Timer] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    tails: dict[str, TextPart] = field(default_factory=dict)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    live: dict[str, ToolCall] = field(default_factory=dict)
    ready: dict[str, ToolCall] = field(default_factory=dict)
    fresh: dict[str, ToolCall] = field(default_factory=dict)
    leftover: dict[str, ToolCall] = field(default_factory=dict)
    steering: dict[str, SteeringPart] = field(default_factory=dict)
    lanes: dict[str, str] = field(default_factory=dict)
    """The subagents by the calls they work for."""
    open_lanes: dict[str, None] = field(default_factory=dict)
    questions: dict[str, AnswerBackend] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    """Every wait an agent ever asked for."""
    grants: dict[str, None] = field(default_factory=dict)
    last: Request | None = None
    leg_began_with: int = 1
    new_leg: bool = True
    timed_out: bool = False
    aborted: int = 0
    """The last leg of which the backend is or was to be told that it is being ended."""
    clock: str = ""
    """The key of the leg's timer."""
    clocks: int = 0
    left_ms: int | None = None
    workflow_id: str = ""
    conversation_id: str = ""
    title: str = ""
    compaction: str = ""
    notices: int = 0
    usage: Tally = field(default_factory=Tally)
    error: str = ""
    code: str = ""

    @property
    def facts(self) -> TurnReceived:
        """What the turn was accepted with. Never None after the first batch."""
        assert self.received is not None
        return self.received

    @property
    def request(self) -> Request | None:
        """The request to the backend that goes on."""
        return self.last if self.last is not None and self.last.open else None

    @property
    def deadline(self) -> int:
        """When the leg's time is up, as far as is known."""
        timer = self.timers.get(self.clock)
        return timer.until if timer is not None else 2**63

    def count(self, said: str) -> None:
        """So much more came in answer to the last request."""
        if self.last is not None:
            self.last.said += len(said)

    def executing(self, call: ToolCall) -> bool:
        """Its tool has been begun, and has not answered."""
        return tool_key(call.id, call.attempt) in self.open


def call_key(number: int) -> str:
    return f"call/{number}"


def tool_key(call_id: str, attempt: int) -> str:
    return f"tool/{call_id}/{attempt}"


def report_key(call_id: str) -> str:
    return f"report/{call_id}"


def remember_key(call_id: str) -> str:
    return f"remember/{call_id}"


def steer_key(steering_id: str) -> str:
    return f"steer/{steering_id}"


def abort_key(leg: int) -> str:
    return f"abort/{leg}"


def answer_key(wait_id: str) -> str:
    return f"answer/{wait_id}"


def expire_key(wait_id: str) -> str:
    return f"expire/{wait_id}"


def backoff_key(number: int) -> str:
    return f"backoff/{number}"


TITLE_KEY = "title"
