"""The agents we know that speak the Agent Client Protocol: one function for each, that says how it is brought to work.

Their homes, endpoints and keys are those that the drivers of their command lines choose: ``base.launch`` says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from pilothouse.adapters.agents.acp.driver import AcpAgent, Speech, wishes
from pilothouse.adapters.agents.claude.driver import Claude
from pilothouse.adapters.agents.codex.driver import Codex
from pilothouse.adapters.agents.copilot.driver import Copilot
from pilothouse.adapters.agents.driver import AgentWork, Facts
from pilothouse.adapters.agents.gemini.driver import Gemini
from pilothouse.adapters.agents.npm import native
from pilothouse.adapters.agents.opencode import store as opencode_store
from pilothouse.adapters.agents.opencode.driver import OpenCode, model_name, moving
from pilothouse.adapters.agents.tool_servers import known_as
from pilothouse.core.run.agents import Permissions

_COPILOT = Copilot()
_CLAUDE = Claude()
_CODEX = Codex()
_GEMINI = Gemini()
_OPENCODE = OpenCode()


def _over_acp(facts: Facts) -> Facts:
    """What holds for the same program when it is spoken with over the protocol."""
    return replace(
        facts, name=f"{facts.name}-acp", title=f"{facts.title} over ACP", resumes=True, asks=True, acp=True, asking=""
    )


def _copilot(work: AgentWork) -> Speech:
    launch = _COPILOT.launch(work)
    return Speech(
        argv=(*(work.program.argv or _COPILOT.facts.programs), "--acp", *_copilot_arguments(work, launch.argv)),
        env=launch.env,
        model=work.model or work.config.model,
        login="run `copilot login`, or set COPILOT_GITHUB_TOKEN",
        says_errors=True,
        tools=work.tools.name if work.tools else "",
        titles="copilot",
        hosts=launch.hosts,
    )


def _copilot_arguments(work: AgentWork, usual: tuple[str, ...]) -> Iterator[str]:
    """``usual``: those of its command line. Servers that a session is begun with it does not start."""
    yield from ("--no-auto-update", "--disable-client-telemetry", "--no-remote-export")
    if work.permissions is Permissions.ALLOW:
        yield "--allow-all-tools"
    if work.tools is not None:
        yield from (word for pair in pairwise(usual) if pair[0] == "--additional-mcp-config" for word in pair)
        yield f"--allow-tool={work.tools.name}"
    for folder in work.allowed_folders:
        yield from ("--add-dir", folder)
    for url in work.allowed_urls:
        yield f"--allow-url={url}"
    if model := work.model or work.config.model:
        yield from ("--model", model)
    if work.effort is not None:
        yield from ("--reasoning-effort", work.effort.value)


def _claude(work: AgentWork) -> Speech:
    launch = _CLAUDE.launch(work)
    model = work.model or work.config.model
    # By name or alias, and whether or not its list has it.
    chosen = {"ANTHROPIC_MODEL": model} if model else {}
    # To root it gives no conversation, unless root says that this is a sandbox.
    sandboxed = {"IS_SANDBOX": "1"} if os.getuid() == 0 else {}
    servers = next((value for flag, value in pairwise(launch.argv) if flag == "--mcp-config"), "")
    return Speech(
        argv=work.program.argv or ("claude-agent-acp",),
        env={**launch.env, **chosen, **sandboxed, "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"},
        options=wishes("", work.effort),
        model=model,
        login="run `claude` and log in, or set ANTHROPIC_API_KEY",
        tools=work.tools.name if work.tools else "",
        meta=_for_claude(servers, work.tools.name) if work.tools else {},
        hosts=launch.hosts,
    )


def _for_claude(servers: str, server: str) -> dict[str, Any]:
    """The settings of servers that its command line has, and that one is used unasked."""
    return {"claudeCode": {"options": {**msgspec.json.decode(servers), "allowedTools": [f"mcp__{server}"]}}}


def _codex(work: AgentWork) -> Speech:
    asks = work.permissions is Permissions.ASK
    launch = _CODEX.launch(replace(work, permissions=Permissions.ALLOW) if asks else work)
    settings = [value for flag, value in pairwise(launch.argv) if flag == "-c"]
    if model := work.model or work.config.model:
        settings.append(f'model="{model}"')
    if asks:
        settings.append('approval_policy="untrusted"')  # the last one counts
    return Speech(
        argv=(*(work.program.argv or ("codex-acp",)), *(word for value in settings for word in ("-c", value))),
        env=launch.env,
        model=model,
        login="run `codex login`, or set CODEX_API_KEY",
        meter="codex",
        tools=known_as(work.tools) if work.tools else "",
        hosts=launch.hosts,
    )


def _opencode(work: AgentWork) -> Speech:
    asks = work.permissions is Permissions.ASK
    # What it is denied when nobody may allow it is what it asks for when somebody may.
    launch = _OPENCODE.launch(replace(work, permissions=Permissions.DENY) if asks else work)
    env = {**launch.env, _SETTINGS: _asking(launch.env[_SETTINGS])} if asks else launch.env
    run = (*(work.program.argv or _OPENCODE.facts.programs), "acp")
    return Speech(
        argv=moving(work, opencode_store.begun(work.run) or opencode_store.Begun(), run),
        env=env,
        options=wishes(model_name(work), None),
        model=(work.model or work.config.model).rpartition("/")[2],
        login="run `opencode auth login`",
        meter="opencode",
        tools=known_as(work.tools) if work.tools else "",
        hosts=launch.hosts,
    )


_SETTINGS = "OPENCODE_CONFIG_CONTENT"


def _asking(settings: str) -> str:
    """The same settings, but that it asks for what they deny."""
    found = msgspec.json.decode(settings)
    permission = found["permission"]
    permission["*"] = permission["external_directory"]["*"] = "ask"
    return msgspec.json.encode(found).decode()


def _gemini(work: AgentWork) -> Speech:
    asks = work.permissions is Permissions.ASK
    launch = _GEMINI.launch(replace(work, permissions=Permissions.DENY) if asks else work)
    model = work.model or work.config.model
    folders = (f"--include-directories={folder}" for folder in work.allowed_folders)
    return Speech(
        argv=(
            *(work.program.argv or _GEMINI.facts.programs),
            *("--acp", "--skip-trust", *folders),
            *(("--model", model) if model else ()),
        ),
        env=launch.env,
        model=model,
        auth="gemini-api-key",
        login="run `gemini` and log in, or set GEMINI_API_KEY",
        meter="gemini",
        titles="gemini",
        tools=known_as(work.tools) if work.tools else "",
        hosts=launch.hosts,
    )


def _codex_program(found: str) -> tuple[str, ...]:
    return (native(found, "@zed-industries/codex-acp", "bin/codex-acp", (sys.platform,)),)


COPILOT = AcpAgent(_over_acp(_COPILOT.facts), _copilot, _COPILOT)
CLAUDE = AcpAgent(
    replace(
        _over_acp(_CLAUDE.facts),
        programs=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        minimum=(0, 49),
    ),
    _claude,
    _CLAUDE,
)
CODEX = AcpAgent(
    replace(
        _over_acp(_CODEX.facts),
        programs=("codex-acp",),
        install="npm install -g @zed-industries/codex-acp",
        minimum=(),
        tells_version=False,
    ),
    _codex,
    _CODEX,
    _codex_program,
)
OPENCODE = AcpAgent(_over_acp(_OPENCODE.facts), _opencode, _OPENCODE)
# It finds a conversation only where that began, and hands on answers of tools twice, which its service refuses.
GEMINI = AcpAgent(replace(_over_acp(_GEMINI.facts), resumes=False), _gemini, _GEMINI)
ACP_AGENTS = (CLAUDE, CODEX, COPILOT, GEMINI, OPENCODE)
