"""The seams of the engine: what it needs from the world, said in its own words.

Each Protocol has a real implementation in ``adapters/`` and an in-memory twin beside it, and both pass the
same suite in ``tests/contract/``. Nothing here knows how any of it is done; ``app.py`` hands the
implementations in. The values that cross these seams live in ``core/``, so that adapters never import the
engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.integration import (
    CheckedOut,
    Committed,
    Conflict,
    Merged,
    NoEvidence,
    Repository,
    Rescued,
    Strategy,
    WorkSummary,
)
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentInfo, AgentReader, ModelInfo, Permissions
from pilothouse.core.run.commands import Command, Exit, Grew, Inventory
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document, Segment
from pilothouse.core.run.usage import Usage


class Clock(Protocol):
    """Time. The simulation owns another one."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch. May go backwards; order is by ``seq``, never by this."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Identifiers."""

    def new(self) -> str:
        """A fresh UUIDv7 in its canonical text form."""
        ...


class Executor(Protocol):
    """Places attempts and runs their commands, and ends whole process trees for certain.

    The unit of *placement* is the attempt, the unit of *execution and adoption* is one command, named by a
    ``key`` that is unique in the life of the data directory. What it runs outlives the process that asked.
    """

    async def open(self, attempt: str, fence: int) -> str:
        """Place an attempt; answers the instance that will run its commands (see ``Inventory.instance``).

        ``fence`` only grows; a message with an older one is refused with ``ExecutorFailed``. Idempotent.
        """
        ...

    async def start(self, command: Command, key: str) -> None:
        """Start ``command`` under ``key``. A key that is known already is *not* started again.

        A command that cannot be started at all (no such file …) is not an error here: it ends with
        ``ExitReason.NOT_STARTED``. Raises ``ExecutorFailed`` when the executor cannot be reached.
        """
        ...

    def attach(self, key: str, from_offset: int = 0) -> AsyncIterator[Grew | Exit]:
        """Follow a command: ``Grew`` whenever output went beyond ``from_offset`` (bursts are merged), then
        exactly one ``Exit``, last. May be called again, also by another process after a crash, also when
        the command has ended. An unknown key yields ``Exit(reason=LOST)``."""
        ...

    async def cancel(self, key: str, grace_ms: int | None = None) -> None:
        """Ask for the end of the whole tree; returns once the request has been taken. Its end arrives at
        ``attach``, and only when no process of the tree is left. Idempotent; an unknown key is no error."""
        ...

    async def inventory(self) -> Inventory:
        """Everything it runs or remembers."""
        ...

    async def forget(self, key: str) -> None:
        """Drop what it remembers of an ended command. Idempotent."""
        ...


class Agents(Protocol):
    """The agents of this machine: whether they can do a piece of work, how they are started, what they tell."""

    async def check(self, spec: AgentSpec, permissions: Permissions = Permissions.ALLOW) -> None:
        """Whether an agent can be given this work here and now; asked before a plan is accepted.

        Raises ``BadInput`` naming the field of the spec, ``Unavailable`` with the command that installs what is
        missing or too old."""
        ...

    async def command(self, work: RunWork) -> Command:
        """What to run for a phase: any kind of spec, agents among them, whose private files it prepares.

        Raises ``BadInput`` for what cannot be; nothing was started then."""
        ...

    def reader(self, work: RunWork) -> AgentReader:
        """A fresh reader for what the agent of ``work`` prints."""
        ...

    def priced(self, model: str, usage: Usage) -> Usage:
        """``usage`` with its cost by the price table, or with its tokens marked as unpriced."""
        ...

    async def answer(self, answer: AnswerAgent) -> None:
        """Hand an answer to an agent that asked. Idempotent; durable: an agent that is not looking yet finds it. Raises
        ``OSError`` when that cannot be done now."""
        ...

    async def forget(self, plan_id: str) -> None:
        """Remove the private files of a deleted plan's agents. Idempotent."""
        ...

    async def agents(self, *, fresh: bool = False) -> list[AgentInfo]:
        """Every agent there is a driver for, installed or not, by name. ``fresh``: not from the cache."""
        ...

    async def models(self, agent: str | None = None, *, fresh: bool = False) -> list[ModelInfo]:
        """The models each installed agent says it can use. Raises ``NotFound`` for an unknown agent."""
        ...


