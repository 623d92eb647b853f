"""A tool of a service: its parameters, and a function that asks the service's API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api, Manners, Tokens, Web
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches


class OfAccount(Parameters, frozen=True, kw_only=True):
    """The base of what these tools take."""

    account: Annotated[str, Meta(description="Which connected account; its user's default when left out.")] = ""


P = TypeVar("P", bound=OfAccount)


@dataclass(slots=True)
class ServiceTool(Generic[P]):
    """As ``engine.chat_ports.Tool``. ``work`` answers what the model is told."""

    spec: ToolSpec
    kind: type[P]
    work: Callable[[Api, P], Awaitable[Any]]
    manners: Manners
    web: Web
    tokens: Tokens

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(self.kind, arguments)
        api = Api(self.web, self.tokens, self.manners, context.owner, given.account)
        return ToolAnswer(ok=True, result=await self.work(api, given))


@dataclass(frozen=True, slots=True)
class Makes:
    """Makes the tools of one service."""

    manners: Manners
    web: Web
    tokens: Tokens

    def looks(
        self, name: str, kind: type[P], work: Callable[[Api, P], Awaitable[Any]], description: str
    ) -> ServiceTool[P]:
        """One that changes nothing."""
        return self._made(name, kind, work, description, Touches.NOTHING)

    def acts(
        self, name: str, kind: type[P], work: Callable[[Api, P], Awaitable[Any]], description: str
    ) -> ServiceTool[P]:
        """One that does what others see."""
        return self._made(name, kind, work, description, Touches.WORLD)

    def _made(
        self, name: str, kind: type[P], work: Callable[[Api, P], Awaitable[Any]], description: str, touches: Touches
    ) -> ServiceTool[P]:
        spec = ToolSpec(
            name=name,
            description=description,
            parameters=schema_of(kind),
            touches=touches,
            timeout_ms=120_000,
            service=self.manners.service,
        )
        return ServiceTool(spec, kind, work, self.manners, self.web, self.tokens)
