"""What clients of conversations may send: one model per body, as ``bodies``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, Field, StrictBool

from pilothouse.core.chat.calls import GivenResult, OnApproval
from pilothouse.core.tools.spec import Permit, ToolSpec
from pilothouse.engine.chats.values import ChatChanges, Send
from pilothouse.errors import BadInput
from pilothouse.interfaces.http.bodies import Body, Name, like

Text = Annotated[str, Field(max_length=1_000_000)]
Objects = Annotated[list[dict[str, Any]], Field(max_length=100)]

MAX_TIMEOUT_MS = 3_600_000
_GRACE_S = 30.0


class ToolResult(Body):
    """What somebody else's execution of a pending call brought: ``result``, or why there is none (``error``)."""

    id: Name = Field(validation_alias=AliasChoices("id", "toolCallId", "tool_call_id"))
    name: str = Field(default="", max_length=1000)
    result: Any = None
    error: Text | None = None


class ClientTool(Body):
    """A tool of whoever sends the message: they execute its calls."""

    name: Name
    description: str = Field(default="", max_length=10_000)
    parameters: dict[str, Any] = Field(
        default={"type": "object", "properties": {}}, description="A JSON Schema of an object."
    )


class Message(Body):
    """A message, by whichever route it comes."""

    message: Text = Field(default="", description="What is said; needed unless there are `toolResults`.")
    chat_id: Name | None = Field(default=None, description="Goes on with a conversation; a new one without it.")
    workflow_id: Name | None = Field(default=None, description="The workflow that tools work on.")
    workflow_name: Name | None = Field(default=None, description="The same by name; `workflowId` goes before it.")
    workspace: Name | None = Field(default=None, description="A registered repository, or a folder of it.")
    mode: Name | None = Field(
        default=None, description="`agent`, `ask`, `plan`, or a command; the chat's own without it, at first `agent`."
    )
    command: Name | None = Field(default=None, description="A command; goes before `mode`.")
    model: Name | None = Field(default=None, description="One of the backend's; the chat's own without it.")
    message_id: Name | None = Field(
        default=None,
        validation_alias=AliasChoices("messageId", "message_id", "userMessageId", "user_message_id"),
        description="The message's own id, made by whoever sends it: sent twice it is one message.",
    )
    attachments: Objects = Field(
        default=[], validation_alias=AliasChoices("attachments", "fileAttachments", "file_attachments")
    )
    context: Objects = Field(default=[], validation_alias=AliasChoices("context", "contexts"))
    auto_execute_tools: StrictBool = Field(
        default=True, description="False: calls are left `pending`, for `toolResults` of the next request."
    )
    on_approval: OnApproval | None = Field(
        default=None, description="What becomes of calls that a person has to allow: `wait`, `refuse` or `run`."
    )
    timeout: Annotated[int, Field(strict=True, ge=1, le=MAX_TIMEOUT_MS)] = Field(
        default=300_000, description="Milliseconds the whole turn may take."
    )
    tool_results: Annotated[list[ToolResult], Field(max_length=1000)] = Field(
        default=[], description="Results of the calls that the turn before left `pending`."
    )
    client_tools: Annotated[list[ClientTool], Field(max_length=100)] = Field(
        default=[], description="Tools that you execute: calls of them are left `pending`."
    )

    @property
    def patience_s(self) -> float:
        """How long its end is waited for: a turn ends itself in time, but what it runs is ended first."""
        return self.timeout / 1000 + _GRACE_S

    def send(self, key: str | None, *, headless: bool) -> Send:
        """What is to be sent; ``key``: an idempotency key that came beside it. Raises ``BadInput``."""
        if not self.message.strip() and not self.tool_results:
            raise BadInput("is missing", field="message", fix="say something")
        return Send(
            message=self.message,
            chat_id=self.chat_id,
            message_id=self.message_id or key,
            mode="agent" if self.mode == "build" else self.mode or "",  # as older clients call it
            command=self.command,
            model=self.model,
            workflow_id=self.workflow_id,
            workflow_name=self.workflow_name,
            workspace=self.workspace,
            attachments=tuple(self.attachments),
            context=tuple(self.context),
            auto_execute=self.auto_execute_tools,
            on_approval=self.on_approval,
            timeout_ms=self.timeout,
            headless=headless,
            tool_results=tuple(
                GivenResult(
                    id=given.id, name=given.name, ok=given.error is None, result=given.result, error=given.error or ""
                )
                for given in self.tool_results
            ),
            client_tools=tuple(
                ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
                for tool in self.client_tools
            ),
        )


class HeadlessMessage(Message):
    model_config = like(
        message="Create a Slack notification workflow", workflowId="0192f0c3-…", mode="agent", timeout=300_000
    )

    stream: StrictBool = Field(default=False, description="Server-sent events instead of one answer.")


class InteractiveMessage(Message):
    """Also takes what older clients send and nobody needs any more: the server knows it, or nothing follows from it."""

    model_config = like(message="Build it every night", chatId="0192f0c0-…", messageId="b7c1")

    stream: StrictBool = Field(default=True, description="False: one JSON answer, as the headless API's.")
    create_new_chat: Any = Field(default=None, deprecated=True)
    conversation_id: Any = Field(default=None, deprecated=True)
    provider: Any = Field(default=None, deprecated=True)
    prefetch: Any = Field(default=None, deprecated=True)
    implicit_feedback: Any = Field(default=None, deprecated=True)
    commands: Any = Field(default=None, deprecated=True)
    user_timezone: Any = Field(default=None, deprecated=True)
    workspace_id: Any = Field(default=None, deprecated=True)
    version: Any = Field(default=None, deprecated=True)