class LogStore(Protocol):
    """Attempt output: what commands print. Append-only; a head and a tail are kept beyond a cap."""

    async def append(self, output: str, data: bytes) -> tuple[int, int]:
        """Append the engine's own lines; answers the range [from, to) they took."""
        ...

    async def read(self, output: str, start: int = 0, limit: int = 1 << 20) -> tuple[int, bytes]:
        """At most ``limit`` bytes from offset ``start``, or from the next kept offset when that part was
        dropped: answers (the offset they begin at, the bytes). Unknown output reads as empty."""
        ...

    async def tail(self, output: str, lines: int) -> str:
        """The last lines, decoded with replacement characters."""
        ...

    async def size(self, output: str) -> int:
        """Bytes written in all."""
        ...

    async def delete(self, prefix: str) -> None:
        """Remove every output below a prefix. Idempotent."""
        ...


class Git(Protocol):
    """Repositories. The user's checkout is never touched but by ``fast_forward_checkout``; refs move by
    compare-and-swap only. Every method raises ``GitFailed`` for the unplanned."""

    async def version(self) -> tuple[int, int, int]: ...

    async def inspect(self, path: str) -> Repository:
        """Raises ``BadInput`` when ``path`` is missing or not a repository."""
        ...

    async def resolve(self, repo: str, revision: str) -> str:
        """The commit a branch, tag or commit name means. Raises ``BadInput`` when there is none."""
        ...

    async def check_branch_name(self, name: str, repo: str | None = None) -> None:
        """Raises ``BadInput`` when git would not accept ``name`` as a branch, in ``repo`` beside those it has."""
        ...

    async def create_branch(self, repo: str, branch: str, commit: str) -> bool:
        """Create it unless it exists, atomically. False when it did."""
        ...

    async def branch_head(self, repo: str, branch: str) -> str | None: ...

    async def merge_forward(self, repo: str, commits: Sequence[str], message: str) -> Merged | Conflict:
        """Merge ``commits[1:]`` into ``commits[0]`` in this order on objects alone, fast-forwarding where
        possible; one merge commit per step that needs one. No ref, no worktree."""
        ...

    async def add_worktree(self, repo: str, path: str, commit: str) -> None:
        """A detached worktree at ``path``. Idempotent when ``path`` already is one of this repository with
        HEAD at ``commit`` or a descendant; a half-made leftover is replaced."""
        ...

    async def worktree_head(self, path: str) -> str: ...

    async def commit_all(
        self, path: str, *, baseline: str, message: str, expects_no_changes: bool, evidence_id: str
    ) -> Committed | NoEvidence:
        """Stage and commit everything in a worktree, judged against ``baseline`` (HEAD before the work).

        Dirty: commit. Clean and HEAD moved: that commit. Clean with a valid evidence file
        ``.orchestrator/evidence/<evidence_id>.json``, or ``expects_no_changes``: success without change.
        Else ``NoEvidence``. Safe to repeat after a crash in the middle."""
        ...

    async def pin(self, repo: str, ref: str, commit: str) -> None:
        """Keep ``commit`` alive under ``refs/pilothouse/…``. Idempotent."""
        ...

    async def merge_into(
        self,
        repo: str,
        branch: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str] = (),
        pin: str,
    ) -> Merged | Conflict | CheckedOut:
        """Merge ``source`` into ``branch`` without a checkout, by compare-and-swap, recomputed when the
        branch has moved meanwhile.

        ``already_merged`` are commits whose content an earlier squash brought in: they count as ancestors,
        so that leaves with a common ancestor do not conflict with themselves. ``pin`` is a ref that is set to
        the resulting commit in the same transaction: when it exists already, the merge has happened and is
        not repeated. A branch that is checked out anywhere is not moved."""
        ...

    async def fast_forward_checkout(self, path: str, branch: str, commit: str) -> bool:
        """Move ``branch`` and its clean checkout at ``path`` to ``commit``, a descendant. False when the
        checkout is dirty or the move is not a fast-forward, with nothing touched."""
        ...

    async def merge_commits(
        self,
        repo: str,
        target: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str] = (),
    ) -> Merged | Conflict:
        """The merge alone, on objects: what ``merge_into`` would commit. No ref moves."""
        ...

    async def rescue(self, repo: str, path: str, ref: str, message: str, *, kept: str = "") -> Rescued | None:
        """Save everything in a worktree, committed or not, under ``ref``. None when it is clean and its HEAD
        is reachable from another pin or branch, so that ``ref`` would add nothing; ``kept`` is a commit the caller
        knows to be pinned. The worktree's own HEAD, index and files stay as they are."""
        ...

    async def remove_worktree(self, repo: str, path: str) -> None:
        """Remove a worktree and its registration. The caller has saved what is in it. Idempotent."""
        ...

    async def sweep(self, repo: str, root: str, tracked: frozenset[str]) -> Mapping[str, str]:
        """Remove directories below ``root`` that are neither registered with git nor in ``tracked``; answers
        {path: "removed" | why not}. Goes on after a failure."""
        ...

    async def summary(self, repo: str, base: str, commit: str) -> WorkSummary: ...

    async def diff(self, repo: str, base: str, commit: str, limit: int = 1 << 20) -> str: ...

    async def delete_refs(self, repo: str, prefix: str) -> None:
        """Remove every ref below ``refs/pilothouse/<prefix>``. Idempotent."""
        ...


