"""kill -9 at any moment: of the owner, of the warden, of both."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.flow import PATIENCE_S, Repo, engine, eventually, finished, make_repo, node, run

from pilothouse.core.run.events import RunRecovered
from pilothouse.errors import PilothouseError

OWNER = Path(__file__).parents[1] / "support" / "owner_process.py"


class Life:
    """One life after another of an owner over one data directory."""

    def __init__(self, tmp_path: Path, repo: Repo, plan: str, orphan_grace: float = 20.0) -> None:
        self.data_dir = tmp_path / "data"
        self.shown = tmp_path / "shown"
        self.plan = tmp_path / "plan.yaml"
        self.plan.write_text(plan)
        self.repo = repo
        self.log = tmp_path / "owner.log"
        self.env = {**os.environ, "TEST_ORPHAN_GRACE": str(orphan_grace), "PYTHONPATH": "src:."}
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, *, submit: bool = False) -> None:
        extra = [str(self.plan), str(self.repo.path)] if submit else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(OWNER), str(self.data_dir), str(self.shown), *extra],
                env=self.env,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> bool:
        """kill -9; True when it was still alive."""
        assert self.process is not None
        alive = self.process.poll() is None
        self.process.kill()
        self.process.wait(PATIENCE_S)
        return alive

    def to_the_end(self) -> None:
        assert self.process is not None
        assert self.process.wait(PATIENCE_S) == 0, self.log.read_text()[-3000:]

    def wait_for(self, met: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not met():
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.005)

    def warden_pid(self) -> int:
        """Keepers are forks of the warden, so it is the one whose parent is none of them."""
        ours = {
            pid: parent
            for pid, parent, command in _processes()
            if command.startswith(f"{sys.executable} ")
            and f" {self.data_dir} " in command
            and str(OWNER) not in command
        }
        [warden] = [pid for pid, parent in ours.items() if parent not in ours]
        return warden

    def shown_events(self) -> list[dict[str, Any]]:
        """Whole lines only: the last write of a killed process may be cut."""
        lines = self.shown.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]


def _processes() -> list[tuple[int, int, str]]:
    """(pid, parent, command line) of everything that runs."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            found.append((int(entry.name), parent, command))
    return found


def _twenty(ledger: Path, stretch: float) -> str:
    """Twenty nodes in layers; each says once in the ledger that it ran. One of them is long. ``stretch`` makes them
    longer, so that more moments of death fit in."""
    text = "name: twenty\ntargetBranch: result\nmaxParallel: 4\njobs:\n"
    for n in range(20):
        needs = f", dependencies: [n{n - 5}]" if n >= 5 else ""
        pause = stretch * (0.6 if n == 0 else 0.01 * (n % 7))
        work = f"echo n{n} $$ >> {ledger}; sleep {pause}; echo {n} > file{n}"
        text += f"  - {{producerId: n{n}, task: t, work: '{work}'{needs}}}\n"
    return text


def test_no_event_and_no_work_is_lost_or_done_twice_when_the_owner_is_killed_at_random_moments(tmp_path: Path) -> None:
    repo, ledger = make_repo(tmp_path / "repo"), tmp_path / "ledger"
    life = Life(tmp_path, repo, _twenty(ledger, float(os.environ.get("TEST_STRETCH", "1"))))
    chance = random.Random(os.environ.get("TEST_SEED", "20"))
    life.begin(submit=True)
    life.wait_for(lambda: life.shown.exists() and b"RUN_STARTED" in life.shown.read_bytes())
    kills = int(os.environ.get("TEST_KILLS", "12"))
    for _ in range(kills):
        time.sleep(chance.uniform(0.0, 0.5))  # a random moment is what is tested here
        if not life.kill():
            break
        life.begin()
    life.to_the_end()

    async def afterwards() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        async with engine(life.data_dir) as services:
            [brief] = await services.queries.plans()
            plan = await services.queries.plan(brief["planId"])
            recorded = await services.queries.events(brief["planId"], limit=100_000)
            return plan, [json.loads(services.queries.wire(r)) for r in recorded]

    plan, log = run(afterwards())
    assert plan["status"] == "succeeded", [n["error"] for n in plan["nodes"]]
    assert plan["waits"] == []
    ran = Counter(line.split()[0] for line in ledger.read_text().splitlines())
    assert ran == {f"n{n}": 1 for n in range(20)}
    assert repo.files("result") == {"README.md"} | {f"file{n}" for n in range(20)}
    assert repo.git("status", "--porcelain") == ""
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    in_log = {event["id"]: event for event in log}
    for event in life.shown_events():
        assert in_log[event["id"]] == event


