"""From what a plan wants run to the command an executor runs: argv, directory, environment, time limit, redactions.

Owns which facts a command is told and how an agent's launch becomes one; which variables it gets is ``environment``'s.
Blocking: it looks at the worktree and writes private files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.assignments import EVIDENCE, Chosen, assign, brief
from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch
from pilothouse.adapters.agents.environment import HostEnvironment
from pilothouse.adapters.agents.inside import inside
from pilothouse.adapters.agents.private import ANSWERS, LAUNCHED, PrivateFiles
from pilothouse.adapters.agents.registry import Drivers
from pilothouse.adapters.work.sandbox.programs import installations
from pilothouse.adapters.work.sandbox.wrap import sandboxed
from pilothouse.adapters.work.specs import process_argv, shell_argv
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.spec import AgentSpec, ProcessSpec, ShellSpec
from pilothouse.core.run.agents import AgentConfig
from pilothouse.core.run.commands import Command
from pilothouse.errors import BadInput, Unavailable


class CommandFactory:
    """Makes the command of an effect. ``environ`` is the host's environment as it was when the server started."""

    def __init__(
        self,
        environ: Mapping[str, str],
        drivers: Drivers | None = None,
        private: PrivateFiles | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self._drivers = drivers or Drivers({})
        self._private = private
        self._data_dir = data_dir or (private.root.parent if private else Path("/nonexistent"))
        self.host = HostEnvironment(environ, (config.api_key_env for config in self._drivers.config.values()))

    def __call__(self, work: RunWork, chosen: Chosen | None = None) -> Command:
        """Raises ``BadInput`` for a directory, a variable or an agent that cannot be; nothing was started then.

        ``chosen`` is who does an agent's work; by default the agent that the plan names, as it is.
        """
        root = _worktree(work.path)
        match work.spec:
            case ShellSpec() as spec:
                return self._command(work, root, shell_argv(spec.command, spec.shell), spec)
            case ProcessSpec() as spec:
                return self._command(work, root, process_argv(spec.executable, spec.args), spec)
            case AgentSpec() as spec:
                return self._agent(work, root, spec, chosen or Chosen(agent=spec.agent))

    def secrets(self, work: RunWork, spec: AgentSpec, facts: Facts, config: AgentConfig) -> tuple[str, ...]:
        """What must not show in what an agent tells. Raises ``BadInput``."""
        env = self.host.for_agent(facts, config, config.env | work.plan_env | spec.env, work.inherit_env)
        return self.host.redact(env | _served(work), work.inherit_env)

    def _command(self, work: RunWork, root: Path, argv: tuple[str, ...], spec: ShellSpec | ProcessSpec) -> Command:
        env = self.host.for_command(work.plan_env | spec.env, work.inherit_env)
        cwd = _directory(root, spec.cwd)
        command = Command(
            argv=argv,
            cwd=str(cwd),
            output=work.output,
            env=env | _facts(work, root, cwd),
            timeout_ms=spec.timeout_ms,
            redact=self.host.redact(env, work.inherit_env),
        )
        return self._confined(command, work, root)

    def _agent(self, work: RunWork, root: Path, spec: AgentSpec, chosen: Chosen) -> Command:
        driver = self._drivers.require(chosen.agent)
        config = self._drivers.config_of(driver, spec.agent)
        given = config.env | work.plan_env | spec.env
        inherited = self.host.for_agent(driver.facts, config, given, work.inherit_env)
        task = assign(work, spec, driver, chosen, config, env=inherited, private=self._private)
        launch = driver.launch(brief(task, work, spec))
        # The driver's settings over what is inherited, what the plan and the user say over both.
        env = inherited | driver.facts.quiet | launch.env | {name: inherited[name] for name in given}
        if self._private is not None:
            self._private.remember(Path(task.run), msgspec.json.encode(chosen))
        command = Command(
            argv=launch.argv,
            cwd=str(root),
            output=work.output,
            errors=work.errors,
            env=env | _facts(work, root, root),
            stdin=launch.stdin,
            timeout_ms=least(spec.timeout_ms, work.time_left_ms),
            grace_ms=launch.grace_ms,
            redact=self.host.redact(env | _served(work), work.inherit_env),
        )
        return self._confined(command, work, root, program=chosen.program.argv, task=task, launch=launch)

    def _confined(
        self,
        command: Command,
        work: RunWork,
        root: Path,
        *,
        program: tuple[str, ...] = (),
        task: AgentWork | None = None,
        launch: Launch | None = None,
    ) -> Command:
        """The same command in the plan's sandbox, if it has one. An agent also has its program, its state, and the
        folders and addresses its work names. Raises ``BadInput``, ``Unavailable``."""
        if work.sandbox is None:
            return command
        if self._private is None:
            raise Unavailable("there is no place for a sandbox")
        agent = work.spec if isinstance(work.spec, AgentSpec) else None
        folders = agent.allowed_folders if agent else ()  # the plan's words, so checked like those of its sandbox
        homes = [Path(home).resolve() for home in (command.env.get("HOME"), self.host.get("HOME")) if home]
        found = sandboxed(
            command.argv,
            command.env,
            spec=msgspec.structs.replace(work.sandbox, writable=(*work.sandbox.writable, *folders)),
            worktree=root,
            private=self._private.sandbox(work.plan_id, work.node_id, work.output),
            data_dir=self._data_dir,
            readable=installations(program[0], command.env.get("PATH", os.defpath), homes) if program else (),
            writable=(Path(task.private), Path(task.run)) if task else (),
            kept=(Path(task.run, ANSWERS), Path(task.run, LAUNCHED)) if task else (),
            addresses=[*(launch.hosts if launch else ()), *(agent.allowed_urls if agent else ())],
        )
        return msgspec.structs.replace(command, argv=found.argv, env=found.env)


def least(*limits: int) -> int:
    """The least of some time limits, of which 0 means none."""
    return min((limit for limit in limits if limit > 0), default=0)


def _worktree(path: str) -> Path:
    try:
        root = Path(path).resolve(strict=True)
    except OSError:
        root = None
    if root is None or not root.is_dir():
        raise BadInput(f"the worktree {path} is gone", fix="retry the node: a new attempt makes a new one")
    return root


def _directory(root: Path, relative: str) -> Path:
    found = inside(root, relative, "cwd") if relative else root
    if not found.is_dir():
        what = "is not a directory" if found.exists() else "does not exist"
        raise BadInput(f"{relative!r} {what} in the worktree", field="cwd")
    return found


def _served(work: RunWork) -> dict[str, str]:
    """What the server of an agent's tools is told, which the agent could dig up."""
    return work.tools.env if work.tools is not None else {}


def _facts(work: RunWork, root: Path, cwd: Path) -> dict[str, str]:
    """What a command is told about itself; over everything else, because it is so."""
    return {
        # A process that is not a shell would believe the server's.
        "PWD": str(cwd),
        "PILOTHOUSE_PLAN_ID": work.plan_id,
        "PILOTHOUSE_NODE": work.producer_id,
        "PILOTHOUSE_NODE_ID": work.node_id,
        "PILOTHOUSE_ATTEMPT": str(work.attempt),
        "PILOTHOUSE_PHASE": work.phase,
        "PILOTHOUSE_EVIDENCE_FILE": str(root / EVIDENCE / f"{work.node_id}.json"),
        # A worktree has no virtual environment; this is the one Pilothouse runs in.
        "PILOTHOUSE_PYTHON": sys.executable,
    }
