"""Which agents' programs are on this machine: where, which version, which models they say they offer.

Knows the PATH and files; what a program is called and what its answers mean is its driver's. Answers are kept for a
while, by the file they came from, so that an update is noticed at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from pilothouse.adapters.agents.driver import AgentDriver, Facts, Program
from pilothouse.adapters.agents.environment import AGENT_VARIABLES
from pilothouse.adapters.agents.private import PrivateFiles, private_directory
from pilothouse.adapters.agents.probe import Probed, probe
from pilothouse.core.run.agents import AgentConfig
from pilothouse.errors import Unavailable

T = TypeVar("T")
File: TypeAlias = tuple[str, int, int]
"""What a file is recognized by: where it really lies, when it was changed, how large it is."""

PROBE_TIMEOUT_S = 10.0
KEPT_S = 3600.0
FAILURE_KEPT_S = 30.0
AT_ONCE = 4
"""Programs that are asked at the same time."""

_VERSION = re.compile(r"(?<![\d.])v?(\d+(?:\.\d+)+)")
_MINIMAL = AGENT_VARIABLES - {"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "SHELL"}


class Found(NamedTuple):
    """A program that is there and not too old. ``path`` is empty when an agent needs none; ``file`` changes with it."""

    program: Program
    path: str = ""
    version: str = ""
    file: File = ("", 0, 0)


class _Kept(Generic[T]):
    """Answers by key, each for a time of its own; an exception that is expected is an answer too."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[object, tuple[float, T | Unavailable]] = {}

    def get(self, key: object) -> T | Unavailable | None:
        until, answer = self._answers.get(key, (0.0, None))
        return answer if self._now() < until else None

    def put(self, key: object, answer: T | Unavailable, kept_s: float) -> None:
        self._answers[key] = (self._now() + kept_s, answer)


