"""What is cleaned up in the background, and above all what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import ShellSpec
from pilothouse.core.run.commands import Exit, ExitReason, Inventory
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.engine.janitor import Janitor
from pilothouse.errors import Gone, NotFound, PilothouseError, StoreFailed, Unavailable


def _work(key: str) -> RunWork:
    spot: dict[str, Any] = {"node_id": "n", "attempt": 1, "phase": Phase.WORK, "repo": "/repo", "path": "/w"}
    more: dict[str, Any] = {"output": "o", "plan_env": {}, "inherit_env": (), "plan_id": "p", "producer_id": "n"}
    return RunWork(key=key, place="here", spec=ShellSpec(command="true"), task="t", instructions="", **spot, **more)


def _state(*, awaited: tuple[str, ...] = (), worktrees: tuple[str, ...] = ()) -> Any:
    attempts = [SimpleNamespace(worktree_path=path, worktree_exists=True) for path in worktrees]
    return SimpleNamespace(open={key: _work(key) for key in awaited}, nodes={"n": SimpleNamespace(attempts=attempts)})


class _Place:
    """Supervisor, store, repositories, git and executor in one: what a janitor asks, and what it did."""

    def __init__(self, **runs: Any) -> None:
        """``runs``: a state, or why there is none."""
        self.runs = runs
        self.ended = dict.fromkeys((f"{run_id}/n/1/work" for run_id in runs), Exit(reason=ExitReason.EXITED, code=0))
        self.forgotten: list[str] = []
        self.tracked: frozenset[str] | None = None
        self.lifecycle = Lifecycle.FAILED
        self.looked = 0

    async def read(self, run_id: str, view: Callable[[Any, Any], Any]) -> Any:
        found = self.runs[run_id]
        if isinstance(found, Exception):
            raise found
        return view(found, SimpleNamespace(id=run_id))

    async def rows(self, **_: Any) -> list[Any]:
        return [SimpleNamespace(id=name, lifecycle=self.lifecycle, detail={"repoPath": "/repo"}) for name in self.runs]

    async def list(self) -> list[Any]:
        return []

    async def sweep(self, repo: str, root: str, tracked: frozenset[str]) -> dict[str, str]:
        self.tracked = tracked
        return {}

    async def inventory(self) -> Inventory:
        return Inventory(instance="here", ended=self.ended)

    async def forget(self, key: str) -> None:
        self.forgotten.append(key)

    async def recover(self) -> Any:
        self.looked += 1
        raise RuntimeError("a bug in a round of another kind")

    def now_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def janitor(self) -> Janitor:
        us: Any = self
        return Janitor(supervisor=us, store=us, repos=us, git=us, executor=us, clock=us, worktree_root="/worktrees")


def test_ends_whose_outcome_is_in_the_log_are_forgotten_and_awaited_ones_are_not() -> None:
    place = _Place(told=_state(), waits=_state(awaited=("n/1/work",)))
    assert asyncio.run(place.janitor().forget_commands()) == ["told/n/1/work"]
    assert place.forgotten == ["told/n/1/work"]


@pytest.mark.parametrize("why", [NotFound("no such run"), Gone("deleted")])
def test_ends_of_runs_that_are_gone_are_forgotten(why: PilothouseError) -> None:
    assert asyncio.run(_Place(r=why).janitor().forget_commands()) == ["r/n/1/work"]


@pytest.mark.parametrize("why", [Unavailable("it was halted"), StoreFailed("the disk refuses")])
def test_ends_of_a_run_that_cannot_be_read_now_are_kept_and_others_are_not_held_up(why: PilothouseError) -> None:
    place = _Place(unreadable=why, told=_state())
    assert asyncio.run(place.janitor().forget_commands()) == ["told/n/1/work"]


def test_commands_of_shell_tools_are_left_to_them_since_a_live_one_may_not_have_looked_yet() -> None:
    place = _Place(told=_state(), direct=NotFound("no such run"))
    for key in ("told/shell/7/c1", "direct/shell/7/c2"):
        place.ended[key] = Exit(reason=ExitReason.EXITED, code=0)
    assert asyncio.run(place.janitor().forget_commands()) == ["told/n/1/work", "direct/n/1/work"]


def test_worktrees_that_a_plan_may_go_on_in_are_left_alone() -> None:
    place = _Place(p=_state(worktrees=("/worktrees/p/n/1",)), deleted=Gone("deleted"))
    asyncio.run(place.janitor().sweep_worktrees())
    assert place.tracked == frozenset({"/worktrees/p/n/1"})


def test_nothing_is_swept_while_a_plan_cannot_be_read() -> None:
    place = _Place(p=StoreFailed("unreadable"))
    with pytest.raises(StoreFailed):
        asyncio.run(place.janitor().sweep_worktrees())
    assert place.tracked is None


def test_plans_that_succeeded_are_not_read_for_it() -> None:
    place = _Place(p=StoreFailed("must not be asked"))
    place.lifecycle = Lifecycle.SUCCEEDED
    asyncio.run(place.janitor().sweep_worktrees())
    assert place.tracked == frozenset()


def test_a_chore_that_fails_in_an_unforeseen_way_is_tried_again() -> None:
    async def test() -> None:
        place = _Place(p=RuntimeError("a bug"))
        place.ended = {}
        tries = 0

        async def slept(seconds: float) -> None:
            nonlocal tries
            tries += 1
            if tries == 3:
                raise asyncio.CancelledError
            await asyncio.sleep(0)

        place.sleep = slept  # type: ignore[method-assign]  # three rounds, then the server closes
        with pytest.raises(asyncio.CancelledError):
            await place.janitor().run()
        assert (tries, place.looked) == (3, 1)

    asyncio.run(test())
