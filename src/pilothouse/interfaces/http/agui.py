"""The AG-UI 1.0 endpoint: a ``RunAgentInput`` in, the protocol's events out.

A thread is a conversation, of that id or one that began with it. The protocol's clients send the whole conversation
each time and the server has it already: of the messages only the last counts. A turn goes on when its reader leaves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.policy import Action, require
from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.agui import PROTOCOL, Projection, read_interrupt_id
from pilothouse.core.chat.agui_messages import messages_snapshot
from pilothouse.core.chat.calls import GivenResult
from pilothouse.core.tools.spec import ToolSpec
from pilothouse.engine.chats.values import Send
from pilothouse.engine.keyed import keyed_id
from pilothouse.engine.queries import Queries
from pilothouse.engine.services import Services
from pilothouse.errors import BadInput, NotFound, Refused
from pilothouse.interfaces.http.bodies import Name, like
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.sse import KEEPALIVE, EventStream

_encode = msgspec.json.Encoder().encode
_EXAMPLE = 'data: {"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}\n\n'
_APPROVED, _REFUSED = "approve", "refuse"


class _Lenient(BaseModel):
    """The protocol's values; what it adds later is passed over."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class AguiMessage(_Lenient):
    id: str = ""
    role: str
    content: Any = None
    tool_call_id: str = ""
    error: str | None = None

    @property
    def text(self) -> str:
        """Its text, of whatever parts it consists."""
        if isinstance(self.content, list):
            return "\n".join(str(part.get("text", "")) for part in self.content if isinstance(part, dict)).strip()
        return self.content if isinstance(self.content, str) else ""


class AguiContext(_Lenient):
    description: str = ""
    value: str = ""


class AguiTool(_Lenient):
    name: Name
    description: str = ""
    parameters: Any = None

    @property
    def spec(self) -> ToolSpec:
        schema = self.parameters if isinstance(self.parameters, dict) else {"type": "object", "properties": {}}
        return ToolSpec(name=self.name, description=self.description, parameters=schema)


class AguiResume(_Lenient):
    """An answer to an interrupt. ``payload``: ``{answer, arguments?, message?}``, ``{approved: bool}``, or the answer
    alone."""

    interrupt_id: Name
    status: str = Field(description="`resolved`, or `cancelled`, which refuses.")
    payload: Any = None

    def answer(self) -> tuple[str, dict[str, Any] | None, str]:
        """(the answer, other arguments, a message). Raises ``BadInput``."""
        payload = self.payload
        if self.status == "cancelled":
            return _REFUSED, None, ""
        if isinstance(payload, str):
            return payload, None, ""
        if isinstance(payload, bool):
            return (_APPROVED if payload else _REFUSED), None, ""
        if isinstance(payload, dict):
            said = payload.get("answer")
            if said is None and isinstance(payload.get("approved"), bool):
                said = _APPROVED if payload["approved"] else _REFUSED
            arguments = payload.get("arguments", payload.get("editedArgs"))
            if isinstance(said, str) and (arguments is None or isinstance(arguments, dict)):
                return said, arguments, str(payload.get("message") or "")
        raise BadInput("says no answer", field="resume.payload", fix='send {"answer": …}, one of those in its schema')


class RunAgentInput(_Lenient):
    """What a client of the protocol asks for."""

    model_config = like(threadId="t1", runId="r1", messages=[{"id": "m1", "role": "user", "content": "Hello"}])

    thread_id: Name
    run_id: Name
    messages: list[AguiMessage] = []
    context: list[AguiContext] = []
    tools: list[AguiTool] = Field(default=[], description="Tools that the client executes.")
    resume: list[AguiResume] = []
    forwarded_props: Any = Field(
        default=None, description="`model`, `command`, `workflowId` and `workspace`, where a message shall say them."
    )

    @property
    def props(self) -> dict[str, str]:
        given = self.forwarded_props if isinstance(self.forwarded_props, dict) else {}
        return {name: value for name, value in given.items() if isinstance(value, str) and value}


