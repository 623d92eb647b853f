"""What must hold when a simulated run is over, read from the log and the worlds."""

from __future__ import annotations

import msgspec
from tests.simulation.programs import OWN
from tests.simulation.report import recorded_in
from tests.simulation.same import differences
from tests.simulation.told import judge_agents
from tests.simulation.watch import RunWatch
from tests.simulation.world import REPO, World

from pilothouse.core.plan.build import Node
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import Phase, PhaseStatus
from pilothouse.core.plan.state import PlanState
from pilothouse.core.plan.states import TERMINAL, NodeStatus
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import project

_BAD = TERMINAL - {NodeStatus.SUCCEEDED}


def judge_end(world: World) -> None:
    for run_id, run in world.watch.runs.items():
        _judge_log(world, run_id, run)
        _judge_plan(world, run_id, run.state)
        judge_agents(world, run_id, run.log, run.state, world.disk.runs[run_id].row)
    _judge_user(world)


def _judge_log(world: World, run_id: str, run: RunWatch) -> None:
    check = world.watch.check
    stored = world.disk.runs[run_id]
    log = recorded_in(stored.segments)
    check([recorded.seq for recorded in log] == list(range(1, len(log) + 1)), f"{run_id}: seq has a gap")
    check(log == run.log, f"{run_id}: the log is not what was appended")
    state, row = PlanKind().initial(run_id), None
    for recorded in log:
        state = PlanKind().evolve(state, recorded)
        row = project(row, recorded)
    different = differences(state, run.state)
    check(not different, f"{run_id}: folding the log again gives another state: {different}")
    check(msgspec.structs.replace(stored.row, epoch=0) == row, f"{run_id}: the stored row is not the fold of the log")
    check(not state.housekeeping, f"{run_id}: housekeeping is owed: {list(state.housekeeping)}")
    check(stored.row.detail.get("owed", 0) == 0, f"{run_id}: the row says that clean-ups are owed")
    check(not state.open, f"{run_id}: effects are open: {list(state.open)}")


def _judge_plan(world: World, run_id: str, state: PlanState) -> None:
    check = world.watch.check
    repo = world.repo
    pinned: set[str | None] = {state.facts.base_commit}
    for name, commit in repo.refs.items():
        if name.startswith("refs/pilothouse/plans/") and commit not in pinned:
            pinned |= repo.ancestors(commit)
    for node in state.nodes.values():
        where = f"{run_id}/{node.node.producer_id}"
        check(node.status in TERMINAL, f"{where} is {node.status} at the end")
        bad = any(state.nodes[parent].status in _BAD for parent in node.node.dependencies)
        if node.status is NodeStatus.BLOCKED:
            check(bad, f"{where} is blocked, and nothing it depends on has failed")
        elif bad:
            check(node.status is NodeStatus.CANCELED, f"{where} is {node.status} below something that has failed")
        if node.status is NodeStatus.SUCCEEDED:
            check(node.completed_commit in pinned, f"{where}: its commit {node.completed_commit} is not pinned")
        known = {attempt.worktree_path for attempt in node.attempts if attempt.worktree_exists}
        for attempt in node.attempts:
            there = attempt.worktree_path in repo.worktrees
            # A frozen owner may have been in the middle of making it: git, unlike the log, knows no fence.
            lost = there and attempt.worktree_path not in known and not world.froze
            check(not lost, f"{where}/{attempt.number}: the log knows nothing of its worktree")
            succeeded = attempt.status is PhaseStatus.SUCCEEDED
            unneeded = (
                state.plan.clean_up_successful_work if succeeded else state.common.lifecycle is Lifecycle.CANCELED
            )
            excused = world.froze or world.faults.failed_at["git"]  # what cannot be saved is not removed
            left = there and attempt.worktree_exists and unneeded and not excused
            check(not left, f"{where}/{attempt.number}: its worktree is left behind")
    if state.common.lifecycle is Lifecycle.SUCCEEDED:
        _judge_target(world, run_id, state)


def _judge_target(world: World, run_id: str, state: PlanState) -> None:
    check, repo = world.watch.check, world.repo
    assert state.target is not None
    head = repo.refs.get(f"refs/heads/{state.target.branch}")
    check(head is not None, f"{run_id}: there is no target {state.target.branch}")
    if head is None:
        return
    files = repo.commits[head].files
    for node in state.nodes.values():
        if node.node.is_leaf:
            for name in _own_files(state, node.node):
                made = repo.commits[node.completed_commit or ""].files.get(name)
                check(files.get(name) == made, f"{run_id}: {name} of {node.node.producer_id} is not in the target")
    messages = [repo.commits[commit].message for commit in sorted(repo.ancestors(head))]
    for node in state.nodes.values():
        trailer = f"Pilothouse-Plan: {run_id}\nPilothouse-Node: {node.node.producer_id}"
        times = sum(message.endswith(trailer) for message in messages)
        # A merge that failed after all had been done counts, when its node was then tried afresh.
        tried = [attempt.phases[Phase.MERGE_RI].status for attempt in node.attempts if Phase.MERGE_RI in attempt.phases]
        allowed = sum(status in (PhaseStatus.SUCCEEDED, PhaseStatus.FAILED) for status in tried)
        check(times <= allowed, f"{run_id}: {node.node.producer_id} was merged {times} times")


def _own_files(state: PlanState, leaf: Node) -> list[str]:
    """The files only one node writes, of a leaf and everything above it."""
    seen: dict[str, None] = {}
    waiting = [leaf.id]
    while waiting:
        node = state.nodes[waiting.pop()].node
        if node.id not in seen:
            seen[node.id] = None
            waiting.extend(node.dependencies)
    nodes = [state.nodes[node_id].node for node_id in seen]
    plan = state.common.name
    return [OWN.format(f"{plan}-{n.producer_id}") for n in nodes if n.work is not None and not n.expects_no_changes]


def _judge_user(world: World) -> None:
    """Nobody touched what is the user's."""
    tree = world.repo.worktrees[REPO]
    world.watch.check(tree.branch == "main", "the user's checkout is on another branch")
    world.watch.check(tree.files.get("notes.txt") == "not committed\n", "the user's edits are gone")
    if not world.watch.updates_checkout:
        first = next(iter(world.repo.commits))
        world.watch.check(world.repo.refs["refs/heads/main"] == first, "main was moved")
        clean = {name: text for name, text in tree.files.items() if name != "notes.txt"}
        world.watch.check(clean == dict(world.repo.commits[first].files), "the user's checkout was touched")
