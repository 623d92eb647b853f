"""All that an agent is told, as one text. Pure; whoever calls has read the files.

A conversation that is resumed knows its task already: it is told what went wrong and where it is now. Nothing is
written into the worktree for an agent to find, so nothing can be left behind in a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pilothouse.core.plan.phases import Phase

MAX_TROUBLE = 4_000
"""Characters of an earlier failure that are told, from its end: that is where the reason stands."""


class Briefing(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say. Paths below the worktree are relative to it, folders absolute."""

    task: str
    instructions: str = ""
    job: str = ""
    """What the job tells every agent that works on it."""
    context: str = ""
    context_files: tuple[str, ...] = ()
    worktree: str
    folders: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    evidence: str = ""
    """Where to say that nothing had to be changed."""
    node_id: str = ""
    phase: Phase = Phase.WORK
    trouble: str = ""
    """Why the attempt before this one ended; empty for a first one."""


def compose(briefing: Briefing, *, resumed: bool = False) -> str:
    """The prompt, in Markdown."""
    sections = _going_on(briefing) if resumed else _from_the_start(briefing)
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in sections if text) + "\n"


def _from_the_start(briefing: Briefing) -> Iterator[tuple[str, str]]:
    yield "Task", briefing.task.strip()
    if briefing.instructions.strip() != briefing.task.strip():
        yield "Instructions", briefing.instructions.strip()
    yield "About this job", briefing.job.strip()
    yield "Context", briefing.context.strip()
    if briefing.context_files:
        yield "Read these files first", _bullets(f"`{path}`" for path in briefing.context_files)
    if briefing.trouble:
        yield (
            "An earlier attempt",
            f"Somebody has tried this before and did not succeed; what they left, if anything, is in your working "
            f"directory. It ended so:\n\n{_quoted(briefing.trouble)}",
        )
    yield "Rules", _bullets(_rules(briefing))


def _going_on(briefing: Briefing) -> Iterator[tuple[str, str]]:
    ended = f" It ended so:\n\n{_quoted(briefing.trouble)}" if briefing.trouble else ""
    yield (
        "Go on",
        "Your last attempt at the task of this conversation did not come to its end. Look at what is in your working "
        f"directory now, since edits of yours may be missing, then go on with the task until it is done.{ended}",
    )
    yield "Rules", _bullets(_rules(briefing))


def _rules(briefing: Briefing) -> Iterator[str]:
    beside = f", and in {', '.join(f'`{folder}`' for folder in briefing.folders)}" if briefing.folders else ""
    yield (
        f"Your working directory is `{briefing.worktree}`, a git worktree of your own. Change files only there{beside}."
    )
    yield (
        "Others work in worktrees of the same repository at the same time: switch no branches, move no branches, "
        "push nothing, touch no other worktree."
    )
    if briefing.urls:
        yield f"You may fetch from {', '.join(briefing.urls)}."
    if briefing.phase is Phase.WORK:
        yield "Your changes are committed for you when you are done; if you commit yourself, do it on the current HEAD."
        if briefing.evidence:
            yield (
                f"If there turns out to be nothing to change, write the JSON file `{briefing.evidence}` (make its "
                f'folder): `{{"version": 1, "nodeId": "{briefing.node_id}", "timestamp": "<now, ISO 8601>", '
                '"summary": "<what you found or did>"}`. Without a change or that file your work counts as failed.'
            )
    else:
        yield f"This is one of the job's checks ({briefing.phase}): find out, and change nothing that is not asked for."
    yield "Nobody can answer questions while you work: decide yourself, and say in the end what you have decided."
    yield "End every process that you start."


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _quoted(text: str) -> str:
    """As a quotation, so that what a tool printed does not read like a rule."""
    kept = text.strip()
    kept = f"… {kept[-MAX_TROUBLE:]}" if len(kept) > MAX_TROUBLE else kept
    return "\n".join(f"> {line}".rstrip() for line in kept.splitlines())
