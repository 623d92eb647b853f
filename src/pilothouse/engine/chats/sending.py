"""From a message, as somebody sends it, to a turn that can be started: everything is checked here.

What a message says of model, mode, workflow and workspace holds for its conversation from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from pilothouse.core.auth.principals import Principal, Scope
from pilothouse.core.auth.refusals import NeedsScope
from pilothouse.core.chat.calls import GivenResult, Offered, OnApproval
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.chat.plain import MOST_LEVELS, is_deep
from pilothouse.core.tools.policy import Mode
from pilothouse.core.tools.spec import Permit, ToolSpec
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.chat_ports import Backend, Unready
from pilothouse.engine.chats.documents import ChatDocument, Titled
from pilothouse.engine.chats.history import PastTurn
from pilothouse.engine.chats.values import Send
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BadInput, NotFound, Unavailable

LONGEST_MESSAGE = 1_000_000
"""Characters."""
LARGEST_EXTRAS = 16 << 20
"""Bytes of JSON, of attachments and context together, and of tool results."""
MOST_EXTRAS = 100
LONGEST_TIMEOUT_MS = 24 * 3_600_000
_LONGEST_NAME = 200
_ALONE = "subagent:"
"""How some clients ask one subagent of a copilot backend, past the one that answers."""

MODES: Mapping[str, Mode] = MappingProxyType(
    {"agent": Mode.CHAT, "ask": Mode.RESEARCH, "plan": Mode.CREATE_PLAN, "build": Mode.CHAT, **{m: m for m in Mode}}
)
"""The chat document's modes, and the commands they stand for; a command stands for itself."""


class Sending:
    """Checks messages. ``approval_timeout_ms``: how long a call waits for a person."""

    def __init__(
        self,
        backend: Backend,
        tools: ToolRegistry,
        workflows: Workflows,
        repos: Repos,
        *,
        approval_timeout_ms: int = 600_000,
    ) -> None:
        self._backend = backend
        self._tools = tools
        self._workflows = workflows
        self._repos = repos
        self._approval_timeout_ms = approval_timeout_ms

    async def settled(
        self, send: Send, chat: ChatDocument, last: PastTurn | None, principal: Principal
    ) -> ChatDocument:
        """The conversation with what the message, whose size has been checked, says of it. Raises ``BadInput``,
        ``NotFound``, ``Unavailable`` while nobody can answer."""
        if isinstance(self._backend, Unready):
            raise Unavailable(f"nobody can answer: {self._backend.lacking}")
        changed = msgspec.structs.replace(
            chat,
            mode=_mode(send) or chat.mode or Mode.CHAT,
            model=chat.model if send.model is None else check_name(send.model, "model"),
            workflow_id=await self._workflow(send, chat, last, principal),
            workspace=await self.workspace(chat.workspace if send.workspace is None else send.workspace, principal),
        )
        return changed if last is None else changed.entitled(last.title, Titled.BACKEND)

    async def received(
        self,
        send: Send,
        message_id: str,
        chat: ChatDocument,
        last: PastTurn | None,
        permits: Mapping[str, Permit],
        principal: Principal,
    ) -> TurnReceived:
        """Everything a turn is accepted with; ``chat`` is as ``settled`` answered it, ``permits`` are what its user
        always answers. Raises ``BadInput``, ``NeedsScope``."""
        features = self._backend.features
        same = last if last is not None and last.backend == self._backend.name else None  # else it knows of nothing
        return TurnReceived(
            message_id=message_id,
            message=send.message,
            mode=chat.mode,
            backend=self._backend.name,
            features=features,
            model=chat.model,
            tools=_offered(self._tools.offered(chat.mode, chat.permits, permits), send.client_tools),
            workflow_id=chat.workflow_id,
            workspace=chat.workspace,
            attachments=send.attachments,
            context=send.context,
            auto_execute=send.auto_execute,
            on_approval=_on_approval(send, principal),
            approval_timeout_ms=self._approval_timeout_ms,
            timeout_ms=send.timeout_ms,
            headless=send.headless,
            conversation_id=same.conversation_id if same else "",
            checkpoint_id=same.checkpoint_id if same and send.tool_results else "",
            tool_results=_results(send, last),
            title=features.titles and last is None and chat.titled is Titled.PROVISIONAL,
        )

    async def _workflow(self, send: Send, chat: ChatDocument, last: PastTurn | None, principal: Principal) -> str:
        if send.workflow_id:
            return (await self._workflows.get(send.workflow_id, principal)).id
        if send.workflow_name:
            named = [one.id for one in await self._workflows.list(principal) if one.name == send.workflow_name]
            if not named:
                raise NotFound(f"there is no workflow named {send.workflow_name!r}")
            if len(named) > 1:
                fix = f"give workflowId, one of {', '.join(named[:5])}"
                raise BadInput("several workflows have this name", field="workflowName", fix=fix)
            return named[0]
        known = chat.workflow_id or (last.workflow_id if last else "")
        if known:
            try:
                await self._workflows.get(known, principal)
            except NotFound:  # it was deleted; nobody asked for it now
                return ""
        return known

    async def workspace(self, path: str, principal: Principal) -> str:
        """The registered repository that a path lies in; empty for an empty one. Raises ``BadInput``."""
        if not path:
            return ""
        try:
            return await self._repos.require(path, principal)
        except BadInput as error:
            raise BadInput(error.message, field="workspace", fix=error.fix) from error


