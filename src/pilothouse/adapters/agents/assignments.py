"""From a node's work to the piece of work an agent is given: its prompt, its folders, its conversation.

Reads what the plan names in the worktree and nothing else; every path is held inside it. Which agent does the work,
with which model, has been chosen by then.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.adapters.agents.driver import AgentDriver, AgentWork, Program
from pilothouse.adapters.agents.inside import inside
from pilothouse.adapters.agents.private import PrivateFiles
from pilothouse.adapters.agents.prompt import Briefing, compose
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig
from pilothouse.errors import BadInput

EVIDENCE = ".orchestrator/evidence"
MAX_INSTRUCTIONS = 100_000
"""Characters of an instructions file: as many as a plan may hold itself."""
_CONVERSATIONS = uuid.UUID("8d2a6e1c-4f0b-5a37-9c58-3b1f6d7e2a90")


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Who does a piece of work, and with what. Kept beside the run, so that whoever takes over reads it alike."""

    agent: str
    """The driver's name: another than the plan's where that one cannot ask for permission."""
    model: str = ""
    program: Program = Program(argv=())


def assign(
    work: RunWork,
    spec: AgentSpec,
    driver: AgentDriver,
    chosen: Chosen,
    config: AgentConfig,
    *,
    env: Mapping[str, str] | None = None,
    private: PrivateFiles | None = None,
) -> AgentWork:
    """The work without its prompt; reads no files. With ``private`` its directories are made. Raises ``OSError``."""
    resumes = driver.facts.resumes and spec.resume_session
    node, run = private.prepare(work.plan_id, work.node_id, work.output) if private else ("", "")
    return AgentWork(
        task=work.task,
        instructions=spec.instructions or work.task,
        context=work.instructions,
        script=spec.script,
        worktree=str(Path(work.path).resolve()),
        repo=work.repo,
        plan_id=work.plan_id,
        node=work.producer_id,
        node_id=work.node_id,
        attempt=work.attempt,
        phase=work.phase,
        program=chosen.program,
        config=config,
        env=dict(env or {}),
        private=str(node),
        run=str(run),
        model=chosen.model,
        effort=spec.effort,
        max_turns=spec.max_turns,
        allowed_folders=spec.allowed_folders,
        allowed_urls=spec.allowed_urls,
        permissions=work.permissions,
        tools=work.tools,
        session_id=work.session_id if resumes else "",
        new_session_id=str(uuid.uuid5(_CONVERSATIONS, work.output)),
    )


def brief(given: AgentWork, work: RunWork, spec: AgentSpec) -> AgentWork:
    """The same work with all that the agent is told.

    Raises ``BadInput`` for a file or folder that is missing, too large, or outside the worktree.
    """
    root = Path(given.worktree)
    instructions = spec.instructions
    if spec.instructions_file:
        instructions = _read(root, spec.instructions_file)
    for index, name in enumerate(spec.context_files):
        if not inside(root, name, f"contextFiles[{index}]").is_file():
            raise BadInput(f"{name!r} is not a file of the worktree", field=f"contextFiles[{index}]", fix=_COMMITTED)
    for index, folder in enumerate(spec.allowed_folders):
        if not Path(folder).is_dir():
            raise BadInput(f"{folder!r} is not a folder of this machine", field=f"allowedFolders[{index}]")
    briefing = Briefing(
        task=work.task,
        instructions=instructions,
        job=work.instructions,
        context=spec.context,
        context_files=spec.context_files,
        worktree=given.worktree,
        folders=spec.allowed_folders,
        urls=spec.allowed_urls,
        evidence=f"{EVIDENCE}/{work.node_id}.json",
        node_id=work.node_id,
        phase=work.phase,
        trouble=work.trouble,
    )
    prompt, opening = compose(briefing, resumed=bool(given.session_id)), compose(briefing)
    if work.verbatim:
        opening = work.instructions or work.task
        prompt = work.task if given.session_id else opening
    changes: dict[str, Any] = {"instructions": instructions or work.task, "prompt": prompt, "opening": opening}
    return msgspec.structs.replace(given, **changes)


_COMMITTED = "is it committed, or made by a job this one depends on?"


def _read(root: Path, name: str) -> str:
    field = "instructionsFile"
    place = inside(root, name, field)
    try:
        with place.open(encoding="utf-8") as file:
            text = file.read(MAX_INSTRUCTIONS + 1)
    except OSError as error:
        raise BadInput(f"{name!r} cannot be read: {error.strerror}", field=field, fix=_COMMITTED) from None
    except UnicodeDecodeError:
        raise BadInput(f"{name!r} is not UTF-8 text", field=field) from None
    if len(text) > MAX_INSTRUCTIONS:
        raise BadInput(f"{name!r} has more than {MAX_INSTRUCTIONS:,} characters", field=field)
    if not text.strip():
        raise BadInput(f"{name!r} is empty", field=field)
    return text
