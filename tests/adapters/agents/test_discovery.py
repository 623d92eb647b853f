"""Finding programs on a PATH of small shell scripts, and asking them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.adapters.agents.fakes import SYSTEM_PATH, FakeAgent, asked, install

from pilothouse.adapters.agents import discovery
from pilothouse.adapters.agents.discovery import FAILURE_KEPT_S, KEPT_S, Discovery, Found
from pilothouse.adapters.agents.private import PrivateFiles
from pilothouse.core.run.agents import AgentConfig
from pilothouse.errors import Unavailable

T = TypeVar("T")
NONE = AgentConfig()
HELPER = FakeAgent("helper")


class Machine:
    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.bin.mkdir()
        self.home = root / "home"
        self.home.mkdir()
        self.private = root / "private"
        self.now = 0.0
        self.environ = {
            "PATH": f"{self.bin}:{SYSTEM_PATH}",
            "HOME": str(self.home),
            "HELPER_KEY": "planted-secret",
            "XDG_CONFIG_HOME": str(self.home),
        }
        self.discovery = Discovery(self.environ, PrivateFiles(self.private), lambda: self.now)

    def find(self, agent: FakeAgent = HELPER, config: AgentConfig = NONE, *, fresh: bool = False) -> Found:
        return run(self.discovery.find(agent, config, fresh=fresh))

    def models(self, agent: FakeAgent = HELPER, *, fresh: bool = False) -> tuple[str, ...]:
        return run(self._models(agent, fresh))

    async def _models(self, agent: FakeAgent, fresh: bool) -> tuple[str, ...]:
        found = await self.discovery.find(agent, NONE)
        return await self.discovery.models(agent, found, {"PATH": self.environ["PATH"]}, fresh=fresh)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_program_on_the_path_is_found_with_its_version(machine: Machine) -> None:
    place = install(machine.bin, "helper", version="v1.12.3-beta")
    found = machine.find()
    assert (found.path, found.version) == (str(place), "1.12.3")
    assert (found.program.argv, found.program.version) == ((str(place),), (1, 12, 3))


def test_the_first_name_that_is_found_is_taken(machine: Machine) -> None:
    place = install(machine.bin, "helper-cli")
    assert machine.find(FakeAgent("helper", programs=("helper", "helper-cli"))).path == str(place)


def test_the_program_itself_is_started_where_the_driver_finds_it_behind_its_loader(machine: Machine) -> None:
    install(machine.bin, "helper", version="1.0")
    native = install(machine.bin, "helper-native", version="2.0")
    assert machine.find().program.argv == (str(native),)
    assert machine.find().version == "2.0"


def test_an_agent_that_needs_no_program_is_always_there(machine: Machine) -> None:
    assert machine.find(FakeAgent("helper", programs=())) == Found(machine.find(FakeAgent("x", programs=())).program)


def test_what_the_user_sets_is_started_instead(machine: Machine, tmp_path: Path) -> None:
    install(machine.bin, "helper")
    mine = install(tmp_path / "mine", "other", version="3.0")
    assert machine.find(config=AgentConfig(command=(str(mine), "--flag"))).program.argv == (str(mine), "--flag")
    home = install(machine.home, "another", version="4.0")
    assert machine.find(config=AgentConfig(command=("~/another",))).path == str(home)


def test_what_is_missing_is_named_with_what_installs_it(machine: Machine) -> None:
    with pytest.raises(Unavailable, match=r"not installed: there is no helper on the PATH; install it with: install-h"):
        machine.find()


def test_what_the_user_sets_and_is_not_there_is_named(machine: Machine) -> None:
    with pytest.raises(Unavailable, match=r"there is no /no/such on the PATH$"):
        machine.find(config=AgentConfig(command=("/no/such",)))
    with pytest.raises(Unavailable, match="give a name on the PATH, or an absolute path"):
        machine.find(config=AgentConfig(command=("bin/helper",)))


def test_what_cannot_be_executed_is_named(machine: Machine) -> None:
    place = install(machine.bin, "helper", mode=0o644)
    with pytest.raises(Unavailable, match=f"{place} is not executable"):
        machine.find()


def test_what_is_no_program_is_told(machine: Machine) -> None:
    (machine.bin / "helper").write_bytes(b"\x7fELF nonsense")
    (machine.bin / "helper").chmod(0o755)
    with pytest.raises(Unavailable, match="cannot be started: Exec format error"):
        machine.find()


@pytest.mark.parametrize(("version", "told"), [("1.1.9", "is 1.1.9"), ("unreleased", "is not a version it tells")])
def test_what_is_too_old_or_of_no_version_is_refused(machine: Machine, version: str, told: str) -> None:
    install(machine.bin, "helper", version=version)
    with pytest.raises(Unavailable, match=r"1\.2 or newer is needed; .*; install it with: install-helper") as caught:
        machine.find()
    assert told in str(caught.value)


def test_a_program_that_fails_to_tell_its_version_is_told_with_what_it_said(machine: Machine) -> None:
    install(machine.bin, "helper", more="echo 'needs Node 22' >&2; exit 3")
    with pytest.raises(Unavailable, match="--version exited with 3: needs Node 22"):
        machine.find()


def test_a_program_that_does_not_answer_is_ended_with_all_it_started(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "PROBE_TIMEOUT_S", 0.3)
    pids = machine.bin / "pids"
    install(machine.bin, "helper", more=f"sleep 300 & echo $! $$ > {pids}; wait")
    with pytest.raises(Unavailable, match="did not answer in time"):
        machine.find()
    assert not [pid for pid in pids.read_text().split() if _lives(int(pid))]


def _lives(pid: int) -> bool:
    """A zombie whose parent has not looked yet does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # it is gone, also between being opened and being read
        return False