def make_agui(services: Services, keepalive: float) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["ag-ui"])
    chats, queries = services.chats, services.queries

    @router.post(
        "/agui",
        status_code=200,
        response_class=EventStream,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}}}},
    )
    async def run(request: Request, body: RunAgentInput) -> Response:
        """Run the agent: the last message of `messages` is said to the conversation `threadId`, and what comes of it
        streamed as AG-UI events. Where a tool needs an approval the run ends with an interrupt, and a run with `resume`
        goes on. Without a message to say it is the conversation that is answered (`MESSAGES_SNAPSHOT`)."""
        principal = principal_of(request)
        if body.resume:
            turn_id, after = await resumed(body, principal)
        else:
            chat_id = await chat_of(body.thread_id, principal)
            last = body.messages[-1] if body.messages else None
            if last is None or last.role not in ("user", "tool"):
                return EventStream(snapshot(body, chat_id, principal))
            turn_id, after = await said(body, chat_id, principal), 0
        projection = Projection(body.thread_id, body.run_id, turn_id, after)
        return EventStream(_stream(queries, projection, turn_id, keepalive))

    async def chat_of(thread_id: str, principal: Principal) -> str | None:
        """The conversation of a thread: one of that id, or the one that the thread began; None: it has none yet."""
        for chat_id in (thread_id, keyed_id(principal.name, f"chat\0{_first(thread_id)}")):
            with suppress(NotFound):
                return (await chats.get(chat_id, principal)).id
        return None

    async def said(body: RunAgentInput, chat_id: str | None, principal: Principal) -> str:
        """The turn of the last message. Sent again under its ``runId`` it is the same message; of the first one of a
        thread, which gives the conversation its id, that is known by its text."""
        tail = _results(body.messages)
        begins = chat_id is None or (
            len(body.messages) == 1 and await consists_of(chat_id, body.messages[0], principal)
        )
        message_id = _first(body.thread_id) if begins else f"{_first(body.thread_id)}:{body.run_id}"
        props = body.props
        sent = await chats.send(
            Send(
                message="" if tail else body.messages[-1].text,
                chat_id=None if begins else chat_id,
                message_id=message_id,
                command=props.get("command"),
                model=props.get("model"),
                workflow_id=props.get("workflowId"),
                workspace=props.get("workspace"),
                context=tuple({"type": each.description, "content": each.value} for each in body.context),
                tool_results=tail,
                client_tools=tuple(tool.spec for tool in body.tools),
            ),
            principal,
        )
        return sent.turn_id

    async def consists_of(chat_id: str, message: AguiMessage, principal: Principal) -> bool:
        """Whether there is nothing in a conversation but this message and its answer."""
        found = await chats.messages(chat_id, principal, limit=2)
        return len(found) == 2 and found[0].content == message.text

    async def resumed(body: RunAgentInput, principal: Principal) -> tuple[str, int]:
        """Answer what a run ended for; its turn, and where it goes on. What was answered elsewhere meanwhile stays."""
        require(principal, Action.ANSWER_APPROVALS)
        answers = [(_interrupt(each), each.answer()) for each in body.resume]
        turn_id, after = answers[0][0][0], max(at for (_, _, at), _ in answers)
        await services.access.require(principal, Action.READ_CHATS, turn_id)
        for (turn, wait_id, _), (answer, arguments, message) in answers:
            if turn != turn_id:
                raise BadInput("are of several turns", field="resume", fix="answer one run at a time")
            with suppress(NotFound, Refused):
                await services.runs.answer(
                    wait_id, answer, principal.name, owner=principal.only, arguments=arguments, message=message
                )
        return turn_id, after

    async def snapshot(body: RunAgentInput, chat_id: str | None, principal: Principal) -> AsyncGenerator[bytes, None]:
        found = [] if chat_id is None else await chats.messages(chat_id, principal, limit=200)
        run = {"threadId": body.thread_id, "runId": body.run_id}
        yield _frames(
            [
                {"type": "RUN_STARTED", **run, "protocolVersion": PROTOCOL},
                {"type": "MESSAGES_SNAPSHOT", "messages": messages_snapshot(found)},
                {"type": "RUN_FINISHED", **run, "outcome": {"type": "success"}},
            ]
        )

    return router


async def _stream(
    queries: Queries, projection: Projection, turn_id: str, keepalive: float
) -> AsyncGenerator[bytes, None]:
    """One of the protocol's runs: it ends with the turn's leg, or when the turn waits for somebody."""
    yield _frames(projection.begin())
    async with aclosing(queries.pages(turn_id, 0, keepalive, to_end=True)) as pages:
        async for page in pages:
            if not page:
                yield KEEPALIVE
            for batch in page:
                if shown := [event for recorded in batch.recorded for event in projection.show(recorded)]:
                    yield _frames(shown)
                if projection.ended:
                    return
            if projection.waits:  # now, not at some time that is told of late
                yield _frames(projection.interrupt())
                return
    # What there was to come had been shown by an earlier run.
    yield _frames(projection.complete())


def _frames(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(b"data: %b\n\n" % _encode(event) for event in events)


def _first(thread_id: str) -> str:
    """The id of a thread's first message."""
    return f"agui:{thread_id}"


def _interrupt(resume: AguiResume) -> tuple[str, str, int]:
    found = read_interrupt_id(resume.interrupt_id)
    if found is None:
        raise BadInput("is no interrupt of this server", field="resume.interruptId", fix="send it as it came")
    return found


def _results(messages: list[AguiMessage]) -> tuple[GivenResult, ...]:
    """The results of tools that the client executed: the tool messages at the end."""
    found: list[GivenResult] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        found.append(
            GivenResult(
                id=message.tool_call_id, ok=message.error is None, result=message.text, error=message.error or ""
            )
        )
    return tuple(reversed(found))
