"""From what a plan wants run to the command an executor runs: argv, directory, environment, what to black out.

Owns which variables reach a command or an agent and which facts it is told. Reads no global state: the host's
environment is given. The only thing looked at is whether the directory exists and lies inside the worktree.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pilothouse.adapters.agents.driver import AgentDriver, AgentWork, Launch
from pilothouse.adapters.agents.inside import inside
from pilothouse.adapters.agents.registry import DRIVERS, require
from pilothouse.adapters.work.environment import command_environment
from pilothouse.adapters.work.specs import process_argv, shell_argv
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.spec import AgentSpec, ProcessSpec, ShellSpec
from pilothouse.core.run.commands import Command
from pilothouse.core.run.secret_names import OWN_PREFIX, is_withheld
from pilothouse.errors import BadInput

EVIDENCE = ".orchestrator/evidence"
MIN_SECRET = 8
"""Characters. Blacking out shorter values would make output unreadable and hide little."""

# fmt: off
AGENT_VARIABLES = frozenset({
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    # Where certificates are: without them nothing is reached on some systems.
    "SSL_CERT_DIR", "SSL_CERT_FILE",
    # Who commits, and where git's settings are.
    "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME",
})
"""What an agent inherits, beside ``LC_*`` and what its driver needs."""

# A server that was started from a git hook or alias would point every git of every command at another repository.
# The numbered configuration goes as a whole: its keys are withheld for their name, and git refuses a count without.
_OTHER_REPOSITORY = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS",
    "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
})
_OTHER_CONFIGURATION = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
# fmt: on


class CommandFactory:
    """Makes the command of an effect. ``environ`` is the host's environment as it was when the server started."""

    def __init__(self, environ: Mapping[str, str], drivers: Mapping[str, AgentDriver] = DRIVERS) -> None:
        self._host = {
            name: value
            for name, value in environ.items()
            if name not in _OTHER_REPOSITORY and not name.startswith(_OTHER_CONFIGURATION)
        }
        self._secrets = tuple(_secrets(environ))
        self._drivers = drivers

    def __call__(self, work: RunWork) -> Command:
        """Raises ``BadInput`` for a directory, a variable or an agent that cannot be; nothing was started then."""
        root = _worktree(work.path)
        match work.spec:
            case ShellSpec() as spec:
                return self._command(work, root, shell_argv(spec.command, spec.shell), spec)
            case ProcessSpec() as spec:
                return self._command(work, root, process_argv(spec.executable, spec.args), spec)
            case AgentSpec() as spec:
                return self._agent(work, root, spec)

    def _command(self, work: RunWork, root: Path, argv: tuple[str, ...], spec: ShellSpec | ProcessSpec) -> Command:
        given = work.plan_env | spec.env
        env = command_environment(self._host, given, work.inherit_env)
        cwd = _directory(root, spec.cwd)
        return Command(
            argv=argv,
            cwd=str(cwd),
            output=work.output,
            env=env | _facts(work, root, cwd),
            timeout_ms=spec.timeout_ms,
            redact=self._redact(env, work.inherit_env),
        )

    def _agent(self, work: RunWork, root: Path, spec: AgentSpec) -> Command:
        driver = require(spec.agent, self._drivers)
        launch = driver.launch(_agent_work(work, root, spec))
        given = work.plan_env | spec.env
        asked = (*work.inherit_env, *driver.facts.variables)
        env = _agent_environment(command_environment(self._host, given, asked), given, asked, launch)
        return Command(
            argv=launch.argv,
            cwd=str(root),
            output=work.output,
            env=env | _facts(work, root, root),
            stdin=launch.stdin,
            timeout_ms=spec.timeout_ms,
            grace_ms=launch.grace_ms,
            redact=self._redact(env, work.inherit_env),
        )

    def _redact(self, env: Mapping[str, str], inherited: Iterable[str]) -> tuple[str, ...]:
        """The secrets of the host, so that a command that digs them up cannot show them; and those it was given."""
        asked = (env[name] for name in inherited if name in env)
        return tuple(dict.fromkeys(value for value in (*self._secrets, *_secrets(env), *asked) if _is_worth(value)))


def least(*limits: int) -> int:
    """The least of some time limits, of which 0 means none."""
    return min((limit for limit in limits if limit > 0), default=0)


def _secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Values of variables that are named like secrets, and passwords in our own variables (a database's address)."""
    for name, value in environ.items():
        own = name.upper().startswith(OWN_PREFIX)
        if is_withheld(name.upper().removeprefix(OWN_PREFIX)):
            yield value
        elif own and "://" in value:
            yield _password(value)


def _password(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""


def _is_worth(value: str) -> bool:
    return len(value) >= MIN_SECRET


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


def _agent_work(work: RunWork, root: Path, spec: AgentSpec) -> AgentWork:
    return AgentWork(
        task=work.task,
        instructions=spec.instructions or work.task,
        context=work.instructions,
        script=spec.script,
        worktree=str(root),
        repo=work.repo,
        plan_id=work.plan_id,
        node=work.producer_id,
        node_id=work.node_id,
        attempt=work.attempt,
        phase=work.phase,
    )


def _agent_environment(
    env: Mapping[str, str], given: Mapping[str, str], asked: Iterable[str], launch: Launch
) -> dict[str, str]:
    """The little an agent gets of ``env``; the driver's settings over what is inherited, the plan's over both."""
    let_in = AGENT_VARIABLES | frozenset(asked)
    inherited = {name: value for name, value in env.items() if name in let_in or name.startswith("LC_")}
    return inherited | launch.env | {name: env[name] for name in given}
