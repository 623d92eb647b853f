"""A conversation with an agent over the Agent Client Protocol, from the first greeting to the end of one prompt.

Owns the order of requests and how long each may take. Knows no processes and no pipes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

from acp import PROTOCOL_VERSION, RequestError, text_block
from acp.client import ClientSideConnection
from acp.schema import (
    AgentCapabilities,
    EnvVarAuthMethod,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionResponse,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionConfigOptionSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
)
from pydantic import ValidationError

from pilothouse.adapters.agents.acp.client import CAPABILITIES, AgentClient
from pilothouse.adapters.agents.acp.errand import TEXT_OPTIONS, Errand
from pilothouse.adapters.agents.acp.outcome import AUTH_REQUIRED, Trouble, failed, logged_out, refused
from pilothouse.core.run.agents import News, Noted, SessionStarted

T = TypeVar("T")
Opened = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse

_BEGINNING = "beginning a conversation"

START_S = 60.0
"""For each request before the prompt. The prompt itself has the limits of the work."""
TOOLS_S = 180.0
"""The same where it is given a server of tools: it waits for that, some for two of them one after the other."""


class Session:
    """One conversation. Every method raises ``Trouble`` when the agent does not do its part."""

    def __init__(self, agent: ClientSideConnection, client: AgentClient, errand: Errand) -> None:
        self._agent = agent
        self._client = client
        self._errand = errand
        self._prompt = errand.prompt
        self._notes: list[News] = []
        self._patience_s = TOOLS_S if errand.tools else START_S
        self.id = ""
        self.model = errand.model

    async def open(self) -> list[News]:
        """Greet the agent, log in where that needs nobody, begin or go on with a conversation, set it up."""
        greeted = await self._bounded(
            "greeting it",
            self._agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=CAPABILITIES,
                client_info=Implementation(name="pilothouse", version=version("pilothouse")),
            ),
        )
        if greeted.protocol_version != PROTOCOL_VERSION:
            versions = f"version {greeted.protocol_version} of the protocol, not {PROTOCOL_VERSION}"
            raise Trouble(failed(f"it speaks {versions}", transient=False))
        try:
            opened = await self._begin(greeted)
        except RequestError as error:
            if error.code != AUTH_REQUIRED:
                raise Trouble(refused(_BEGINNING, error)) from error
            await self._log_in(greeted)
            opened = await self._bounded(_BEGINNING, self._begin(greeted))
        await self._set_up(opened)
        return [SessionStarted(session_id=self.id, model=self.model), *self._notes]

    async def prompt(self) -> PromptResponse:
        """Hand over the prompt, and wait for the end of the turn. Raises ``ConnectionError`` too."""
        try:
            return await self._agent.prompt(self.id, [text_block(self._prompt)])
        except RequestError as error:
            if error.code == AUTH_REQUIRED:
                raise Trouble(logged_out(self._errand.title, self._errand.login, ())) from error
            raise Trouble(refused("working on the prompt", error)) from error
        except ValidationError as error:
            raise Trouble(failed(_unknown("the prompt", error), transient=False)) from error

    async def cancel(self) -> None:
        await self._agent.cancel(self.id)

    async def _begin(self, greeted: InitializeResponse) -> Opened:
        """Raises ``RequestError`` as well."""
        capabilities = greeted.agent_capabilities or AgentCapabilities()
        sessions = capabilities.session_capabilities or SessionCapabilities()
        where: dict[str, Any] = {"cwd": self._errand.worktree, "mcp_servers": self._servers(), **self._errand.meta}
        if self._errand.folders and sessions.additional_directories is not None:
            where["additional_directories"] = list(self._errand.folders)
        if wanted := self._errand.session_id:
            self.id = wanted
            try:
                if sessions.resume is not None:
                    return await self._in_time("resuming", self._agent.resume_session(session_id=wanted, **where))
                if capabilities.load_session:
                    return await self._load(where)
                why = "it goes on with no conversations"
            except RequestError as error:
                if error.code == AUTH_REQUIRED:
                    raise
                why = refused("resuming", error).error
            self._notes.append(Noted(text=f"the conversation {wanted} is begun anew: {why}", level="warning"))
            self._prompt = self._errand.prompt_anew
        begun = await self._in_time(_BEGINNING, self._agent.new_session(**where))
        self.id = begun.session_id
        return begun

    def _servers(self) -> list[McpServerStdio]:
        if not self._errand.tools_command:
            return []
        command, *args = self._errand.tools_command
        return [McpServerStdio(name=self._errand.tools, command=command, args=args, env=[])]

    async def _load(self, where: Mapping[str, Any]) -> LoadSessionResponse:
        """All of the conversation is told again while it is loaded."""
        self._client.replaying = True
        try:
            return await self._in_time("resuming", self._agent.load_session(session_id=self.id, **where))
        finally:
            self._client.replaying = False

    async def _log_in(self, greeted: InitializeResponse) -> None:
        """By a method that needs nobody: one of which the errand knows, or one whose variables are set."""
        methods = greeted.auth_methods or []
        ready = (
            method.id
            for method in methods
            if method.id == self._errand.auth
            or (isinstance(method, EnvVarAuthMethod) and all(os.environ.get(one.name) for one in method.vars))
        )
        chosen = next(ready, None)
        if chosen is None:
            told = [method.description or method.name for method in methods]
            raise Trouble(logged_out(self._errand.title, self._errand.login, told))
        await self._bounded("logging in", self._agent.authenticate(chosen))

    async def _set_up(self, opened: Opened) -> None:
        """Set what the errand asks for. A model that cannot be had ends it; other wishes are only wishes."""
        options = _selects(opened.config_options)
        for category in TEXT_OPTIONS:
            wanted = self._errand.options.get(category)
            if wanted is None:
                continue
            option = options.get(category)
            value = _value(option, wanted) if option else None
            if option is None or value is None:
                text = f"{category.replace('_', ' ')} {wanted!r} is not offered"
                if category == "model":
                    offered = ", ".join(one.value for one in _values(option)) if option else "it offers no choice"
                    raise Trouble(failed(f"{text}: {offered}", transient=False))
                self._notes.append(Noted(text=text, level="warning"))
            elif value != option.current_value:
                setting = self._agent.set_config_option(option.id, self.id, value)
                answer = await self._bounded(f"setting its {category}", setting)
                options = _selects(answer.config_options) or options
        if not self.model and (option := options.get("model")):
            self.model = option.current_value

    async def _bounded(self, what: str, answer: Awaitable[T]) -> T:
        try:
            return await self._in_time(what, answer)
        except RequestError as error:
            if error.code == AUTH_REQUIRED:
                raise Trouble(logged_out(self._errand.title, self._errand.login, ())) from error
            raise Trouble(refused(what, error)) from error

    async def _in_time(self, what: str, answer: Awaitable[T]) -> T:
        """Raises ``Trouble`` for no answer or one that is none, ``RequestError`` for a refusal."""
        try:
            async with asyncio.timeout(self._patience_s):
                return await answer
        except TimeoutError:
            why = f"{what}: it did not answer in {self._patience_s:.0f} s"
            raise Trouble(failed(why, transient=False)) from None
        except ValidationError as error:
            raise Trouble(failed(_unknown(what, error), transient=False)) from error


def _unknown(what: str, error: ValidationError) -> str:
    fields = ", ".join(sorted({".".join(map(str, one["loc"])) for one in error.errors()})[:5])
    return f"{what}: its answer is not as the protocol says ({fields})"


def _selects(options: Any) -> dict[str, SessionConfigOptionSelect]:
    """What can be chosen, by category; the first of each."""
    found: dict[str, SessionConfigOptionSelect] = {}
    for option in options or ():
        if isinstance(option, SessionConfigOptionSelect) and isinstance(option.category, str):
            found.setdefault(option.category, option)
    return found


def _values(option: SessionConfigOptionSelect) -> Iterator[SessionConfigSelectOption]:
    for one in option.options:
        if isinstance(one, SessionConfigSelectGroup):
            yield from one.options
        else:
            yield one


def _value(option: SessionConfigOptionSelect, wanted: str) -> str | None:
    """The value that is called ``wanted``, by itself or for people."""
    values = list(_values(option))
    named = (one.value for one in values if wanted.lower() in (one.value.lower(), one.name.lower()))
    return next(named, None)
