"""Watches the worlds and the log while a simulated run goes on, and says which promise was broken first.

It folds every committed batch by itself, so what it compares with the engine is the log and nothing else. What can
only be judged at the end is in ``final``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.report import recorded_in
from tests.simulation.same import differences

from pilothouse.core.plan.events import AttemptStarted, NodeMoved, NodeRetried, PhaseStarted
from pilothouse.core.plan.intents import phase_spec
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import COMMANDS, Phase
from pilothouse.core.plan.spec import AgentSpec, OnInterrupted
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.commands import Command
from pilothouse.core.run.events import (
    CancelRequested,
    Event,
    Recorded,
    RunCanceled,
    RunResumed,
    RunStarted,
    StopAcknowledged,
    StopRequested,
    WaitClosed,
)
from pilothouse.core.run.lifecycle import TERMINAL, TERMINAL_EVENTS, Lifecycle
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.segments import Append, Segment
from pilothouse.core.run.usage import exceeded
from pilothouse.engine.kinds import REGISTRY

if TYPE_CHECKING:
    from tests.simulation.life import Life
    from tests.simulation.world import World

KIND = PlanKind()
STOP_BOUND_S = 0.1 + 0.5


class Broken(AssertionError):
    """A promise was broken."""


@dataclass
class RunWatch:
    """One run as the log has it."""

    state: PlanState
    row: RunRow | None = None
    log: list[Recorded] = field(default_factory=list)
    keys: dict[str, bool] = field(default_factory=dict)
    """Of every effect whose intent was recorded: whether that was durable."""
    draining: frozenset[str] = frozenset()
    leg_open: bool = False
    may_work: dict[str, bool] = field(default_factory=dict)
    """By node: its work may start without asking a person."""
    came_back: set[str] = field(default_factory=set)
    """Nodes at work that have waited for an answer in between: nobody kept their place free."""
    acknowledged: int = 0
    """The last sequence number somebody was told was durable."""
    stopping: tuple[float, float, int] | None = None
    """When a stop was acknowledged, the delays handed out by then, and what had gone wrong by then."""

    @property
    def seq(self) -> int:
        return len(self.log)


class Watch:
    def __init__(self, world: World) -> None:
        self.world = world
        self.runs: dict[str, RunWatch] = {}
        self.first: str | None = None
        """The first promise that was broken."""
        self.started: dict[str, int] = {}
        """Command keys, with how often each was started."""
        self.position = 0
        self.stops: list[float] = []
        self.updates_checkout = False
        self._fenced_off = False
        self._published = 0
        self._spots: set[str] = set()
        self._git: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None
        world.repo.refs = WatchedRefs(self, world.repo.refs)

    def broken(self, what: str) -> None:
        if self.first is None:
            self.first = what
            self.world.tell(f"BROKEN: {what}")

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken(what)

    # The log.

    def appended(self, life: Life, append: Append, position: int, holder: int) -> None:
        """A batch was committed; ``holder`` is the owner epoch that held its run before."""
        self.check(append.epoch >= holder, f"{append.run_id}: owner {append.epoch} appends, {holder} holds it")
        self.check(position > self.position, f"position {position} after {self.position}")
        self.position = position
        run = self.runs.get(append.run_id)
        if run is None:
            run = self.runs[append.run_id] = RunWatch(KIND.initial(append.run_id))
        self.check(append.expected_seq == run.seq, f"{append.run_id}: batch at {append.expected_seq}, log at {run.seq}")
        events = REGISTRY.decode(append.body)
        before = run.state.common.lifecycle
        for index, event in enumerate(events):
            recorded = Recorded(append.run_id, append.expected_seq + 1 + index, append.at, event)
            stopping = run.state.common.lifecycle is Lifecycle.STOPPING
            self._judge(run, recorded, append.durable)
            self._fold(run, recorded)
            follows = events[index + 1] if index + 1 < len(events) else None
            if isinstance(event, StopRequested | CancelRequested) and not stopping:
                self.check(isinstance(follows, StopAcknowledged), "a stop was requested and not acknowledged at once")
        self._after_batch(life, append.run_id, run, before, events)

    def _fold(self, run: RunWatch, recorded: Recorded) -> None:
        try:
            run.state = KIND.evolve(run.state, recorded)
            run.row = project(run.row, recorded)
        except Exception as error:
            self.broken(f"{recorded.id} {recorded.event.type_name()} cannot be folded: {error!r}")
        run.log.append(recorded)

    def _judge(self, run: RunWatch, recorded: Recorded, durable: bool) -> None:
        """One event, before it is folded."""
        event, state = recorded.event, run.state
        lifecycle = state.common.lifecycle
        at = recorded.id
        if event.type_name() in TERMINAL_EVENTS:
            discard = isinstance(event, RunCanceled) and lifecycle in TERMINAL
            self.check(run.leg_open or discard or state.common.leg == 0, f"{at}: a second terminal event of a leg")
            run.leg_open = False
        if isinstance(event, RunStarted | RunResumed) and event.leg != state.common.leg:
            self.check(not run.leg_open, f"{at}: a leg opens before the last one was closed")
            run.leg_open = True
            run.draining = frozenset()
            run.may_work = dict.fromkeys(state.nodes, True)
        if isinstance(event, StopAcknowledged):
            run.draining = frozenset(event.draining)
        elif isinstance(event, PhaseStarted):
            self._judge_intent(run, event, durable, at)
        elif isinstance(event, AttemptStarted):
            run.came_back.discard(event.node_id)
            node = state.nodes[event.node_id].node
            parents = [state.nodes[name].status for name in node.dependencies]
            self.check(
                all(status is NodeStatus.SUCCEEDED for status in parents), f"{at}: starts before its parents ended"
            )
        elif isinstance(event, NodeMoved) and event.new is NodeStatus.SCHEDULED:
            self.check(lifecycle is Lifecycle.RUNNING, f"{at}: a node was scheduled while {lifecycle}")
        elif isinstance(event, NodeMoved) and event.new is NodeStatus.FAILED:
            self._judge_end_by_budget(run, event, at)
        elif isinstance(event, NodeRetried):
            run.may_work[event.node_id] = True
        elif isinstance(event, WaitClosed):
            run.came_back.add(event.scope)
            if event.answer == "rerun":
                run.may_work[event.scope] = True

    def _judge_intent(self, run: RunWatch, event: PhaseStarted, durable: bool, at: str) -> None:
        lifecycle = run.state.common.lifecycle
        self.check(lifecycle in (Lifecycle.RUNNING, Lifecycle.PAUSING), f"{at}: a phase started while {lifecycle}")
        self.check(event.key not in run.keys, f"{at}: the key {event.key} was used before")
        run.keys[event.key] = durable
        node = run.state.nodes[event.node_id].node
        if event.phase in COMMANDS and isinstance(phase_spec(run.state.nodes[event.node_id], event.phase), AgentSpec):
            self._judge_budget(run, event, at)
        if event.phase is Phase.WORK and node.work and node.work.on_interrupted is OnInterrupted.REVIEW:
            # An agent goes on with its conversation, in the same worktree, without being told to.
            goes_on = isinstance(node.work, AgentSpec) and run.state.nodes[event.node_id].attempt.resume_from
            allowed = goes_on is Phase.WORK or run.may_work.get(event.node_id, True)
            self.check(allowed, f"{at}: {event.key} runs again and nobody was asked")
            run.may_work[event.node_id] = False

    def _judge_budget(self, run: RunWatch, event: PhaseStarted, at: str) -> None:
        state = run.state
        node = state.nodes[event.node_id]
        for budget, used in ((node.node.budget, node.used), (state.plan.budget, state.used)):
            why = exceeded(budget, used) if budget is not None else ""
            self.check(not why, f"{at}: an agent begins, although its budget is used up: {why}")

    def _judge_end_by_budget(self, run: RunWatch, event: NodeMoved, at: str) -> None:
        """A node that failed for its budget had used it up, and nobody else's."""
        state = run.state
        node = state.nodes[event.node_id]
        if not event.reason.startswith("Budget reached: "):
            return
        budgets = ((node.node.budget, node.used), (state.plan.budget, state.used))
        spent = any(budget is not None and exceeded(budget, used) for budget, used in budgets)
        by_time = (
            node.node.budget is not None and node.node.budget.time_ms is not None and " s are used" in event.reason
        )
        self.check(spent or by_time or "maxTurns" in event.reason, f"{at}: it is not so that {event.reason}")

    def _after_batch(self, life: Life, run_id: str, run: RunWatch, before: Lifecycle, events: Iterable[Event]) -> None:
        state, now = run.state, run.state.common.lifecycle
        cap = state.plan.max_parallel
        working = sum(_works(node) for node in state.nodes.values())
        self.check(working == state.slots, f"{run_id}:{run.seq}: {working} work, {state.slots} slots are held")
        # An agent that was answered goes on at once: it never ended, and others may have taken its slot.
        too_many = cap and state.slots > cap + _came_back(run)
        self.check(not too_many, f"{run_id}:{run.seq}: {state.slots} work at once, {cap} may")
        if life.supervisor is not None and any(_takes_a_slot(state, event) for event in events):
            others = [self.runs[other] for other in life.supervisor.live if other in self.runs]
            live = [other.state.slots - _came_back(other) for other in others]
            # A run that was halted had given its slots back; once it is brought up again there may be too many at work.
            excused = self.world.faults.failed_at["store"] > 0
            within = sum(live) <= life.slots or excused
            self.check(within, f"{run_id}:{run.seq}: {sum(live)} work at once, {life.slots} may")
        if now is Lifecycle.STOPPING and before is not Lifecycle.STOPPING:
            run.stopping = self._now()
        elif now in TERMINAL and before not in TERMINAL:
            running = [key for key in sorted(self.world.warden.running()) if key.startswith(f"{run_id}/")]
            self.check(not running, f"{run_id}:{run.seq}: {now} while {running} run")
            if run.stopping is not None:
                self._judge_stop(run_id, run.stopping)
        if now is not Lifecycle.STOPPING:
            run.stopping = None

    def published(self, life: Life, run_id: str) -> None:
        """The engine shows a batch: its own state is that of the log now."""
        self._published += 1
        if self._published % 4 or not life.up or life is not self.world.life or life.supervisor is None:
            return
        actor = life.supervisor.live.get(run_id)
        if actor is not None:
            different = differences(actor._state, self.runs[run_id].state)
            self.check(not different, f"{run_id}: the engine's state is not the fold of the log: {different}")

    def _now(self) -> tuple[float, float, int]:
        world = self.world
        late = max(0.0, world.faults.delayed_until - world.loop.now)
        return (world.loop.now, world.faults.delayed - late, world.troubles)

    def _judge_stop(self, run_id: str, since: tuple[float, float, int]) -> None:
        now, _, troubles = self._now()
        if troubles == since[2]:
            took = now - since[0]
            self.stops.append(took)
            bound = STOP_BOUND_S + self.world.faults.delayed - since[1]
            self.check(took <= bound, f"{run_id}: stopped after {took:.3f} s, {bound:.3f} s were allowed")

    def acknowledged(self, append: Append) -> None:
        """Somebody was told that this batch is in the log."""
        if append.durable:
            run = self.runs[append.run_id]
            run.acknowledged = max(run.acknowledged, append.expected_seq + append.count)

    def crashed(self) -> None:
        """The tail of the log may be gone: what was acknowledged as durable may not."""
        self.position = self.world.disk.position
        for run_id, run in list(self.runs.items()):
            stored = self.world.disk.runs.get(run_id)
            seq = stored.row.seq if stored else 0
            self.check(seq >= run.acknowledged, f"{run_id}: {run.acknowledged} was acknowledged, the log ends at {seq}")
            if seq != run.seq:
                self.runs[run_id] = self._again(run_id, run, stored.segments if stored else [])
                if stored is None:
                    del self.runs[run_id]

    def _again(self, run_id: str, old: RunWatch, segments: list[Segment]) -> RunWatch:
        run = RunWatch(KIND.initial(run_id), acknowledged=old.acknowledged)
        for recorded in recorded_in(segments):
            self._judge(run, recorded, old.keys.get(getattr(recorded.event, "key", ""), True))
            self._fold(run, recorded)
        return run

    # The world.

    def command_starts(self, command: Command, key: str) -> None:
        """The warden really starts a command."""
        run_id, _, effect_key = key.partition("/")
        self.started[key] = self.started.get(key, 0) + 1
        self.check(self.started[key] == 1, f"{key} was started twice")
        run = self.runs.get(run_id)
        self.check(
            run is not None and run.keys.get(effect_key, False), f"{key} starts, but its intent is not in the log"
        )
        if run is None:
            return
        lifecycle = run.state.common.lifecycle
        allowed = lifecycle in (Lifecycle.RUNNING, Lifecycle.PAUSING) or effect_key in run.draining
        self.check(allowed, f"{key} starts while its run is {lifecycle}")
        self.check(effect_key in run.state.open, f"{key} starts, but its outcome is in the log already")
        node_id, number, _ = effect_key.split("/")
        attempt = run.state.nodes[node_id].attempts[int(number) - 1]
        tree = self.world.repo.worktrees.get(command.cwd)
        self.check(tree is not None, f"{key} starts without a worktree")
        spot = f"{run_id}/{node_id}/{number}"
        first = spot not in self._spots
        self._spots.add(spot)
        if tree is not None and first and attempt.resume_from is None:
            base = self.world.repo.commits[attempt.base_commit or ""].files
            self.check(tree.files == base, f"{key} starts in a worktree that is not clean")

    def git_begins(self, life: Life, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._git = (operation, args, kwargs)
        self._fenced_off = life in self.world.zombies
        if operation == "remove_worktree":
            tree = self.world.repo.worktrees.get(args[1])
            self.check(tree is None or self._saved(tree.files), f"{args[1]} is removed, and what is in it is lost")

    def git_ends(self) -> None:
        self._git = None

    def _saved(self, files: dict[str, str]) -> bool:
        repo = self.world.repo
        reached: set[str] = set()
        for commit in repo.refs.values():
            if commit not in reached:
                reached |= repo.ancestors(commit)
        return any(dict(repo.commits[commit].files) == files for commit in reached)

    def ref_moves(self, name: str, old: str | None, new: str | None) -> None:
        if self._git is None:
            return  # a person did it
        operation, _, kwargs = self._git
        repo = self.world.repo
        forward = old is None or (new is not None and repo.is_ancestor(old, new))
        self.check(forward, f"{operation} moves {name} from {old} to {new}, which loses commits")
        if name.startswith("refs/pilothouse/"):
            return
        branch = name.removeprefix("refs/heads/")
        self.check(operation in ("create_branch", "merge_into", "fast_forward_checkout"), f"{operation} moves {name}")
        self.check(operation != "create_branch" or old is None, f"{name} is created over {old}")
        if operation == "fast_forward_checkout":
            self.check(self.updates_checkout, f"the checkout of {branch} is moved, and nobody allowed it")
            return
        held = any(tree.branch == branch for tree in repo.worktrees.values())
        self.check(not held, f"{operation} moves {branch}, which is checked out")
        # A merge a frozen owner was in the middle of is finished when it thaws: git, unlike the log, knows no fence.
        if operation == "merge_into" and old != new and not self._fenced_off:
            self._judge_merge(kwargs["pin"], branch)

    def _judge_merge(self, pin: str, branch: str) -> None:
        run_id, node_id = pin.split("/")[3:5]
        run = self.runs[run_id]
        effect = run.state.open_effect(node_id)
        if effect is None or effect.phase is not Phase.MERGE_RI:
            self.broken(f"{branch} is moved for {run_id}/{node_id}, and the log knows of no such intent")
            return
        lifecycle = run.state.common.lifecycle
        allowed = lifecycle in (Lifecycle.RUNNING, Lifecycle.PAUSING) or effect.key in run.draining
        self.check(allowed, f"{branch} is moved for {effect.key} while its run is {lifecycle}")
        target = run.state.target
        self.check(target is not None and target.branch == branch, f"{branch} is moved, the target is {target}")


def _works(node: NodeState) -> bool:
    """Whether it occupies a place: it is under way, and does not wait for anybody."""
    under_way = node.status in (NodeStatus.SCHEDULED, NodeStatus.RUNNING)
    return under_way and not node.node.is_coordination and not node.waits


def _came_back(run: RunWatch) -> int:
    return sum(_works(run.state.nodes[node_id]) for node_id in run.came_back)


def _takes_a_slot(state: PlanState, event: Event) -> bool:
    if not isinstance(event, NodeMoved) or event.new is not NodeStatus.SCHEDULED:
        return False
    return not state.nodes[event.node_id].node.is_coordination


class WatchedRefs(dict[str, str]):
    """Refs that say when they move."""

    def __init__(self, watch: Watch, refs: dict[str, str]) -> None:
        super().__init__(refs)
        self._watch = watch

    def __setitem__(self, name: str, commit: str) -> None:
        self._watch.ref_moves(name, self.get(name), commit)
        super().__setitem__(name, commit)

    def __delitem__(self, name: str) -> None:
        self._watch.ref_moves(name, self.get(name), None)
        super().__delitem__(name)
