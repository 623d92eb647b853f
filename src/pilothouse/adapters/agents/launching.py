"""What drivers of command lines share when they launch: endpoints, keys, proxies, ids, prompts. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.errors import BadInput

PROXIES = (
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy", "https_proxy", "http_proxy", "no_proxy",
    "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""Variables without which some networks let an agent reach nothing."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_PORTS = {"http": 80, "https": 443}


def is_id(conversation: str) -> bool:
    """Whether it can be an agent's id of a conversation: it becomes an argument, and a part of paths."""
    return _ID.fullmatch(conversation) is not None


def host_of(url: str) -> str:
    """``host:port``; empty for what is no address."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{port}" if host and port else ""


def key_of(work: AgentWork) -> str:
    """The key for the user's own endpoint; empty when it needs none."""
    return work.env.get(work.config.api_key_env, "") if work.config.api_key_env else ""


def refuse_foreign(spec: AgentSpec, title: str) -> None:
    """Raises ``BadInput`` for what is said to the scripted agent alone."""
    if spec.script:
        raise BadInput(f"{title} follows no replies file", field="script", fix="remove it, or use the agent 'scripted'")


def unspoken(work: AgentWork, title: str, speaks: str) -> BadInput:
    """For an endpoint of the user's own with an API the agent does not speak."""
    return BadInput(f"{title} does not speak {work.config.api!r} to a model; it speaks {speaks}", field="agent")


def prompt_of(work: AgentWork, *, goes_on: bool) -> str:
    """What the agent is told. ``goes_on``: the conversation that is to be resumed is there; when it is gone, the prompt
    that only tells to go on with it would be none."""
    return work.prompt if goes_on or not work.session_id else work.opening
