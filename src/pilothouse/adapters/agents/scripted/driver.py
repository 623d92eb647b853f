"""The scripted agent: a real process that does what a replies file says, so that plans can be tried without a model.

Owns how it is launched. What a replies file may say is ``replies`` and ``script``; what becomes of it is
``run``, which runs in that process; what that prints is read by ``lines``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

import pilothouse
from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.lines import LineReader
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions, ToolServer
from pilothouse.errors import BadInput

# Isolated, so that no file of the worktree is imported by chance; from this very copy of the package.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from pilothouse.adapters.agents.scripted.run import main; main()"
)


class ScriptedAgent:
    """Implements ``AgentDriver``. It has all it needs wherever Pilothouse runs."""

    facts = Facts(name="scripted", title="Scripted agent", resumes=True, asks=True)

    def native(self, found: str) -> tuple[str, ...]:
        return (found,)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        return Login(ok=True, how="needs none")

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        _check_script(spec.script)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return ()

    def models_from(self, output: str) -> tuple[str, ...]:
        return ()

    def launch(self, work: AgentWork) -> Launch:
        _check_script(work.script)
        tools = work.tools and ToolServer(name=work.tools.name, command=sealed(work))
        root = str(Path(pilothouse.__file__).resolve().parent.parent)
        return Launch(
            argv=(sys.executable, "-I", "-X", "utf8", "-c", _START, root, work.script),
            # What it needs of its environment it has.
            stdin=msgspec.json.encode(
                msgspec.structs.replace(work, env={}, config=AgentConfig(), tools=tools)
            ).decode(),
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return LineReader()


def _check_script(script: str) -> None:
    path = PurePosixPath(script)
    if not script:
        raise BadInput("the scripted agent needs a replies file", field="script", fix="see docs/scripted-agent.md")
    if path.is_absolute() or ".." in path.parts:
        raise BadInput(f"{script!r} leads outside the repository", field="script", fix="give a relative path")