def test_what_is_lost_with_the_warden_reruns_or_waits_for_a_person_as_the_plan_says(tmp_path: Path) -> None:
    repo, ledger = make_repo(tmp_path / "repo"), tmp_path / "ledger"
    gate = tmp_path / "gate"
    wait = f"while [ ! -f {gate} ]; do sleep 0.02; done"
    work = f"echo %s $PILOTHOUSE_ATTEMPT >> {ledger}; touch half; {wait}; mv half %s"
    plan = (
        "name: lost\ntargetBranch: result\njobs:\n"
        + f"  - {{producerId: again, task: t, work: {{type: shell, command: '{work % ('again', 'a')}',"
        + " onInterrupted: rerun}}\n"
        + f"  - {{producerId: ask, task: t, work: '{work % ('ask', 'b')}'}}\n"
    )
    life = Life(tmp_path, repo, plan)
    life.begin(submit=True)
    life.wait_for(lambda: ledger.exists() and len(ledger.read_text().splitlines()) == 2)
    life.kill()
    os.kill(life.warden_pid(), signal.SIGKILL)
    gate.touch()

    async def afterwards() -> None:
        async with engine(life.data_dir) as services:
            [brief] = await services.queries.plans()
            plan_id = brief["planId"]

            async def settled() -> dict[str, Any]:
                return await services.queries.plan(plan_id)

            plan = await eventually(settled, lambda p: node(p, "again")["status"] == "succeeded")
            assert node(plan, "again")["attempts"] == 2
            [wait] = node(plan, "ask")["waits"]
            assert (wait["kind"], plan["status"]) == ("review", "running")
            assert ledger.read_text().count("ask") == 1
            await services.runs.answer(wait["id"], "rerun", by="local")
            plan = await finished(services, plan_id)
            assert plan["status"] == "succeeded"
            assert ledger.read_text().splitlines().count("ask 2") == 1
            detail = await services.queries.node(plan_id, "ask")
            assert repo.show(detail["attemptHistory"][0]["rescueRef"], "half") == ""

    run(afterwards())
    assert repo.files("result") == {"README.md", "a", "b"}


def test_without_a_new_owner_everything_is_ended_after_the_orphan_grace(tmp_path: Path) -> None:
    repo, here = make_repo(tmp_path / "repo"), tmp_path / "here"
    plan = f"name: orphan\njobs: [{{producerId: a, task: t, work: 'echo $$ > {here}; setsid sleep 600 & sleep 600'}}]"
    life = Life(tmp_path, repo, plan, orphan_grace=0.5)
    life.begin(submit=True)
    life.wait_for(lambda: here.exists() and here.read_text().strip())
    marker = str(life.data_dir)
    life.kill()
    life.wait_for(lambda: not _alive(marker))

    async def afterwards() -> None:
        async with engine(life.data_dir) as services:
            [brief] = await services.queries.plans()

            async def settled() -> dict[str, Any]:
                return await services.queries.plan(brief["planId"])

            plan = await eventually(settled, lambda p: bool(node(p, "a")["waits"]))
            assert plan["status"] == "running"
            events = await services.queries.events(brief["planId"])
            assert any(isinstance(r.event, RunRecovered) for r in events)
            try:
                await services.runs.control(brief["planId"], "cancel")
            except PilothouseError as error:
                raise AssertionError(str(error)) from error
            assert (await finished(services, brief["planId"]))["status"] == "canceled"

    run(afterwards())


def _alive(marker: str) -> list[int]:
    """Processes that work below a directory or name it in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if marker in str((entry / "cwd").readlink()) or marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
