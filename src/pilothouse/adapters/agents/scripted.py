"""The scripted agent: a real process that does what a replies file says, so that plans can be tried without a model.

Owns how it is launched. What a replies file may say is ``replies``; what becomes of it is ``scripted_run``, which
runs in that process.
"""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import msgspec

import pilothouse
from pilothouse.adapters.agents.driver import AgentWork, Launch
from pilothouse.errors import BadInput

# Isolated, so that no file of the worktree is imported by chance; from this very copy of the package.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from pilothouse.adapters.agents.scripted_run import main; main()"
)


class ScriptedAgent:
    """Implements ``AgentDriver``. It has all it needs wherever Pilothouse runs."""

    name = "scripted"
    needs: tuple[str, ...] = ()

    def check(self) -> None:
        pass

    def check_script(self, script: str) -> None:
        path = PurePosixPath(script)
        if not script:
            raise BadInput("the scripted agent needs a replies file", field="script", fix="see docs/scripted-agent.md")
        if path.is_absolute() or ".." in path.parts:
            raise BadInput(f"{script!r} leads outside the repository", field="script", fix="give a relative path")

    def launch(self, work: AgentWork) -> Launch:
        self.check_script(work.script)
        root = str(Path(pilothouse.__file__).resolve().parent.parent)
        return Launch(
            argv=(sys.executable, "-I", "-X", "utf8", "-c", _START, root, work.script),
            stdin=msgspec.json.encode(work).decode(),
        )
