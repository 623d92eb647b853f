"""Commands of a model: bounded, without secrets, and gone for certain when they are not wanted any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.flow import make_repo
from tests.support.needs import need_sandbox

from pilothouse.adapters.agents.environment import HostEnvironment
from pilothouse.adapters.store.output import FileLogStore
from pilothouse.adapters.system.ids import Uuid7Ids
from pilothouse.adapters.toolbox.shell import LocalShells
from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.core.run.commands import Command
from pilothouse.core.tools.spec import ToolAnswer, ToolContext
from pilothouse.engine.own_tools.shell import HEAD, TAIL, end_left_over, shell_tools
from pilothouse.engine.tools.registry import ToolRegistry

HOST = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GITHUB_TOKEN": "ghp-of-the-host"}
SECRET = "s3cr3t-of-the-user"
WITHIN_S = 20.0


class Values:
    async def values(self, owner: str) -> Mapping[str, str]:
        return {"NAME": SECRET}


class Machine:
    """A data directory and a workspace, with a real executor."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.workspace = root / "workspace"
        self.data.mkdir()
        self.workspace.mkdir()
        self.shells = LocalShells(HostEnvironment(HOST), data_dir=self.data, private=self.data / "shell")
        self.executor: LocalExecutor
        self.logs: FileLogStore

    def tools(self, life: str = "1") -> ToolRegistry:
        return ToolRegistry(shell_tools(self.executor, self.logs, self.shells, Uuid7Ids(), life), Values())

    async def call(self, command: str, tool: str = "run_shell", **arguments: Any) -> ToolAnswer:
        context = ToolContext(owner="local", turn_id="turn", call_id="c", workspace=str(self.workspace))
        return await self.tools().run(tool, {"command": command, **arguments}, context)

    def nothing_is_left(self) -> None:
        assert not [path for path in self.executor.outputs.rglob("*") if path.is_file()]
        assert not list((self.data / "shell").glob("*"))


@pytest.fixture
def told(tmp_path: Path) -> Callable[[Callable[[Machine], Awaitable[None]]], None]:
    machine = Machine(tmp_path)

    def tell(story: Callable[[Machine], Awaitable[None]]) -> None:
        async def journey() -> None:
            async with LocalExecutor(machine.data, 1, orphan_grace=5.0) as executor:
                machine.executor = executor
                machine.logs = FileLogStore(executor.outputs)
                try:
                    await story(machine)
                finally:
                    await executor.shutdown()

        asyncio.run(asyncio.wait_for(journey(), 2 * WITHIN_S))

    return tell


Told = Callable[[Callable[[Machine], Awaitable[None]]], None]


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.fixture
def sandbox() -> None:
    need_sandbox()


def test_a_command_runs_in_the_workspace_and_answers_code_and_output(told: Told) -> None:
    async def story(machine: Machine) -> None:
        answer = await machine.call("pwd; printf '\\033[31mred\\033[0m\\n' >&2; exit 3")
        assert answer.ok
        assert answer.result["exitCode"] == 3
        assert answer.result["output"] == f"{machine.workspace}\nred\n"
        machine.nothing_is_left()

    told(story)


def test_a_long_output_is_answered_from_both_ends(told: Told) -> None:
    async def story(machine: Machine) -> None:
        answer = await machine.call("echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last")
        output = answer.result["output"]
        assert output.startswith("first\n")
        assert output.endswith("last\n")
        assert "bytes left out" in output
        assert len(output) < HEAD + TAIL + 100

    told(story)


