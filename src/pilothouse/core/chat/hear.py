"""What a backend says, as events: one network chunk at a time.

Only what was said is decided here; what follows from it (that a tool is begun, that the turn is over) follows from the
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pilothouse.core.chat import backend, events, tool_events
from pilothouse.core.chat.approvals import asked_by_agent
from pilothouse.core.chat.call_states import OVER
from pilothouse.core.chat.calls import BackendEnd, CallStatus, RunBy
from pilothouse.core.chat.endings import end_of
from pilothouse.core.chat.inputs import Heard
from pilothouse.core.chat.joining import Joined
from pilothouse.core.chat.plain import clean, cut, plain, plain_object, small
from pilothouse.core.chat.routing import for_others, permit, run_by
from pilothouse.core.chat.seen import Seen, seen_of
from pilothouse.core.chat.state import Fault, Request, TurnState
from pilothouse.core.run.events import Event, WaitClosed

MOST_NOTICES = 200
"""More of what decides nothing is not recorded in one turn."""
LONGEST_ANSWER = 32 << 20
"""Characters of text, thoughts and arguments that one request may bring: within any time limit a fast backend says more
than memory holds."""
_NAME, _TEXT, _SUMMARY = 200, 4_000, 200_000
_STATUSES: dict[str, CallStatus] = {status: status for status in OVER}
_ENDS = {
    "error": (BackendEnd.ERROR, "the backend ended with an error", "backend_error"),
    "cancelled": (BackendEnd.ERROR, "the backend cancelled its answer", "backend_cancelled"),
}


def hear(state: TurnState, given: Heard) -> Sequence[Event]:
    """Of a request that is over, nothing counts any more but what it cost."""
    request = state.request
    if request is None or request.key != given.key:
        number = given.key.rpartition("/")[2]
        told = [one for one in given.said if isinstance(one, backend.Spent)]
        return [_used(one, int(number) if number.isdecimal() else 0) for one in told]
    return _Hearing(state, request).hear(given.said)


class _Hearing:
    """One chunk. Keeps what the state does not know yet."""

    def __init__(self, state: TurnState, request: Request) -> None:
        self._joined = Joined()
        self._tell = self._joined.tell
        self._state = state
        self._request = request
        self._fault = request.fault
        self._over = False
        self._seen: dict[str, Seen] = {}
        self._lanes = dict(state.open_lanes)
        self._conversation = state.conversation_id
        self._title = state.title
        self._notices = state.notices
        self._asked: set[str] = set()

    def hear(self, said: Iterable[backend.BackendEvent]) -> list[Event]:
        text, joined, lane, pieces = backend.Said, self._joined, None, [""]
        rest = iter(said)
        for one in rest:
            if type(one) is text:  # nearly all there is
                if one.lane != lane:
                    lane = one.lane
                    pieces = joined.text(lane)
                pieces.append(one.text)
            else:
                lane = None
                _READERS[type(one)](self, one)
                if self._over:
                    break
        for one in rest:
            if isinstance(one, backend.Spent):
                self.spent(one)
        joined.flush()
        if not self._over and self._request.said + sum(map(_length, joined.events)) > LONGEST_ANSWER:
            why = f"The answer is longer than {LONGEST_ANSWER:,} characters"
            self._tell(end_of(self._request, BackendEnd.ERROR, Fault(why, code="answer_too_long")))
        return joined.events

    def thought(self, said: backend.Thought) -> None:
        self._joined.thought(said)

    # --- tool calls ---

    def _call(self, call_id: str) -> Seen | None:
        seen = self._seen.get(call_id)
        if seen is None and (call := self._state.calls.get(call_id)) is not None:
            seen = self._seen[call_id] = seen_of(call)
        return seen

    def _register(self, call_id: str, name: str, lane: str, arguments: dict[str, Any] | None = None) -> Seen:
        self._tell(
            tool_events.ToolCallGenerating(
                tool_call_id=call_id, tool_name=cut(name, _NAME), arguments=arguments, lane=lane
            )
        )
        seen = self._seen[call_id] = self._seen.get(call_id) or Seen()
        seen.name = cut(name, _NAME) or seen.name
        seen.arguments = arguments if arguments is not None else seen.arguments
        return seen

    def generating(self, said: backend.ToolGenerating) -> None:
        seen = self._call(said.id)
        if seen is None or (not seen.name and said.name and not seen.told):
            self._register(said.id, said.name, said.lane)

    def arguments(self, said: backend.ToolArguments) -> None:
        seen = self._call(said.id)
        if seen is None:
            seen = self._register(said.id, said.name, said.lane)
        if seen.told or seen.over or not said.delta:
            return
        self._joined.arguments(said.id).append(said.delta)
        seen.pieces.append(said.delta)

    def called(self, said: backend.ToolCalled) -> None:
        seen = self._call(said.id)
        if said.partial:
            if seen is None or not (seen.told or seen.over):
                self._register(said.id, said.name, said.lane, said.arguments and plain_object(said.arguments))
            return
        name = cut(said.name, _NAME) or (seen.name if seen else "")
        runner = run_by(self._state, said, name)
        if seen is not None and seen.told and not seen.rebound(name, runner):
            if name != seen.name:
                self._notice("call_repeated", {"toolCallId": said.id, "name": name, "as": seen.name})
            return
        if seen is None:
            seen = self._seen[said.id] = Seen()
        arguments = seen.whole(said)
        if seen.over:
            runner = RunBy.BACKEND  # its result came first: it is not executed
        seen.name, seen.told, seen.run_by = name, True, runner
        waits = self._state.facts.features.reports
        self._tell(
            tool_events.ToolCalled(
                tool_call_id=said.id,
                tool_name=name,
                arguments=arguments or {},
                lane=said.lane,
                call=self._request.number,
                run_by=runner,
                permit=permit(self._state, name, runner),
                ui=plain_object(said.ui),
                report=waits and for_others(self._state, runner, name) and arguments is not None,
            )
        )
        if arguments is None and runner is not RunBy.BACKEND:
            seen.over = True
            self._tell(
                tool_events.ToolEnded(
                    tool_call_id=said.id,
                    status=CallStatus.ERROR,
                    error=f"The arguments of {name} are not a JSON object",
                    reason="bad_arguments",
                    report=waits,
                )
            )

    def answered(self, said: backend.ToolAnswered) -> None:
        seen = self._call(said.id)
        if seen is None:
            seen = self._register(said.id, said.name, said.lane)
        if seen.over or seen.settled:
            return  # it repeats what it was told
        seen.over = True
        if seen.wait_id:
            self._tell(WaitClosed(wait_id=seen.wait_id, scope=said.id))
        status = _STATUSES.get(said.status, CallStatus.SUCCESS if said.success else CallStatus.ERROR)
        error = "" if status is CallStatus.SUCCESS else cut(said.error, _TEXT)
        result = plain(said.result)
        self._tell(tool_events.ToolEnded(tool_call_id=said.id, status=status, result=result, error=error, known=True))

    # --- subagents ---

    def lane_opened(self, said: backend.LaneOpened) -> None:
        if said.id not in self._lanes:
            self._lanes[said.id] = None
            self._tell(events.LaneOpened(tool_call_id=said.id, agent=cut(said.agent, _NAME), lane=said.lane))

    def lane_closed(self, said: backend.LaneClosed) -> None:
        lane = said.id or next(reversed(self._lanes), "")
        if lane in self._lanes:
            del self._lanes[lane]
            self._tell(events.LaneClosed(tool_call_id=lane))

    def structured(self, said: backend.Structured) -> None:
        self._tell(
            events.StructuredResult(
                kind=cut(said.kind, _NAME),
                summary=clean(said.summary),
                data=plain(said.data),
                ok=said.success,
                lane=said.lane,
            )
        )

    # --- the conversation ---

    def conversation(self, said: backend.ConversationKnown) -> None:
        if said.id and said.id != self._conversation:
            self._conversation = said.id
            self._tell(events.ConversationKnown(conversation_id=clean(said.id)))

    def ignored(self, said: backend.ChatKnown) -> None:
        """Its own name for the chat, which has one here."""

    def titled(self, said: backend.Titled) -> None:
        title = cut(said.title.strip(), _NAME)
        if title and title != self._title:
            self._title = title
            self._tell(events.TitleUpdated(title=title))

    def spent(self, said: backend.Spent) -> None:
        self._tell(_used(said, self._request.number))

    def noticed(self, said: backend.Noticed) -> None:
        if said.kind == "steering_applied":
            steering_id = str(said.data.get("steeringId", ""))
            part = self._state.steering.get(steering_id)
            if part is not None and not part.call:
                self._tell(events.SteeringApplied(steering_ids=(steering_id,), call=self._request.number))
                return
        ours = said.kind in (events.FAULT, events.STEERING_FAILED)
        self._notice(f"its_{said.kind}" if ours else said.kind, said.data)

    def odd(self, said: backend.NotUnderstood) -> None:
        self._notice("not_understood", {"why": cut(said.why, _NAME), "payload": cut(said.payload, _NAME)})

    def _notice(self, kind: str, data: dict[str, Any]) -> None:
        self._notices += 1
        if self._notices > MOST_NOTICES:
            return
        told = small(data)
        summary = data.get("summary")
        if kind.startswith("compaction") and isinstance(summary, str):
            told = {"summary": cut(summary, _SUMMARY)}
        self._tell(events.TurnNoticed(kind=cut(kind, _NAME), data=told))

    def asked(self, said: backend.Asked) -> None:
        asked = asked_by_agent(self._state, said)
        if asked.wait.id not in self._state.asked and asked.wait.id not in self._asked:
            self._asked.add(asked.wait.id)
            self._tell(asked)

    # --- the end ---

    def failed(self, said: backend.Failed) -> None:
        """Not the end yet: a backend may come to a good end all the same, and its stream says when it is over."""
        self._fault = Fault(said.message, said.shown, said.code or events.FAULT)
        told = {"error": cut(said.message, _TEXT), "shown": cut(said.shown, _TEXT), "code": cut(said.code, _NAME)}
        self._tell(events.TurnNoticed(kind=events.FAULT, data=told))

    def completed(self, said: backend.Completed) -> None:
        if said.status not in _ENDS:
            self._tell(events.BackendEnded(call=self._request.number, end=BackendEnd.COMPLETE))
        else:
            end, why, code = _ENDS[said.status]
            fault = self._fault or Fault(f"{why}: {said.reason}" if said.reason else why, "", code)
            self._tell(end_of(self._request, end, fault))
        self._over = True

    def paused(self, said: backend.Paused) -> None:
        for call_id in said.pending:
            if self._call(call_id) is None:
                self.called(backend.ToolCalled(id=call_id, arguments={}))  # it waits for something nobody was told of
        self._tell(
            events.BackendEnded(
                call=self._request.number,
                end=BackendEnd.PAUSED,
                checkpoint_id=clean(said.checkpoint_id),
                pending=tuple(dict.fromkeys(said.pending)),
            )
        )
        self._over = True


def _length(event: Event) -> int:
    match event:
        case events.TextDelta() | events.ReasoningDelta():
            return len(event.text)
        case tool_events.ToolCallArgs():
            return len(event.delta)
    return 0


def _used(said: backend.Spent, number: int) -> events.UsageRecorded:
    return events.UsageRecorded(
        call=number,
        model=cut(said.model, _NAME),
        input_tokens=said.input_tokens,
        output_tokens=said.output_tokens,
        cached_tokens=said.cached_tokens,
        cost=said.cost,
    )


_READERS: dict[type[Any], Callable[[_Hearing, Any], None]] = {
    backend.Thought: _Hearing.thought,
    backend.ToolGenerating: _Hearing.generating,
    backend.ToolCalled: _Hearing.called,
    backend.ToolArguments: _Hearing.arguments,
    backend.ToolAnswered: _Hearing.answered,
    backend.LaneOpened: _Hearing.lane_opened,
    backend.LaneClosed: _Hearing.lane_closed,
    backend.Structured: _Hearing.structured,
    backend.ConversationKnown: _Hearing.conversation,
    backend.ChatKnown: _Hearing.ignored,
    backend.Titled: _Hearing.titled,
    backend.Paused: _Hearing.paused,
    backend.Noticed: _Hearing.noticed,
    backend.Spent: _Hearing.spent,
    backend.Asked: _Hearing.asked,
    backend.Failed: _Hearing.failed,
    backend.Completed: _Hearing.completed,
    backend.NotUnderstood: _Hearing.odd,
}
