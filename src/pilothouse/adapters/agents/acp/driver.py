"""Agents that speak the Agent Client Protocol: any program of the user's, and ways to drive others.

Owns how such an agent is launched: a process of ours, the bridge (``bridge``), starts it, speaks with it, and
prints its news as ``lines`` has them. What is special about one agent is its ``Speech``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import pilothouse
from pilothouse.adapters.agents.acp.errand import Errand
from pilothouse.adapters.agents.driver import AgentDriver, AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.launching import refuse_foreign
from pilothouse.adapters.agents.lines import LineReader
from pilothouse.adapters.agents.tool_servers import known_as, sealed
from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions

# Isolated, so that no file of the worktree is imported by chance; from this very copy of the package.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from pilothouse.adapters.agents.acp.bridge import main; main()"
)


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent is brought to do one piece of work over the protocol."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    options: dict[str, str] = {}
    """As in ``Errand``: what its session is to be set to."""
    model: str = ""
    """The model that its arguments or variables choose."""
    auth: str = ""
    login: str = ""
    says_errors: bool = False
    meter: str = ""
    tools: str = ""
    """What it calls the server of tools, where its arguments, variables or ``meta`` tell it of that: with more than
    the protocol has words for. Empty: the protocol does."""
    titles: str = ""
    meta: dict[str, Any] = {}
    """As in ``Errand``."""
    hosts: tuple[str, ...] = ()


Speak = Callable[[AgentWork], Speech]


class AcpAgent:
    """Implements ``AgentDriver``. ``base`` drives the same agent by its command line: what the two have in common is
    that one's; with the same program that is all but its speech. ``native``: as in the port, for a program of its own.
    """

    def __init__(
        self,
        facts: Facts,
        speak: Speak,
        base: AgentDriver | None = None,
        native: Callable[[str], tuple[str, ...]] | None = None,
    ) -> None:
        self.facts = facts
        self._speak = speak
        self._base = base
        self._same = base if base is not None and base.facts.programs == facts.programs else None
        self._native = native

    def native(self, found: str) -> tuple[str, ...]:
        if self._native is not None:
            return self._native(found)
        return self._same.native(found) if self._same else (found,)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        return (
            self._base.login(env, config) if self._base else Login(ok=None, how="it says so when it is asked to work")
        )

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        refuse_foreign(spec, self.facts.title)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return self._same.models_command(program) if self._same else ()

    def models_from(self, output: str) -> tuple[str, ...]:
        return self._same.models_from(output) if self._same else ()

    def launch(self, work: AgentWork) -> Launch:
        speech = self._speak(work)
        errand = Errand(
            argv=speech.argv,
            title=self.facts.title,
            prompt=work.prompt,
            worktree=work.worktree,
            folders=work.allowed_folders,
            urls=work.allowed_urls,
            run=work.run,
            permissions=work.permissions,
            session_id=work.session_id,
            prompt_anew=work.opening if work.session_id else "",
            options=speech.options,
            model=speech.model,
            meter=speech.meter,
            auth=speech.auth,
            says_errors=speech.says_errors,
            login=speech.login,
            tools=speech.tools or (known_as(work.tools) if work.tools else ""),
            titles=speech.titles,
            tools_command=() if speech.tools else sealed(work),
            meta=speech.meta,
        )
        root = str(Path(pilothouse.__file__).resolve().parent.parent)
        return Launch(
            argv=(sys.executable, "-I", "-X", "utf8", "-c", _START, root),
            env=speech.env,
            stdin=msgspec.json.encode(errand).decode(),
            hosts=speech.hosts,
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return LineReader()


def wishes(model: str, effort: Effort | None) -> dict[str, str]:
    """A model and an effort as what a session is to be set to."""
    asked = {"model": model, "thought_level": effort or ""}
    return {category: value for category, value in asked.items() if value}


def user_agent(name: str, config: AgentConfig) -> AcpAgent:
    """An agent of the user's own: the command that is set for it is all that is known of it."""
    facts = Facts(name=name, title=name, programs=config.command[:1], resumes=True, asks=True, acp=True)
    return AcpAgent(facts, _speak_as_told)


def _speak_as_told(work: AgentWork) -> Speech:
    return Speech(argv=work.program.argv, options=wishes(work.model, work.effort))
