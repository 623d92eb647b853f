"""What this machine lacks, if anything: every part asked by itself, before there is a server.

Starts nothing that stays, and makes nothing but the data directory.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pilothouse.adapters.agents.local import LocalAgents
from pilothouse.adapters.backends.opening import BackendConfig, open_backend
from pilothouse.adapters.git.adapter import GitAdapter
from pilothouse.adapters.vault.opening import open_vault
from pilothouse.adapters.work.doctor import capabilities
from pilothouse.assembly import backend_config
from pilothouse.core.auth.principals import LOCAL
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.engine.plans.plans import GIT_NEEDED
from pilothouse.errors import BadInput, PilothouseError, Unavailable
from pilothouse.owner import private_dir, read_owner
from pilothouse.settings import Settings, read_settings

_NO_SERVER = "correct it: no server starts before that"
_ANSWERING = {
    "": "a built-in guide answers; to connect a model see docs/models.md",
    "agent": "the agent {0.agent} answers",
    "llm": "the model {0.llm_model} answers",
    "remote": "a copilot backend answers, at {0.backend_url}",
    "script": "a script answers, {0.script}",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One line of ``doctor``. ``fix`` says what to do about it; ``needed``: without it nothing works."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True


def doctor(data_dir: Path | None = None) -> list[Check]:
    """What this machine lacks, if anything. Starts nothing."""
    checks = [
        Check("python", sys.version_info >= (3, 11), ".".join(map(str, sys.version_info[:3])), "install Python 3.11+")
    ]
    need = ".".join(map(str, GIT_NEEDED[:2]))
    try:
        have = asyncio.run(GitAdapter().version())
        checks.append(Check("git", have >= GIT_NEEDED, ".".join(map(str, have)), f"install git {need} or newer"))
    except PilothouseError as error:
        checks.append(Check("git", False, str(error), f"install git {need} or newer"))
    checks += [Check(name, ok, detail, needed=False) for name, ok, detail in capabilities()]
    try:
        given = read_settings(data_dir=data_dir)
    except PilothouseError as error:
        return [*checks, Check("settings", False, str(error), _NO_SERVER)]
    checks += [_agents_check(given), _answering_check(given)]
    try:
        where = private_dir(given.data_dir)
        checks.append(Check("data directory", os.access(where, os.W_OK), str(where), "set PILOTHOUSE_DATA_DIR"))
        checks.append(_vault_check(where, given))
        owner = read_owner(where)
        found = f"{owner.mode}, process {owner.pid}" if owner else "none; one is started when needed"
        checks.append(Check("server", True, found, needed=False))
    except (PilothouseError, OSError) as error:
        checks.append(Check("data directory", False, str(error), "set PILOTHOUSE_DATA_DIR to one of your own"))
    return checks


def _vault_check(where: Path, given: Settings) -> Check:
    try:
        there = asyncio.run(open_vault(where, given.vault_key).names(LOCAL))
    except PilothouseError as error:
        return Check("vault", False, str(error), "see docs/credentials.md", needed=False)
    found = f"it opens; {len(there)} entries of yours" if there else "nothing of yours is in it"
    return Check("vault", True, found, needed=False)


def _answering_check(given: Settings) -> Check:
    """Whether the settings say who answers in conversations; nobody is asked whether they do."""
    name, fix = "conversations", "see docs/models.md"
    config = backend_config(given)
    try:
        asyncio.run(_named(given) if config.chosen == "agent" and given.agent else _opened(config))
    except Unavailable as error:
        return Check(name, False, str(error), fix, needed=False)
    except PilothouseError as error:
        return Check(name, False, str(error), _NO_SERVER)
    if config.chosen == "llm" and not given.llm_model:
        return Check(name, False, "no model is chosen", "set PILOTHOUSE_LLM_MODEL", needed=False)
    return Check(name, True, _ANSWERING[config.chosen].format(given), needed=False)


async def _named(given: Settings) -> None:
    try:
        await _local_agents(given).check(AgentSpec(agent=given.agent))
    except BadInput as error:
        raise Unavailable(str(error)) from error  # a server starts all the same, and the first message is told


async def _opened(config: BackendConfig) -> None:
    async with open_backend(config):
        pass


def _agents_check(given: Settings) -> Check:
    try:
        _local_agents(given)
    except PilothouseError as error:
        return Check("agents", False, str(error), _NO_SERVER)
    prices = f"prices from {given.price_table}" if given.price_table else "no prices"
    return Check("agents", True, f"their settings are right, {prices}; `pilothouse agents` lists them", needed=False)


def _local_agents(given: Settings) -> LocalAgents:
    return LocalAgents(
        os.environ, private_root=given.data_dir / "agents", config=given.agent_configs, prices=given.price_table
    )