class Discovery:
    """``environ`` is the server's; ``now`` a monotonic clock in seconds."""

    def __init__(
        self, environ: Mapping[str, str], private: PrivateFiles, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._environ = environ
        self._private = private
        self._found: _Kept[Found] = _Kept(now)
        self._models: _Kept[tuple[str, ...]] = _Kept(now)
        self._locks: dict[str, asyncio.Lock] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def find(self, driver: AgentDriver, config: AgentConfig, *, fresh: bool = False) -> Found:
        """Raises ``Unavailable`` for a program that is missing, cannot be started, or is too old."""
        if not driver.facts.programs and not config.command:
            return Found(Program(argv=()))
        path, file = await asyncio.to_thread(self._locate, driver, config)
        key = (driver.facts.name, config.command, file)
        async with self._locks.setdefault(driver.facts.name, asyncio.Lock()):
            answer = None if fresh else self._found.get(key)
            if answer is None:
                try:
                    answer = await self._ask_version(driver, config, path, file)
                except Unavailable as error:
                    answer = error
                self._found.put(key, answer, FAILURE_KEPT_S if isinstance(answer, Unavailable) else KEPT_S)
        if isinstance(answer, Unavailable):
            raise Unavailable(str(answer))
        return answer

    async def models(
        self, driver: AgentDriver, found: Found, env: Mapping[str, str], *, fresh: bool = False
    ) -> tuple[str, ...]:
        """What an agent offers, its default first; empty when it does not tell. ``env`` is what the agent itself would
        get: what it offers may depend on who is logged in. Raises ``Unavailable`` when it should tell but fails to."""
        command = driver.models_command(found.program)
        if not command:
            return ()
        key = (command, found.file, tuple(sorted(env.items())))
        async with self._locks.setdefault(driver.facts.name, asyncio.Lock()):
            answer = None if fresh else self._models.get(key)
            if answer is None:
                try:
                    answer = await self._ask_models(driver, command, env)
                except Unavailable as error:
                    answer = error
                self._models.put(key, answer, FAILURE_KEPT_S if isinstance(answer, Unavailable) else KEPT_S)
        if isinstance(answer, Unavailable):
            raise Unavailable(str(answer))
        return answer

    def _locate(self, driver: AgentDriver, config: AgentConfig) -> tuple[str, File]:
        facts = driver.facts
        names = tuple(map(self._expanded, config.command[:1])) or facts.programs
        where = self._environ.get("PATH", os.defpath)
        for name in names:
            if "/" in name and not name.startswith("/"):
                raise Unavailable(f"{facts.title}: {name} is not found (give a name on the PATH, or an absolute path)")
            if found := shutil.which(name, path=where):
                path = str(Path(found).absolute())
                return path, _fingerprint(path)
        if blocked := _not_executable(names, where):
            raise Unavailable(f"{facts.title}: {blocked} is not executable")
        missing = f"{facts.title} is not installed: there is no {' or '.join(names)} on the PATH"
        raise Unavailable(f"{missing}{_again(facts, config)}")

    def _expanded(self, name: str) -> str:
        home = self._environ.get("HOME", "")
        return f"{home}/{name[2:]}" if name.startswith("~/") and home else name

    async def _ask_version(self, driver: AgentDriver, config: AgentConfig, path: str, file: File) -> Found:
        facts = driver.facts
        argv = (*(await asyncio.to_thread(driver.native, path)), *config.command[1:])
        if not facts.tells_version or (not facts.minimum and config.acp):
            return Found(Program(argv=argv), path, file=file)  # what it makes of --version nobody knows
        env = await asyncio.to_thread(self._minimal, facts)
        answer = await self._ask((*argv, "--version"), env, facts.title)
        text = _VERSION.search(answer.out) or _VERSION.search(answer.errors)
        if answer.status != 0:
            said = (answer.errors.strip() or answer.out.strip())[-300:]
            how = "did not answer in time" if answer.status is None else f"exited with {answer.status}: {said}"
            raise Unavailable(f"{facts.title}: {path} --version {how}{_again(facts, config)}")
        version = tuple(int(part) for part in text[1].split(".")) if text else ()
        if facts.minimum and version < facts.minimum:
            need = ".".join(map(str, facts.minimum))
            have = text[1] if text else "not a version it tells"
            raise Unavailable(f"{facts.title} {need} or newer is needed; {path} is {have}{_again(facts, config)}")
        return Found(Program(argv=argv, version=version), path, text[1] if text else "", file)

    async def _ask_models(
        self, driver: AgentDriver, command: tuple[str, ...], env: Mapping[str, str]
    ) -> tuple[str, ...]:
        title = driver.facts.title
        answer = await self._ask(command, {**env, **driver.facts.quiet}, title)
        models = driver.models_from(answer.out) if answer.status == 0 else ()
        if not models:
            said = (answer.errors.strip() or answer.out.strip())[-300:]
            how = "did not answer in time" if answer.status is None else said or "told nothing"
            raise Unavailable(f"{title}: its models are not known: {' '.join(command[1:])} {how}")
        return tuple(dict.fromkeys(models))

    async def _ask(self, argv: tuple[str, ...], env: Mapping[str, str], title: str) -> Probed:
        try:
            cwd = await asyncio.to_thread(self._private.scratch, "probe")
            async with self._room:
                return await probe(argv, env, cwd, PROBE_TIMEOUT_S)
        except OSError as error:
            raise Unavailable(f"{title}: {argv[0]} cannot be started: {error.strerror}") from None

    def _minimal(self, facts: Facts) -> dict[str, str]:
        """For a question that needs no account: a home of its own, so that the user's is not written to."""
        home = self._private.scratch("probe") / re.sub(r"[^A-Za-z0-9_-]", "-", facts.name)
        private_directory(home)
        kept = {key: value for key, value in self._environ.items() if key in _MINIMAL or key.startswith("LC_")}
        # One unpacks itself into its cache before it answers, 235 MB in up to ten seconds: once is enough.
        cache = self._environ.get("XDG_CACHE_HOME") or str(Path(self._environ.get("HOME") or home, ".cache"))
        return kept | facts.quiet | {"HOME": str(home), "XDG_CACHE_HOME": cache}


def _fingerprint(path: str) -> File:
    try:
        status = Path(path).stat()
    except OSError:
        return path, 0, 0
    return os.path.realpath(path), status.st_mtime_ns, status.st_size


def _not_executable(names: tuple[str, ...], where: str) -> str:
    """A file that would be the program, could it be executed; empty when there is none."""
    places = (Path(directory or ".", name) for directory in where.split(os.pathsep) for name in names)
    return next((str(place) for place in places if place.is_file()), "")


def _again(facts: Facts, config: AgentConfig) -> str:
    """How to mend it; nothing where the user has chosen the program."""
    return f"; install it with: {facts.install}" if facts.install and not config.command else ""