def test_a_program_that_floods_is_ended(machine: Machine) -> None:
    install(machine.bin, "helper", more="cat /dev/zero")
    with pytest.raises(Unavailable, match="did not answer in time"):
        machine.find()


def test_whoever_stops_waiting_ends_the_program(machine: Machine) -> None:
    pid = machine.bin / "pid"
    install(machine.bin, "helper", more=f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 300")

    async def give_up() -> None:
        asking = asyncio.create_task(machine.discovery.find(HELPER, NONE))
        while not pid.exists():
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        while _lives(int(pid.read_text())):
            await asyncio.sleep(0.01)

    run(give_up())


def test_asking_for_a_version_needs_no_secret_and_touches_no_home(machine: Machine) -> None:
    shown = machine.bin / "env"
    install(machine.bin, "helper", more=f'env > {shown}; touch "$HOME/.written"')
    machine.find(FakeAgent("helper", quiet={"HELPER_TELEMETRY": "0"}))
    env = dict(line.split("=", 1) for line in shown.read_text().splitlines())
    assert "planted-secret" not in env.values()
    assert env["HELPER_TELEMETRY"] == "0"
    assert list(machine.home.iterdir()) == []
    assert Path(env["HOME"]).is_relative_to(machine.private)
    assert env["XDG_CACHE_HOME"] == str(machine.home / ".cache")  # what a program unpacks there, it unpacks once
    assert machine.private.stat().st_mode & 0o077 == 0


def test_a_program_is_asked_once_until_it_changes_or_an_hour_has_passed(machine: Machine) -> None:
    place = install(machine.bin, "helper", models=("a",))
    for _ in range(3):
        machine.find()
        assert machine.models() == ("a",)
    assert asked(place) == ["--version", "models"]
    machine.now += KEPT_S - 1
    machine.models()
    assert asked(place) == ["--version", "models"]
    machine.now += 2
    machine.models()
    assert asked(place) == ["--version", "models"] * 2
    install(machine.bin, "helper", version="1.9", models=("a", "b"))
    os.utime(place, (time.time() + 5, time.time() + 5))
    assert (machine.find().version, machine.models()) == ("1.9", ("a", "b"))


def test_those_who_ask_at_the_same_time_share_one_answer(machine: Machine) -> None:
    place = install(machine.bin, "helper")

    async def ask() -> None:
        await asyncio.gather(*(machine.discovery.find(HELPER, NONE) for _ in range(5)))

    run(ask())
    assert asked(place) == ["--version"]


def test_who_wants_it_fresh_gets_it_fresh(machine: Machine) -> None:
    place = install(machine.bin, "helper", models=("a",))
    for _ in range(2):
        machine.find(fresh=True)
    machine.models(fresh=True)
    machine.models(fresh=True)
    assert asked(place) == ["--version", "--version", "models", "models"]


def test_failures_are_kept_for_a_short_time(machine: Machine) -> None:
    place = install(machine.bin, "helper", more="exit 1")
    for _ in range(2):
        with pytest.raises(Unavailable):
            machine.find()
    assert asked(place) == ["--version"]
    machine.now += FAILURE_KEPT_S + 1
    with pytest.raises(Unavailable):
        machine.find()
    assert asked(place) == ["--version"] * 2


def test_models_are_what_it_tells_each_once_in_its_order(machine: Machine) -> None:
    install(machine.bin, "helper", models=("b", "a", "b"))
    assert machine.models() == ("b", "a")


def test_an_agent_that_does_not_tell_its_models_is_not_asked(machine: Machine) -> None:
    place = install(machine.bin, "helper", models=("a",))
    assert machine.models(FakeAgent("helper", tells_models=False)) == ()
    assert asked(place) == ["--version"]


def test_an_agent_that_should_tell_its_models_and_does_not_is_told(machine: Machine) -> None:
    install(machine.bin, "helper", more='[ "$1" = models ] && { echo "log in first" >&2; exit 1; }')
    with pytest.raises(Unavailable, match="its models are not known: models log in first"):
        machine.models()