class WhichTurn(Body):
    """A turn (``streamId``), or whichever is live in a conversation (``chatId``)."""

    stream_id: Name | None = Field(
        default=None, validation_alias=AliasChoices("streamId", "stream_id", "turnId", "turn_id")
    )
    chat_id: Name | None = None

    @property
    def id(self) -> str:
        """Raises ``BadInput``."""
        if named := self.stream_id or self.chat_id:
            return named
        raise BadInput("is missing", field="streamId", fix="name a turn, or give chatId")


class StopTurn(WhichTurn):
    """Also takes what older clients send: the server has kept what was said until then."""

    model_config = like(streamId="0192f0c1-…")

    content: Any = Field(default=None, deprecated=True)
    content_blocks: Any = Field(default=None, deprecated=True)


class SteerTurn(WhichTurn):
    model_config = like(streamId="0192f0c1-…", content="Only on weekdays", steeringId="b7c2")

    content: Annotated[str, Field(min_length=1, max_length=1_000_000)] = Field(
        validation_alias=AliasChoices("content", "message"), description="What is said while the turn goes on."
    )
    steering_id: Name | None = Field(default=None, description="The same twice is one steering.")


class Rename(Body):
    model_config = like(chatId="0192f0c0-…", title="A nightly build")

    chat_id: Name
    title: Annotated[str, Field(min_length=1, max_length=200)]


class ChangeChat(Body):
    model_config = like(title="A nightly build", permits={"write_file": "allow"})

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    model: str | None = Field(default=None, max_length=1000, description="Empty: the backend's own choice.")
    mode: Name | None = None
    workflow_id: Name | None = None
    workspace: Name | None = None
    permits: dict[Name, Permit | None] | None = Field(
        default=None, description="By tool: `allow`, `ask`, `deny`; null takes one back. Needs the scope `approve`."
    )
    archived: StrictBool | None = None

    @property
    def changes(self) -> ChatChanges:
        return ChatChanges(**{name: getattr(self, name) for name in ChangeChat.model_fields})


class Fork(Body):
    model_config = like(turnId="0192f0c1-…")

    turn_id: Name = Field(
        validation_alias=AliasChoices("turnId", "turn_id", "streamId", "stream_id"),
        description="The last turn that the new conversation has.",
    )


class Revert(Body):
    model_config = like(checkpoint="0192f0c3-…@4")

    checkpoint: Name = Field(
        validation_alias=AliasChoices("checkpoint", "checkpointId", "checkpoint_id"), description="One's `id`."
    )


class GiveFeedback(Body):
    model_config = like(turnId="0192f0c1-…", rating="up")

    turn_id: Name = Field(validation_alias=AliasChoices("turnId", "turn_id", "streamId", "stream_id"))
    rating: Name = Field(description="`up` or `down`.")
    text: str = Field(default="", max_length=10_000, validation_alias=AliasChoices("text", "feedback"))


class ConfirmTool(Body):
    model_config = like(toolCallId="tc_002", status="accepted", scope="once")

    tool_call_id: Name
    status: Name = Field(
        description="`accepted`, `rejected` or `background`; of a call that the client executes: `success` or `error`.",
        examples=["accepted"],
    )
    stream_id: Name | None = Field(
        default=None,
        validation_alias=AliasChoices("streamId", "stream_id", "turnId", "turn_id"),
        description="Its turn; looked for among the live ones without it.",
    )
    arguments: dict[str, Any] | None = Field(default=None, description="What it is to be called with instead.")
    scope: Name = Field(default="once", description="`once`, `chat` or `always`.")
    message: Text = ""
    result: Any = None
    error: Text = ""


class AllowTool(Body):
    model_config = like(tool="write_file")

    tool: Name = Field(validation_alias=AliasChoices("tool", "toolId", "tool_id"))


class ExecuteTool(Body):
    model_config = like(toolName="list_workflows", arguments={})

    tool_name: Name = Field(validation_alias=AliasChoices("toolName", "tool_name", "name"))
    arguments: dict[str, Any] = Field(
        default={}, validation_alias=AliasChoices("arguments", "params", "payload", "args")
    )
    tool_call_id: Name | None = Field(default=None, validation_alias=AliasChoices("toolCallId", "tool_call_id", "id"))
    chat_id: Name | None = Field(default=None, description="Its mode, permits, workflow and workspace hold.")
    workflow_id: Name | None = None


class MarkComplete(Body):
    """How a call ended that somebody else executed, as the chat document tells its backend."""

    model_config = like(id="tc_003", name="navigate_ui", status=200, data={"page": "home"})

    id: Name = Field(validation_alias=AliasChoices("id", "toolCallId", "tool_call_id"))
    name: Name = Field(validation_alias=AliasChoices("name", "toolName", "tool_name"))
    status: Annotated[int, Field(strict=True, ge=100, le=599)] = Field(description="As of HTTP: 2xx is success.")
    message: Any = None
    data: Any = None