class EventStore(Protocol):
    """The log, its read models, and versioned documents. One owner epoch writes at a time."""

    async def take_ownership(self) -> int:
        """A new owner epoch, greater than every earlier one. Durable."""
        ...

    async def claim(self, run_id: str, epoch: int) -> RunRow:
        """Give a run to ``epoch``; appends of older epochs to it are refused from then on. Answers its row.

        Raises ``NotFound``, ``Gone``, or ``StaleOwner`` when a newer epoch holds it."""
        ...

    async def append(self, append: Append) -> int:
        """Append one batch and its read model in one transaction; answers its position.

        All or nothing. Concurrent appends of different runs are committed in groups. Raises ``WrongSequence`` when
        ``expected_seq`` is not the run's last one, ``StaleOwner`` when a newer epoch holds the run,
        ``Gone`` when it was deleted, ``StoreFailed`` when the disk refuses."""
        ...

    async def row(self, run_id: str) -> RunRow:
        """Raises ``NotFound``, or ``Gone`` for a deleted run."""
        ...

    async def rows(
        self,
        *,
        kind: str | None = None,
        lifecycles: frozenset[Lifecycle] | None = None,
        owner: str | None = None,
        session_id: str | None = None,
        parent_run_id: str | None = None,
        waiting: bool | None = None,
        owing: bool = False,
        limit: int = 1000,
        before: tuple[int, str] | None = None,
    ) -> list[RunRow]:
        """Newest first by (created_at, id); ``before`` is the key of the last one of the page before. ``owing``: only
        those whose row says that housekeeping is ``owed``."""
        ...

    async def newest(self, kind: str, session_ids: frozenset[str]) -> list[RunRow]:
        """Of each of these sessions its newest run of a kind, where it has one; newest first."""
        ...

    async def read(self, run_id: str, after_seq: int = 0, limit: int = 1000) -> list[Segment]:
        """Segments of one run in order that hold events after ``after_seq`` (the first may begin earlier); none of a
        run that never was. Raises ``Gone`` for a deleted run."""
        ...

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> list[Segment]:
        """Segments of all runs in commit order, tombstones included."""
        ...

    async def last_position(self) -> int: ...

    async def delete(self, run_id: str, epoch: int, at: int) -> int:
        """Delete a whole run: its row, its segments; a tombstone takes a position. Idempotent: a deleted run
        answers its tombstone's position. Raises ``NotFound``, ``StaleOwner``."""
        ...

    async def document(self, kind: str, id: str, version: int | None = None) -> Document:
        """As it stands, or as an earlier version had it. Raises ``NotFound``."""
        ...

    async def document_versions(
        self, kind: str, id: str, *, before: int | None = None, limit: int = 100
    ) -> list[Document]:
        """Newest first, the one that stands included; with ``before`` only versions below it. None of a document that
        is not there."""
        ...

    async def documents(self, kind: str) -> list[Document]:
        """By id."""
        ...

    async def put_document(self, document: Document) -> Document:
        """Compare-and-set: ``document.version`` is the version it replaces (0: there is none yet); answers it with its
        new version. Raises ``WrongSequence`` when another version stands. Earlier versions are kept."""
        ...

    async def delete_document(self, kind: str, id: str) -> None:
        """Idempotent."""
        ...

    async def close(self) -> None: ...
