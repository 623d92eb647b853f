"""The state of a plan's execution. Plain data with the questions one can ask it; ``evolve`` is what changes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pilothouse.core.plan.build import Node, Plan
from pilothouse.core.plan.effects import AnswerAgent, PhaseEffect
from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.groups import GroupStates
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.ready import ReadyQueue
from pilothouse.core.plan.states import ACTIVE, NodeStatus
from pilothouse.core.run.contract import Effect, Timer
from pilothouse.core.run.state import Common
from pilothouse.core.run.usage import NOTHING, Tally, Usage
from pilothouse.core.run.waits import WaitKind

_PATH_SAFE = re.compile(r"^[a-z0-9][a-z0-9-]{0,63}$")


def rescue_key(node_id: str, attempt: int) -> str:
    """The key of the effect that saves what an attempt left behind."""
    return f"{node_id}/{attempt}/rescue"


def removal_key(node_id: str, attempt: int) -> str:
    """The key of the effect that removes the worktree of a successful attempt."""
    return f"{node_id}/{attempt}/remove-worktree"


def answer_key(wait_id: str) -> str:
    """The key of the effect that hands an answer to the agent that asked."""
    return f"{wait_id}.answer"


def timer_key(wait_id: str) -> str:
    """The key of the effect that ends a wait when its time has come."""
    return f"{wait_id}.timer"


@dataclass(slots=True)
class AgentRun:
    """What the agent at work in a phase has told so far."""

    name: str
    session_id: str = ""
    """The conversation it works in: its own, or from the start the one it is to resume."""
    spoke: bool = False
    """It named the conversation itself, so that there is one."""
    model: str = ""
    read_to: int = 0
    """Bytes of its output whose news are folded in."""
    turns: int = 0
    usage: Tally = field(default_factory=Tally)
    """Of all tries of the phase."""
    denied: dict[str, None] = field(default_factory=dict)
    """The tools it was not permitted to use."""
    tools: dict[str, str] = field(default_factory=dict)
    """What is being used, by call."""
    asked: dict[str, str] = field(default_factory=dict)
    """The tools it asked for, by the waits its requests became, open and closed."""
    trouble: str = ""
    """Why the try before ended, see ``resume``."""
    time_left_ms: int = 0
    """What budgets left it when it began; 0: no limit."""
    time_budget: str = ""
    """What is to be said when that is over."""


@dataclass(slots=True)
class PhaseState:
    status: PhaseStatus
    tries: int = 0
    """How often it was performed in this attempt; more than once only for checks whose outcome was lost."""
    started_at: int | None = None
    ended_at: int | None = None
    error: str = ""
    exit_code: int | None = None
    output_to: int = 0
    note: str = ""
    agent: AgentRun | None = None


@dataclass(slots=True)
class Attempt:
    number: int
    trigger: Trigger
    worktree_path: str
    started_at: int
    resume_from: Phase | None = None
    base_commit: str | None = None
    completed_commit: str | None = None
    target_commit: str | None = None
    place: str = ""
    status: PhaseStatus = PhaseStatus.RUNNING
    error: str = ""
    failed_phase: Phase | None = None
    ended_at: int | None = None
    rescue_ref: str = ""
    worktree_exists: bool = False
    abandoned: bool = False
    """What it left was to be cleaned up for good; tried once."""
    over_budget: str = ""
    """Which budget ends its agent."""
    phases: dict[Phase, PhaseState] = field(default_factory=dict)

    @property
    def agents(self) -> Iterator[AgentRun]:
        return (phase.agent for phase in self.phases.values() if phase.agent is not None)

    @property
    def denied(self) -> tuple[str, ...]:
        """The tools its agents were not permitted to use."""
        return tuple(dict.fromkeys(tool for agent in self.agents for tool in agent.denied))


@dataclass(slots=True)
class NodeState:
    node: Node
    status: NodeStatus
    missing: int
    """Dependencies that have not succeeded yet."""
    attempts: list[Attempt] = field(default_factory=list)
    completed_commit: str | None = None
    error: str = ""
    canceling: bool = False
    resume_from: Phase | None = None
    next_trigger: Trigger = Trigger.INITIAL
    started_at: int | None = None
    ended_at: int | None = None
    waits: dict[str, WaitKind] = field(default_factory=dict)
    usage: Tally = field(default_factory=Tally)
    """Of all attempts."""
    used: Usage = NOTHING
    """The sum of that."""

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def wait_id(self) -> str | None:
        """What it waits for; the first of them where an agent asks several things at once."""
        return next(iter(self.waits), None)

    @property
    def parked(self) -> bool:
        """It waits, and nothing of it is in flight: an agent that waits for an answer lives on."""
        return bool(self.waits) and WaitKind.APPROVAL not in self.waits.values()

    @property
    def backing_off(self) -> bool:
        return WaitKind.BACKOFF in self.waits.values()

    @property
    def holds_slot(self) -> int:
        """1 for a node that works: active, not only joining its dependencies, not waiting."""
        return int(self.status in ACTIVE and not self.node.is_coordination and not self.waits)

    @property
    def attempt(self) -> Attempt:
        return self.attempts[-1]


@dataclass(slots=True)
class Target:
    branch: str
    commit: str
    note: str = ""


@dataclass(slots=True)
class PlanState:
    """``open``: the gated effects whose intent is recorded and whose outcome is not. ``housekeeping``: the ungated
    ones that are owed. ``timers``: what ends waits when nobody does; nothing is held up by them.
    ``questions``: the answers agents wait for, by wait, still without the answer itself.
    ``met`` and ``doomed``: see ``propagate``. ``over``: nodes whose agents are to be ended, and the budget that
    says so. ``budget_spent``: it was the plan's.
    ``between``: nodes whose attempt is between two phases. ``merge_queue``: nodes that wait their
    turn to merge. ``merged``: (producer id, source commit) in the order they went into the target.
    ``target_error``: why there is no target any more; what would be merged fails with it until somebody retries."""

    common: Common
    built: PlanBuilt | None = None
    nodes: dict[str, NodeState] = field(default_factory=dict)
    ready: ReadyQueue = field(default_factory=ReadyQueue)
    groups: GroupStates | None = None
    target: Target | None = None
    opening_target: bool = False
    target_lost: bool = False
    target_error: str = ""
    counts: dict[NodeStatus, int] = field(default_factory=dict)
    slots: int = 0
    open: dict[str, Effect] = field(default_factory=dict)
    housekeeping: dict[str, Effect] = field(default_factory=dict)
    timers: dict[str, Timer] = field(default_factory=dict)
    questions: dict[str, AnswerAgent] = field(default_factory=dict)
    usage: Tally = field(default_factory=Tally)
    used: Usage = NOTHING
    over: dict[str, str] = field(default_factory=dict)
    budget_spent: bool = False
    met: dict[str, None] = field(default_factory=dict)
    doomed: dict[str, str] = field(default_factory=dict)
    between: dict[str, None] = field(default_factory=dict)
    merging: bool = False
    merge_queue: list[str] = field(default_factory=list)
    merged: list[tuple[str, str]] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.facts.plan

    @property
    def facts(self) -> PlanBuilt:
        """What was built. Never None after the first batch."""
        assert self.built is not None
        return self.built

    def worktree_path(self, node: Node, attempt: int) -> str:
        """``<root>/<plan>/<node>/<attempt>``; a qualified producer id is no path, so its node's id stands there."""
        name = node.producer_id if _PATH_SAFE.match(node.producer_id) else node.id
        return f"{self.facts.worktree_root}/{self.common.run_id}/{name}/{attempt}"

    def pin(self, node: Node, attempt: int) -> str:
        return f"refs/pilothouse/plans/{self.common.run_id}/{node.id}/{attempt}"

    def merged_pin(self, node: Node, source: str) -> str:
        """Says that ``source`` is in the present target. A fresh attempt makes another commit, which is not; nor is it
        in another target, when the first was lost after a merge whose outcome never became known."""
        assert self.target is not None
        return f"refs/pilothouse/plans/{self.common.run_id}/{node.id}/merged/{source}/{self.target.branch}"

    def rescue_ref(self, node: Node, attempt: int) -> str:
        return f"refs/pilothouse/rescue/{self.common.run_id}/{node.id}/{attempt}"

    def result_of(self, attempt: Attempt) -> str:
        """What an attempt hands on: its commit, or its base when it made none: no predecessor's work is lost."""
        return attempt.completed_commit or attempt.base_commit or self.facts.base_commit

    def open_effect(self, node_id: str) -> PhaseEffect | None:
        """The phase of a node that is being performed."""
        return next(
            (e for e in self.open.values() if isinstance(e, PhaseEffect) and e.node_id == node_id),
            None,
        )

    def count(self, *statuses: NodeStatus) -> int:
        return sum(self.counts.get(status, 0) for status in statuses)

    def in_status(self, *statuses: NodeStatus) -> Iterator[NodeState]:
        return (node for node in self.nodes.values() if node.status in statuses)

    def find(self, name: str) -> NodeState | None:
        """A node by id or producer id."""
        node = self.plan.find_node(name)
        return self.nodes[node.id] if node else None
