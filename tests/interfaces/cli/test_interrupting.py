"""Ctrl-C, as the terminal sends it: to a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.interfaces.cli.fake_owner import FakeOwner
from tests.interfaces.cli.story import PLAN_ID, Story, job

BOUND = 20.0
SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text("name: add-search\njobs:\n  - { producerId: api, task: do it, work: 'true' }\n", "utf-8")
    return path


@contextmanager
def pilothouse(owner: FakeOwner, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "pilothouse.interfaces.cli.main", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PILOTHOUSE_DATA_DIR": str(owner.data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killer = threading.Timer(BOUND, process.kill)
    killer.start()
    try:
        yield process
    finally:
        killer.cancel()
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    found = ""
    for line in process.stdout:
        found += line
        if text in line:
            return found
    assert process.stderr is not None
    pytest.fail(f"{text!r} was not said, but {found!r}, {process.stderr.read()!r}")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stops(owner: FakeOwner) -> int:
    return owner.paths("POST").count(f"/api/runs/{PLAN_ID}/stop")


def test_the_first_stops_the_plan_and_waits_for_its_end(owner: FakeOwner, plan: Path) -> None:
    owner.submitted = Story([job("api")]).start().begin("api")
    owner.on_stop = lambda story: story.stop().save("api")
    with pilothouse(owner, "run", str(plan)) as process:
        read_until(process, "api: running")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert stops(owner) == 1
    assert "■ stopped  add-search" in out
    assert err == ""


def test_the_second_leaves_and_says_how_to_come_back(owner: FakeOwner, plan: Path) -> None:
    owner.submitted = Story([job("api")]).start().begin("api")
    owner.on_stop = lambda story: None
    with pilothouse(owner, "run", str(plan)) as process:
        read_until(process, "api: running")
        process.send_signal(signal.SIGINT)
        wait_for(lambda: stops(owner) == 1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert stops(owner) == 1
    assert "`pilothouse plan show 0193b2c4-5d6e --follow` comes back to it" in err


def test_a_plan_that_is_only_watched_is_not_stopped(owner: FakeOwner) -> None:
    owner.stories[PLAN_ID] = Story([job("api"), job("web", "api")]).start().begin("api")
    with pilothouse(owner, "plan", "show", "last", "--follow") as process:
        wait_for(lambda: any("/events" in path for path in owner.paths("GET")))
        owner.tell(lambda story: story.succeed("api"))
        read_until(process, "api: succeeded")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert stops(owner) == 0
    assert "`pilothouse plan stop 0193b2c4-5d6e` stops it" in err


def test_a_reader_that_goes_away_is_no_failure_worth_words(owner: FakeOwner) -> None:
    owner.stories[PLAN_ID] = Story([job(f"job-{number}") for number in range(3000)])
    with pilothouse(owner, "plan", "show", "last", "--json") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=BOUND) == 1
        process.stdout = None