def test_secrets_of_the_host_are_not_there_and_those_of_the_user_only_where_they_were_put(told: Told) -> None:
    async def story(machine: Machine) -> None:
        answer = await machine.call(
            "env; cat /proc/self/environ | base64 -w0", env={"MINE": "x{{NAME}}", "LITERAL": "$HOME"}
        )
        assert answer.ok
        output = answer.result["output"]
        assert "ghp-of-the-host" not in output
        assert SECRET not in output
        assert "GITHUB_TOKEN" not in output
        assert "LITERAL=$HOME\n" in output
        seen = await machine.call('test "$MINE" = xs3cr3t-of-the-user && echo the same', env={"MINE": "x{{NAME}}"})
        assert seen.result["output"] == "the same\n"
        kept = await machine.call("echo '{{NAME}}'")
        assert kept.result["output"] == "{{NAME}}\n"
        for path in machine.data.rglob("*"):
            if path.is_file():
                assert SECRET.encode() not in path.read_bytes()

    told(story)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"env": {"PILOTHOUSE_DATA_DIR": "x"}}, "env.PILOTHOUSE_DATA_DIR"),
        ({"env": {"A B": "x"}}, "env.A B"),
        ({"env": {"A": "{{NONE}}"}}, "env.A: there is no credential {{NONE}}"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": ""}, "command"),
        ({"timeoutSeconds": 100_000}, "timeoutSeconds"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_field(told: Told, arguments: dict[str, Any], says: str) -> None:
    async def story(machine: Machine) -> None:
        answer = await machine.call(**{"command": "true", **arguments})
        assert not answer.ok
        assert says in answer.error
        machine.nothing_is_left()

    told(story)


def test_a_command_that_takes_too_long_is_ended_with_what_it_printed(told: Told) -> None:
    async def story(machine: Machine) -> None:
        answer = await machine.call("echo begun; sleep 300", timeoutSeconds=1)
        assert not answer.ok
        assert answer.result["output"] == "begun\n"
        assert "took too long" in answer.error

    told(story)


def test_a_call_that_is_cancelled_leaves_no_process_behind(told: Told) -> None:
    async def story(machine: Machine) -> None:
        line = "trap '' TERM; (setsid sleep 300 &) ; echo up > started; sleep 300"
        task = asyncio.create_task(machine.call(line))
        await until((machine.workspace / "started").exists)
        (key,) = (await machine.executor.inventory()).running
        task.cancel()
        await asyncio.wait({task}, timeout=WITHIN_S)
        assert task.cancelled()
        inventory = await machine.executor.inventory()
        assert not inventory.knows(key)
        machine.nothing_is_left()

    told(story)


def test_what_an_earlier_owner_left_is_ended_and_what_this_one_runs_is_not(told: Told) -> None:
    async def story(machine: Machine) -> None:
        (machine.workspace / "go").touch()
        mine = asyncio.create_task(machine.call("while [ -e go ]; do sleep 0.05; done; echo done"))
        command = await machine.shells.command(
            "sleep 300",
            workspace=str(machine.workspace),
            env={},
            output="turn/shell/0/left",
            timeout_ms=0,
            read_only=False,
        )
        await machine.executor.start(command, "turn/shell/0/left")
        await machine.executor.start(Command(argv=("true",), cwd="/", output="plan/x"), "plan/x")
        await end_left_over(machine.executor, machine.logs, machine.shells, "1")
        inventory = await machine.executor.inventory()
        assert not inventory.knows("turn/shell/0/left")
        assert inventory.knows("plan/x")
        (machine.workspace / "go").unlink()
        assert (await mine).result["output"] == "done\n"

    told(story)


@pytest.mark.usefixtures("sandbox")
def test_a_command_that_only_looks_changes_nothing_and_reaches_nothing(told: Told) -> None:
    async def story(machine: Machine) -> None:
        (machine.workspace / "file.txt").write_text("content\n")

        async def look(command: str) -> Any:
            return (await machine.call(command, "run_readonly_shell")).result

        assert (await look("cat file.txt"))["output"] == "content\n"
        assert (await look("echo x > new.txt"))["exitCode"] != 0
        assert (await look("rm -f file.txt || echo kept"))["output"].endswith("kept\n")
        assert (await look("echo scratch > /tmp/x && cat /tmp/x"))["output"] == "scratch\n"
        assert (await look(f"ls {machine.data}; ls $HOME | wc -l"))["output"].endswith("0\n")
        assert (await look("cat < /dev/tcp/127.0.0.1/22"))["exitCode"] != 0
        assert [path.name for path in machine.workspace.iterdir()] == ["file.txt"]
        machine.nothing_is_left()

    told(story)


@pytest.mark.usefixtures("sandbox")
def test_history_is_looked_at_and_not_changed(told: Told) -> None:
    async def story(machine: Machine) -> None:
        machine.workspace.rmdir()
        repo = make_repo(machine.workspace)
        before = {path: path.stat().st_mtime_ns for path in machine.workspace.rglob("*")}
        looked = await machine.call("git log --format=%s && git status --short", "run_readonly_shell")
        assert looked.result["output"] == "start\n"
        changed = await machine.call("git commit --allow-empty -m x; git branch other", "run_readonly_shell")
        assert changed.result["exitCode"] != 0
        assert repo.git("branch", "--format=%(refname:short)").split() == ["main"]
        assert {path: path.stat().st_mtime_ns for path in machine.workspace.rglob("*")} == before

    told(story)


def test_a_conversation_without_a_workspace_has_no_shell(told: Told) -> None:
    async def story(machine: Machine) -> None:
        answer = await machine.tools().run("run_shell", {"command": "true"}, ToolContext(owner="local"))
        assert "no workspace" in answer.error

    told(story)
