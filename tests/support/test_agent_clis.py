"""The test bed for real agents: how the CLIs are installed, and that each works against the model server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import agent_clis, needs
from tests.support.agent_clis import AGENTS, CannotInstall, install, installed, main, place
from tests.support.agent_commands import Job, conversation_of
from tests.support.agent_processes import run
from tests.support.flow import make_repo
from tests.support.models.parts import say, think, usage, write_file
from tests.support.models.server import ModelServer

WORKING_NPM = """\
echo called >> "$(dirname "$0")/calls"
mkdir -p node_modules/.bin
for name in claude codex copilot gemini opencode; do
    printf '#!/bin/sh\\necho 1.0\\n' > node_modules/.bin/$name
    chmod +x node_modules/.bin/$name
done
"""


class Bin:
    """The programs an installation finds, made up by the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def add(self, name: str, script: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\nset -eu\n{script}", encoding="utf-8")
        (self.path / name).chmod(0o755)

    def calls(self) -> int:
        return len((self.path / "calls").read_text(encoding="utf-8").splitlines())


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bin:
    made = Bin(tmp_path / "bin")
    made.add("npm", WORKING_NPM)
    monkeypatch.setenv("PATH", f"{made.path}:/usr/bin:/bin")
    monkeypatch.delenv("CI", raising=False)
    return made


def installer(cache: Path) -> subprocess.Popen[bytes]:
    """A process that installs and ends."""
    code = f"from pathlib import Path; from tests.support.agent_clis import install; install(Path({str(cache)!r}))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)


def test_what_is_installed_is_installed_once(bin_: Bin, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert not installed(cache)
    assert install(cache)
    assert installed(cache)
    assert not install(cache)
    assert bin_.calls() == 1
    assert (agent_clis.programs(cache) / "codex").exists()


def test_several_at_once_install_once(bin_: Bin, tmp_path: Path) -> None:
    racing = [installer(tmp_path / "cache") for _ in range(4)]
    assert [one.wait(30) for one in racing] == [0] * 4
    assert bin_.calls() == 1


def test_an_installation_that_was_killed_is_made_again(bin_: Bin, tmp_path: Path) -> None:
    bin_.add("npm", "mkdir node_modules; kill -9 $PPID")
    cache = tmp_path / "cache"
    killed = installer(cache)
    assert killed.wait(30) == -9
    assert not installed(cache)
    bin_.add("npm", WORKING_NPM)
    assert install(cache)


def test_what_other_pins_left_is_removed(bin_: Bin, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "0123456789abcdef" / "node_modules").mkdir(parents=True)
    install(cache)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [place(cache).name]


@pytest.mark.parametrize(
    ("npm", "said"),
    [
        ("echo 'no network' >&2; exit 1", "npm install failed (1): no network"),
        (WORKING_NPM + "echo 'exit 3' >> node_modules/.bin/gemini", "gemini --version failed (3): 1.0"),
        (WORKING_NPM + "rm node_modules/.bin/codex", "codex --version: "),
    ],
)
def test_an_installation_that_does_not_work_is_none_and_says_why_in_one_line(
    npm: str, said: str, bin_: Bin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bin_.add("npm", npm)
    with pytest.raises(CannotInstall) as caught:
        install(tmp_path / "cache")
    assert str(caught.value).startswith(said)
    assert not installed(tmp_path / "cache")

    monkeypatch.setattr(agent_clis, "install", install_nothing)
    assert main() == 1
    assert capsys.readouterr().err.splitlines()[-1] == "dev: no agent CLIs: it rains"


def install_nothing() -> None:
    raise CannotInstall("it rains")


def test_without_npm_the_advice_is_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(CannotInstall, match="apt-get install npm"):
        install(tmp_path / "cache")


def test_ci_gets_npm_from_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = Bin(tmp_path / "bin")
    system.add("npm-not-yet", WORKING_NPM)
    system.add("apt-get", f'[ "$1" = update ] || /bin/cp {system.path}/npm-not-yet {system.path}/npm')
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("CI", "true")
    for tool in ("dirname", "mkdir", "chmod"):
        (system.path / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(system.path))
    assert install(tmp_path / "cache")


def test_tests_that_need_agents_skip_with_the_command_that_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_clis, "installed", lambda: False)
    with pytest.raises(pytest.skip.Exception, match=r"needs the agent CLIs \(\./dev agents\)"):
        needs.need_agents()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_real_agent_writes_files_and_remembers_its_conversation(agent: str, tmp_path: Path) -> None:
    programs = needs.need_agents()
    worktree = make_repo(tmp_path / "repo").path
    home = tmp_path / "home"
    home.mkdir()
    script = [
        [think("I shall write."), write_file("first.txt", "one\n"), usage(1200, 60, 200, 20)],
        say("Written."),
        [write_file("sub/second.txt", "two\n")],
        say("Written as well."),
    ]
    with ModelServer({agent: script}) as server:
        job = Job("Write the first file", worktree, home, server.url_of(agent))
        first = run(agent, programs, job)
        assert (first.code, (worktree / "first.txt").read_text(encoding="utf-8")) == (0, "one\n"), first.err
        conversation = conversation_of(first.out)

        job = Job("Write the second file", worktree, home, server.url_of(agent), conversation, resumed=True)
        second = run(agent, programs, job)
        assert (second.code, (worktree / "sub" / "second.txt").read_text(encoding="utf-8")) == (0, "two\n"), second.err
        assert conversation_of(second.out) == conversation

        assert [one.asked and one.asked.turns for one in server.questions] == [0, 1, 2, 3]
        (asked,) = [one.asked for one in server.questions[2:3]]
        assert asked
        assert "Write the first file" in asked.text
        assert "Write the second file" in asked.prompts[-1]
