"""Recognises the agents that answer turns by what they were given, for as long as their turn waits for them.

Knows nothing of what they may do.
"""

from __future__ import annotations

from pilothouse.core.auth.agent_tokens import PREFIX, read_token
from pilothouse.core.auth.principals import Answering, Kind, Principal
from pilothouse.core.auth.refusals import InvalidKey
from pilothouse.core.chat.state import TurnState
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.errors import Gone, NotFound


class AgentTokens:
    """``secret``: what the tokens are derived from."""

    def __init__(self, secret: bytes, supervisor: Supervisor) -> None:
        self._secret = secret
        self._supervisor = supervisor

    def knows(self, text: str) -> bool:
        """Whether it looks like one of them, and like nothing else."""
        return text.startswith(PREFIX)

    async def recognise(self, text: str) -> Principal:
        """Whose tools the agent may use that shows this. Raises ``InvalidKey``, also once its turn waits for it no
        more; ``Unavailable`` while nobody can say."""
        answering = read_token(self._secret, text)
        if answering.turn_id in self._supervisor.live:  # any other has ended
            try:
                owner = await self._supervisor.read(answering.turn_id, lambda state, _: _owner(state, answering))
            except (Gone, NotFound) as error:
                raise _over() from error
            if owner is not None:
                return Principal(owner, Kind.AGENT, frozenset(), answering=answering)
        raise _over()

    def stands(self, principal: Principal) -> bool:
        """Whether the turn of an agent that was recognised has not ended since."""
        return principal.answering is not None and principal.answering.turn_id in self._supervisor.live


def _owner(state: object, answering: Answering) -> str | None:
    """Of a turn that waits for that agent."""
    return state.owner if isinstance(state, TurnState) and waits_for(state, answering) else None


def waits_for(state: TurnState, answering: Answering) -> bool:
    """Whether what that agent does still counts."""
    request = state.request
    return (
        state.common.lifecycle is Lifecycle.RUNNING
        and not state.timed_out
        and state.facts.features.own_tools
        and request is not None
        and request.number == answering.call
    )


def _over() -> InvalidKey:
    return InvalidKey("the turn that this agent was started for does not wait for it any more")