def _offered(ours: tuple[Offered, ...], theirs: tuple[ToolSpec, ...]) -> tuple[Offered, ...]:
    """The server's tools, and the client's of other names."""
    names = {offered.name for offered in ours}
    return (*ours, *(Offered(name=spec.name, spec=spec) for spec in theirs if spec.name not in names))


def check_size(send: Send) -> None:
    """Raises ``BadInput`` for what is no message, or too large for one."""
    if not send.message.strip() and not send.tool_results:
        raise BadInput("is empty", field="message", fix="say something")
    if len(send.message) > LONGEST_MESSAGE:
        raise BadInput(f"is longer than {LONGEST_MESSAGE} characters", field="message", fix="put it into a file")
    if not 1 <= send.timeout_ms <= LONGEST_TIMEOUT_MS:
        raise BadInput("is no time a turn may take", field="timeout", fix=f"1 to {LONGEST_TIMEOUT_MS} milliseconds")
    for field, given in (("attachments", send.attachments), ("context", send.context)):
        if len(given) > MOST_EXTRAS:
            raise BadInput(f"are more than {MOST_EXTRAS}", field=field, fix="give fewer")
    try:
        extras = (send.attachments, send.context, send.tool_results, send.client_tools)
        body = msgspec.json.encode((send.message, *extras))
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"is no text that can be kept: {error}", field="message", fix="send valid Unicode") from None
    if len(body) > LARGEST_EXTRAS:
        raise BadInput(f"are larger than {LARGEST_EXTRAS} bytes", field="attachments", fix="give less at once")
    if is_deep(body):
        raise BadInput(f"has more than {MOST_LEVELS} levels", field="context", fix="give plainer values")


def check_name(given: str, field: str) -> str:
    """Raises ``BadInput``."""
    if len(given) > _LONGEST_NAME or not given.isprintable():
        raise BadInput("is no plain name", field=field, fix=f"at most {_LONGEST_NAME} printable characters")
    return given


def check_mode(asked: str, field: str) -> Mode:
    """Raises ``BadInput``."""
    if asked.startswith(_ALONE):
        fix = f"one of {', '.join(MODES)}; say in the message what it is to do"
        raise BadInput("no subagent is asked alone: whoever answers calls its own", field=field, fix=fix)
    if asked not in MODES:
        raise BadInput(f"{asked!r} is no {field}", field=field, fix=f"one of {', '.join(MODES)}")
    return MODES[asked]


def _mode(send: Send) -> Mode | None:
    if send.command:
        return check_mode(send.command, "command")
    return check_mode(send.mode, "mode") if send.mode else None


def _on_approval(send: Send, principal: Principal) -> OnApproval:
    """Raises ``NeedsScope`` when a program wants to decide what it may not."""
    may_decide = principal.may(Scope.APPROVE)
    if send.on_approval is OnApproval.RUN and not may_decide:
        raise NeedsScope(Scope.APPROVE)
    if send.on_approval is not None:
        return send.on_approval
    if not send.headless:
        return OnApproval.WAIT
    return OnApproval.RUN if may_decide else OnApproval.REFUSE


def _results(send: Send, last: PastTurn | None) -> tuple[GivenResult, ...]:
    """The results of the last turn's pending calls, with their names. Raises ``BadInput`` for any other."""
    pending = last.pending if last else {}
    results: list[GivenResult] = []
    for index, given in enumerate(send.tool_results):
        if given.id not in pending or any(given.id == earlier.id for earlier in results):
            fix = f"one result each for {', '.join(pending)}" if pending else "leave toolResults out"
            raise BadInput("no call of the last turn waits for it", field=f"toolResults[{index}].id", fix=fix)
        results.append(msgspec.structs.replace(given, name=pending[given.id]))
    return tuple(results)
