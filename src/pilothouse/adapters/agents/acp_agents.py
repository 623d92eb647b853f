"""The agents we know that speak the Agent Client Protocol: one function for each, that says how it is brought to work.

Their homes, endpoints and keys are those that the drivers of their command lines choose: ``base.launch`` says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import replace

from pilothouse.adapters.agents.acp import AcpAgent, Speech, wishes
from pilothouse.adapters.agents.claude import Claude
from pilothouse.adapters.agents.copilot import Copilot
from pilothouse.adapters.agents.driver import AgentWork, Facts
from pilothouse.core.run.agents import Permissions

_COPILOT = Copilot()
_CLAUDE = Claude()


def _over_acp(facts: Facts) -> Facts:
    """What holds for the same program when it is spoken with over the protocol."""
    return replace(
        facts, name=f"{facts.name}-acp", title=f"{facts.title} over ACP", resumes=True, asks=True, acp=True, asking=""
    )


def _copilot(work: AgentWork) -> Speech:
    launch = _COPILOT.launch(work)
    return Speech(
        argv=(*(work.program.argv or _COPILOT.facts.programs), "--acp", *_copilot_arguments(work)),
        env=launch.env,
        model=work.model or work.config.model,
        login="run `copilot login`, or set COPILOT_GITHUB_TOKEN",
        says_errors=True,
        hosts=launch.hosts,
    )


def _copilot_arguments(work: AgentWork) -> Iterator[str]:
    yield from ("--no-auto-update", "--disable-client-telemetry", "--no-remote-export")
    if work.permissions is Permissions.ALLOW:
        yield "--allow-all-tools"
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
    # A model that its list does not have is taken from here; one of the list is chosen in the session.
    chosen = {"ANTHROPIC_MODEL": model} if model else {}
    # To root it gives no conversation, unless root says that this is a sandbox.
    sandboxed = {"IS_SANDBOX": "1"} if os.getuid() == 0 else {}
    return Speech(
        argv=work.program.argv or ("claude-agent-acp",),
        env={**launch.env, **chosen, **sandboxed, "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"},
        options=wishes("", work.effort),
        model=model,
        login="run `claude` and log in, or set ANTHROPIC_API_KEY",
        hosts=launch.hosts,
    )


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
ACP_AGENTS = (COPILOT, CLAUDE)
