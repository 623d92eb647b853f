"""Asking the backend: one request of a turn, put together, streamed into the log, and ended for certain.

What is said reaches the turn chunk by chunk, and the next chunk is taken when the last one is in the log: so a backend
that is faster than the disk waits. Knows nothing of what follows from anything that is said.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.calls import BackendEnd
from pilothouse.core.chat.effects import CallBackend, CallEnded
from pilothouse.core.chat.inputs import Heard
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.run.contract import Ended
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.chats.instructions import instructions
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.driving.patience import Patience
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BackendFailed, PilothouseError

log = logging.getLogger(__name__)


class ChatRequests:
    """Performs ``CallBackend``."""

    def __init__(self, backend: Backend, tools: ToolRegistry, history: ChatHistory, patience: Patience) -> None:
        self._backend = backend
        self._tools = tools
        self._history = history
        self._patience = patience

    async def perform(self, effect: CallBackend, within: Within) -> CallEnded | Ended:
        """Ask, and tell the turn everything that is said. What broke off is an answer."""
        return await self._patience.wait(self._ask(effect, within), within.unwanted)

    async def _ask(self, effect: CallBackend, within: Within) -> CallEnded:
        try:
            request = await self._request(effect)
        except PilothouseError as error:
            return CallEnded(end=BackendEnd.FAILED, error=str(error), code=error.code)
        stream: AsyncIterator[Sequence[BackendEvent]] | None = None
        try:
            stream = self._backend.call(request)
            async for said in stream:
                if said:
                    await within.tell(Heard(key=effect.key, said=tuple(said)))
        except BackendFailed as error:
            return _failed(error)
        except PilothouseError:
            raise  # the log's: nothing of this turn can be told any more
        except Exception as error:  # a bug in a backend fails its request alone
            log.exception("backend.crashed", extra={"run_id": within.run_id, "key": effect.key})
            why = f"internal error: {type(error).__name__}: {error}"
            return CallEnded(end=BackendEnd.FAILED, error=why, code="internal_error")
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        return CallEnded(end=BackendEnd.EOF)

    async def _request(self, effect: CallBackend) -> BackendRequest:
        shared = {
            name: getattr(effect, name)
            for name in BackendRequest.__struct_fields__
            if name in CallBackend.__struct_fields__ and name != "tools"
        }
        return BackendRequest(
            **shared,
            tools=(*await self._tools.named(effect.tools), *effect.client_tools),
            instructions=instructions(effect),
            history=await self._history.before(effect.turn_id, effect.chat_id),
        )


def _failed(error: BackendFailed) -> CallEnded:
    return CallEnded(
        end=BackendEnd.FAILED,
        error=str(error),
        code="backend_error" if error.status else "backend_unreachable",
        transient=error.transient,
        retry_after_ms=error.retry_after_ms,
    )
