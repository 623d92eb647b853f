"""The fold of what happens to the target: the branch that results are merged into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.core.plan.effects import TARGET_KEY, OpenTarget
from pilothouse.core.plan.events import TargetFailed, TargetLost, TargetOpened
from pilothouse.core.plan.state import PlanState, Target
from pilothouse.core.run.events import Event, RunResumed, RunStarted


def _want_target(state: PlanState, event: RunStarted | RunResumed, at: int) -> None:
    need_target(state)


def need_target(state: PlanState) -> None:
    """There is none, or none any more, and none is being opened: one is wanted from here on."""
    if state.built is not None and not state.opening_target and (state.target is None or state.target_lost):
        _open_target(state)


def _open_target(state: PlanState) -> None:
    """A second target goes on from what was merged into the first, whatever becomes of that one."""
    facts, before = state.facts, state.target
    state.opening_target, state.target_error = True, ""
    state.open[TARGET_KEY] = OpenTarget(
        key=TARGET_KEY,
        repo=facts.repo_path,
        branch=facts.target_branch if before is None else None,
        base=facts.base_commit if before is None else before.commit,
        name=state.common.name,
        update_checkout=facts.update_checkout,
        taken=None if before is None else before.branch,
    )


def _target_opened(state: PlanState, event: TargetOpened, at: int) -> None:
    state.target, state.target_lost = Target(event.branch, event.commit, event.note), False
    state.opening_target = False
    state.open.pop(TARGET_KEY, None)


def _target_lost(state: PlanState, event: TargetLost, at: int) -> None:
    state.target_lost = True
    _open_target(state)


def _target_failed(state: PlanState, event: TargetFailed, at: int) -> None:
    state.opening_target, state.target_error = False, event.error
    state.open.pop(TARGET_KEY, None)


FOLDS: dict[type[Event], Callable[[PlanState, Any, int], None]] = {
    RunStarted: _want_target,
    RunResumed: _want_target,
    TargetOpened: _target_opened,
    TargetLost: _target_lost,
    TargetFailed: _target_failed,
}
