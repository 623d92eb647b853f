"""The agents of this machine: which driver, program and model do the work, what reaches them, and what never does."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.adapters.agents.effects import effect
from tests.adapters.agents.fakes import SYSTEM_PATH, FakeAgent, asked, install
from tests.support.needs import need_sandbox

from pilothouse.adapters.agents.driver import AgentWork, Launch
from pilothouse.adapters.agents.local import LocalAgents
from pilothouse.adapters.agents.registry import Drivers
from pilothouse.adapters.agents.scripted.driver import ScriptedAgent
from pilothouse.core.plan.spec import AgentSpec, SandboxSpec, ShellSpec, Tier
from pilothouse.core.run.agents import AgentConfig, Permissions
from pilothouse.core.run.commands import Command
from pilothouse.errors import BadInput, Unavailable

T = TypeVar("T")

SECRET = "planted-secret-0123456789"
KEY = "key-of-the-endpoint-0123456789"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


class Machine:
    """Programs ``helper`` (two models), ``talker`` (asks in its place) and whatever else is installed."""

    def __init__(self, root: Path, worktree: Path) -> None:
        self.root = root
        self.worktree = worktree
        self.bin = root / "bin"
        self.helper = install(self.bin, "helper", models=("gpt-5", "gpt-5-mini"))
        self.environ = {
            "PATH": f"{self.bin}:{SYSTEM_PATH}",
            "HOME": str(root),
            "SERVER_TOKEN": SECRET,
            "HELPER_KEY": "the-usual-key-of-helper",
            "MY_ENDPOINT": KEY,
        }
        self.drivers = {
            driver.facts.name: driver
            for driver in (
                FakeAgent("helper", variables=("HELPER_KEY", "HELPER_REGION"), asking="helper-acp", resumes=True),
                FakeAgent("helper-acp", programs=("helper",), asks=True, acp=True, resumes=True),
                FakeAgent("mute", programs=("helper",), tells_models=False),
                FakeAgent("absent"),
                ScriptedAgent(),
            )
        }

    def agents(self, **config: AgentConfig) -> LocalAgents:
        named = {name.replace("_", "-"): value for name, value in config.items()}
        return LocalAgents(
            self.environ, private_root=self.root / "data/agents", drivers=Drivers(named, self.drivers, ())
        )

    def command(self, agents: LocalAgents, spec: AgentSpec, **changes: Any) -> Command:
        return run(agents.command(effect(self.worktree, spec, **changes)))


@pytest.fixture
def machine(tmp_path: Path, worktree: Path) -> Machine:
    return Machine(tmp_path, worktree)


def files_below(place: Path) -> Iterator[tuple[Path, str]]:
    for found in place.rglob("*"):
        if found.is_file():
            yield found, found.read_text(errors="replace")


# Who does the work, and with what.


def test_the_program_that_was_found_is_started_and_told_its_prompt(machine: Machine) -> None:
    command = machine.command(machine.agents(), AgentSpec(agent="helper", instructions="Be brief"))
    assert command.argv == (str(machine.helper), "")
    assert "Add the search endpoint" in command.stdin
    assert "Be brief" in command.stdin


def test_a_plan_that_wants_to_be_asked_gets_the_driver_that_can(machine: Machine) -> None:
    agents = machine.agents()
    spec = AgentSpec(agent="helper")
    run(agents.check(spec, Permissions.ASK))
    work = effect(machine.worktree, spec, permissions=Permissions.ASK)
    run(agents.command(work))
    (kept,) = (machine.root / "data/agents").glob("p1/n1/runs/*/launched.json")
    assert json.loads(kept.read_text())["agent"] == "helper-acp"
    with pytest.raises(BadInput, match=r"mute cannot ask for permission \(use one that can: helper, helper-acp, scri"):
        run(agents.check(AgentSpec(agent="mute"), Permissions.ASK))


def test_who_works_in_the_place_of_another_has_that_ones_settings(machine: Machine) -> None:
    other = install(machine.root / "mine", "helper")
    agents = machine.agents(helper=AgentConfig(command=(str(other),), model="m"))
    command = machine.command(agents, AgentSpec(agent="helper"), permissions=Permissions.ASK)
    assert command.argv == (str(other), "m")


@pytest.mark.parametrize(
    ("spec", "config", "model"),
    [
        (AgentSpec(agent="helper"), AgentConfig(), ""),
        (AgentSpec(agent="helper"), AgentConfig(model="gpt-5"), "gpt-5"),
        (AgentSpec(agent="helper", model="gpt-5-mini"), AgentConfig(model="gpt-5"), "gpt-5-mini"),
        (AgentSpec(agent="helper", model_tier=Tier.FAST), AgentConfig(model="gpt-5"), "gpt-5-mini"),
        (AgentSpec(agent="helper", model_tier=Tier.PREMIUM), AgentConfig(), "gpt-5"),
        (AgentSpec(agent="helper", model="mine"), AgentConfig(base_url="http://127.0.0.1:1/v1"), "mine"),
        (AgentSpec(agent="helper", model_tier=Tier.FAST), AgentConfig(base_url="http://h/v1", model="mine"), "mine"),
    ],
)
def test_the_plan_decides_on_the_model_then_the_user(
    machine: Machine, spec: AgentSpec, config: AgentConfig, model: str
) -> None:
    agents = machine.agents(helper=config)
    run(agents.check(spec))
    assert machine.command(agents, spec).argv[-1] == model


def test_a_tier_of_an_agent_that_does_not_tell_its_models_is_refused(machine: Machine) -> None:
    with pytest.raises(BadInput, match=r"mute does not tell which models it offers") as caught:
        run(machine.agents().check(AgentSpec(agent="mute", model_tier=Tier.FAST)))
    assert (caught.value.field, caught.value.fix) == ("modelTier", "say model instead")


def test_a_model_is_left_to_an_agent_that_fails_to_tell_its_models(machine: Machine) -> None:
    install(machine.bin, "helper", more='[ "$1" = models ] && exit 1')
    run(machine.agents().check(AgentSpec(agent="helper", model="whatever")))


def test_an_agent_that_vanishes_after_its_plan_was_accepted_fails_the_node_with_a_reason(machine: Machine) -> None:
    agents = machine.agents()
    run(agents.check(AgentSpec(agent="helper")))
    machine.helper.unlink()
    with pytest.raises(BadInput, match="is not installed"):
        machine.command(agents, AgentSpec(agent="helper"))


def test_many_nodes_ask_a_program_only_once(machine: Machine) -> None:
    agents = machine.agents()

    async def check() -> None:
        await asyncio.gather(*(agents.check(AgentSpec(agent="helper", model="gpt-5")) for _ in range(8)))

    run(check())
    assert asked(machine.helper) == ["--version", "models"]


# What it is told.


def test_instructions_of_a_file_are_read_in_the_worktree(machine: Machine) -> None:
    (machine.worktree / "how.md").write_text("Mind the ünits.")
    spec = AgentSpec(agent="helper", instructions_file="how.md", context_files=("how.md",), context="More.")
    prompt = machine.command(machine.agents(), spec).stdin
    assert "Mind the ünits." in prompt
    assert "`how.md`" in prompt
    assert "More." in prompt


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instructions_file": "gone.md"}, r"instructionsFile: 'gone\.md' cannot be read: No such file"),
        ({"instructions_file": "../outside.md"}, "instructionsFile: .* leads outside"),
        ({"instructions_file": "link.md"}, "instructionsFile: .* leads outside"),
        ({"instructions_file": "binary"}, "instructionsFile: 'binary' is not UTF-8 text"),
        ({"instructions_file": "long"}, "instructionsFile: 'long' has more than 100,000 characters"),
        ({"instructions_file": "empty"}, "instructionsFile: 'empty' is empty"),
        ({"instructions_file": "folder"}, "instructionsFile: 'folder' cannot be read: Is a directory"),
        ({"context_files": ("long", "gone.md")}, r"contextFiles\[1\]: 'gone\.md' is not a file"),
        ({"context_files": ("link.md",)}, r"contextFiles\[0\]: .* leads outside"),
        ({"allowed_folders": ("/no/such",)}, r"allowedFolders\[0\]: '/no/such' is not a folder"),
    ],
)
def test_what_a_plan_names_and_cannot_be_read_fails_before_anything_is_started(
    machine: Machine, changes: dict[str, Any], message: str
) -> None:
    (machine.worktree.parent / "outside.md").write_text("secret")
    (machine.worktree / "link.md").symlink_to("../outside.md")
    (machine.worktree / "binary").write_bytes(b"\xff")
    (machine.worktree / "long").write_text("x" * 100_001)
    (machine.worktree / "empty").touch()
    (machine.worktree / "folder").mkdir()
    with pytest.raises(BadInput, match=message):
        machine.command(machine.agents(), AgentSpec(agent="helper", **changes))


def test_nothing_is_written_into_the_worktree(machine: Machine) -> None:
    before = sorted(files_below(machine.worktree))
    machine.command(machine.agents(), AgentSpec(agent="helper"))
    assert sorted(files_below(machine.worktree)) == before


def test_a_conversation_that_goes_on_is_told_its_trouble_only(machine: Machine) -> None:
    agents = machine.agents()
    prompt = machine.command(agents, AgentSpec(agent="helper"), session_id="s1", trouble="tests failed").stdin
    assert "> tests failed" in prompt
    assert "Add the search endpoint" not in prompt
    for spec in (AgentSpec(agent="mute"), AgentSpec(agent="helper", resume_session=False)):
        assert "Add the search endpoint" in machine.command(agents, spec, session_id="s1", trouble="x").stdin


def test_what_a_new_conversation_would_be_told_is_there_when_the_old_one_is_gone(machine: Machine) -> None:
    class Forgetful(FakeAgent):
        def launch(self, work: AgentWork) -> Launch:
            return Launch(argv=("x",), stdin=work.opening)

    machine.drivers["helper"] = Forgetful("helper", resumes=True)
    spec = AgentSpec(agent="helper", instructions="Be brief")
    told = machine.command(machine.agents(), spec, session_id="s1", trouble="tests failed").stdin
    assert "Add the search endpoint" in told
    assert "Be brief" in told
    assert "> tests failed" in told


def test_a_new_conversation_has_the_same_id_whenever_its_run_is_asked_for_again(machine: Machine) -> None:
    class Seeing(FakeAgent):
        def launch(self, work: AgentWork) -> Launch:
            return Launch(argv=(work.new_session_id, work.private, work.run))

    machine.drivers["helper"] = Seeing("helper")
    first = machine.command(machine.agents(), AgentSpec(agent="helper")).argv
    assert machine.command(machine.agents(), AgentSpec(agent="helper")).argv == first
    other = machine.command(machine.agents(), AgentSpec(agent="helper"), output="p1/n1/2/work").argv
    assert (other[0] != first[0], other[1] == first[1], other[2] != first[2]) == (True, True, True)
    assert all(Path(place).is_dir() for place in (*first[1:], other[2]))


# What reaches it, and what never does.


def environment(command: Command) -> Mapping[str, str]:
    return {name: value for name, value in command.env.items() if not name.startswith("PILOTHOUSE_")}


def test_an_agent_gets_its_own_variables_and_nobody_elses(machine: Machine) -> None:
    env = environment(machine.command(machine.agents(), AgentSpec(agent="helper")))
    assert set(env) == {"PATH", "HOME", "PWD", "HELPER_KEY", "FAKE_TELEMETRY"}
    assert "HELPER_KEY" not in environment(machine.command(machine.agents(), AgentSpec(agent="mute")))


def test_telemetry_is_off_unless_the_plan_or_the_user_says_otherwise(machine: Machine) -> None:
    machine.drivers["helper"] = FakeAgent("helper", quiet={"NO_UPDATES": "1"})
    spec = AgentSpec(agent="helper")
    env = machine.command(machine.agents(), spec).env
    assert (env["NO_UPDATES"], env["FAKE_TELEMETRY"]) == ("1", "off")
    config = AgentConfig(env={"NO_UPDATES": "0"})
    assert machine.command(machine.agents(helper=config), spec).env["NO_UPDATES"] == "0"
    env = machine.command(machine.agents(helper=config), spec, plan_env={"NO_UPDATES": "2"}).env
    assert env["NO_UPDATES"] == "2"


def test_the_key_of_an_endpoint_reaches_its_agent_instead_of_the_usual_one(machine: Machine) -> None:
    agents = machine.agents(helper=AgentConfig(base_url="http://127.0.0.1:1/v1", api_key_env="MY_ENDPOINT"))
    command = machine.command(agents, AgentSpec(agent="helper"))
    assert command.env["MY_ENDPOINT"] == KEY
    assert "HELPER_KEY" not in command.env
    assert KEY in command.redact
    for other in (
        machine.command(agents, AgentSpec(agent="mute")),
        run(agents.command(effect(machine.worktree, "env"))),
    ):
        assert KEY not in other.env.values()
        assert KEY in other.redact
    with pytest.raises(BadInput, match="MY_ENDPOINT never reaches a command"):
        run(agents.command(effect(machine.worktree, "env", inherit_env=("MY_ENDPOINT",))))


def test_a_key_that_is_not_set_is_named_before_a_plan_is_accepted(machine: Machine) -> None:
    agents = machine.agents(helper=AgentConfig(api_key_env="NOT_SET"))
    with pytest.raises(Unavailable, match=r"the variable NOT_SET, which agents\.helper\.apiKeyEnv names, is not set"):
        run(agents.check(AgentSpec(agent="helper")))
    (info,) = [info for info in run(agents.agents()) if info.name == "helper"]
    assert "NOT_SET" in info.problem


def test_a_planted_secret_is_found_nowhere(machine: Machine) -> None:
    agents = machine.agents(helper=AgentConfig(base_url="http://127.0.0.1:1/v1", api_key_env="MY_ENDPOINT"))
    (machine.worktree / "replies.yaml").write_text("- run: env; cat /proc/$PPID/environ")
    for spec in (AgentSpec(agent="helper"), AgentSpec(agent="scripted", script="replies.yaml")):
        run(agents.check(spec))
        command = machine.command(agents, spec)
        assert SECRET not in " ".join((*command.argv, command.stdin, *command.env.values()))
        assert KEY not in " ".join((*command.argv, command.stdin))
        assert {SECRET, KEY} <= set(command.redact)
    run(agents.agents())
    run(agents.models())
    shown = subprocess.run(
        command.argv, env=command.env, cwd=command.cwd, input=command.stdin, capture_output=True, text=True, timeout=30
    ).stdout
    assert "PILOTHOUSE_NODE" in shown
    assert SECRET not in shown
    for place, text in (*files_below(machine.root / "data"), *files_below(machine.worktree)):
        assert SECRET not in text, place
        assert KEY not in text, place


# What there is.


def test_an_agent_is_listed_with_its_version_its_login_and_what_it_can(machine: Machine) -> None:
    found = {info.name: info for info in run(machine.agents().agents())}
    helper = found["helper"]
    assert (helper.installed, helper.version, helper.path) == (True, "1.2.3", str(machine.helper))
    assert (helper.logged_in, helper.login, helper.models) == (True, "HELPER_KEY", 2)
    assert (helper.asks, helper.acp, helper.resumes, helper.problem) == (True, False, True, "")
    assert (found["mute"].logged_in, found["mute"].models, found["mute"].asks) == (False, None, False)
    assert (found["absent"].installed, found["absent"].install) == (False, "install-absent")
    assert "is not installed" in found["absent"].problem
    assert (found["scripted"].installed, found["scripted"].problem) == (True, "")


def test_what_an_agent_was_launched_with_is_read_by_the_next_owner_whatever_is_set_by_then(machine: Machine) -> None:
    class Telling(FakeAgent):
        seen: AgentWork

        def reader(self, work: AgentWork) -> Any:
            Telling.seen = work
            return super().reader(work)

    machine.drivers["helper"] = Telling("helper")
    work = effect(machine.worktree, AgentSpec(agent="helper", model_tier=Tier.FAST))
    run(machine.agents().command(work))
    machine.helper.unlink()
    machine.agents(helper=AgentConfig(model="other")).reader(work)
    assert Telling.seen.model == "gpt-5-mini"
    assert Telling.seen.program.argv == (str(machine.helper),)
    assert Path(Telling.seen.run).is_dir()


# Sandboxes.


def test_commands_and_agents_of_a_plan_with_a_sandbox_are_confined(machine: Machine) -> None:
    need_sandbox()
    agents, script = machine.agents(), "ls $HOME; ls .."
    shutil.rmtree(machine.worktree / ".git")
    (machine.worktree / "replies.yaml").write_text(f"[{{run: {script!r}}}, {{write: {{path: made, content: x}}}}]")
    spec = AgentSpec(agent="scripted", script="replies.yaml")
    (machine.root / "unseen").write_text("x")
    for work in (
        effect(machine.worktree, ShellSpec(command=script), sandbox=SandboxSpec()),
        effect(machine.worktree, spec, sandbox=SandboxSpec()),
    ):
        command = run(agents.command(work))
        done = subprocess.run(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            input=command.stdin,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert "unseen" not in done.stdout + done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
    assert (machine.worktree / "made").exists()


def test_an_agent_in_a_sandbox_prepares_no_later_run_and_answers_itself_nothing(machine: Machine) -> None:
    need_sandbox()
    agents = machine.agents()
    shutil.rmtree(machine.worktree / ".git")
    node = machine.root / "data/agents/p1/n1"
    script = f"""
        cd {node}
        touch state/mine
        touch runs/later sandboxes/later later
        for run in runs/*; do
            touch $run/report
            echo '{{"allowed": true}}' >$run/answers/1.json
            echo forged >$run/launched.json
        done
        true
    """
    (machine.worktree / "replies.yaml").write_text(json.dumps([{"run": script}]))
    spec = AgentSpec(agent="scripted", script="replies.yaml")
    command = run(agents.command(effect(machine.worktree, spec, sandbox=SandboxSpec())))
    done = subprocess.run(
        command.argv, env=command.env, cwd=command.cwd, input=command.stdin, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (node / "state/mine").exists()
    assert {place.name for place in node.iterdir()} == {"runs", "sandboxes", "state"}
    (own,) = (node / "runs").iterdir()
    assert [place.name for place in (node / "sandboxes").iterdir()] == [own.name]
    assert {place.name for place in own.rglob("*")} == {"answers", "launched.json", "report"}
    assert (own / "launched.json").read_text() != "forged\n"
