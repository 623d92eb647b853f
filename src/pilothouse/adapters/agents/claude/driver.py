"""Claude Code: how it is launched, how one logs in to it.

What it prints is ``reader``'s. Over standard input it takes a prompt of any length; its arguments hold neither
that nor secrets. Everything its tools may do in the worktree is allowed by its accepting edits there and by naming the
other tools: to bypass its permissions altogether would open all of the disk, and is refused to root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from pilothouse.adapters.agents.claude.reader import ClaudeReader
from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.launching import (
    PROXIES,
    host_of,
    is_id,
    key_of,
    prompt_of,
    refuse_foreign,
    unspoken,
)
from pilothouse.adapters.agents.npm import native, platforms
from pilothouse.adapters.agents.reading import NOT_JSON
from pilothouse.adapters.agents.tool_servers import PATIENCE_MS, START_MS, sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_SERVICE = ("api.anthropic.com:443", "platform.claude.com:443")
"""Of models, and of logins that are renewed."""
_KEYLESS = "none"
"""Without any key it asks for a login before it asks the endpoint."""
_RETRIES = "4"
"""Its own ten take three minutes, also for a wrong key. Beyond these 8 s a retry is ours, and a stop ends it."""

_WAITS = {"MCP_CONNECT_TIMEOUT_MS": str(START_MS), "MCP_TIMEOUT": str(START_MS)}
"""By itself it waits for servers of tools for 5 s, then works without them."""

_ALLOWED = ("Bash", "Skill", "WebSearch")
"""Tools it would ask for, beside edits: those it accepts in its folders and nowhere else."""
_LEAVES = ("CronCreate", "EnterWorktree", "ScheduleWakeup")
"""Tools that take work elsewhere, or to a time when the process is gone."""
_SETTINGS = '{"skipWebFetchPreflight":true}'
"""An address that the plan allows is not told to anybody first."""


class Claude:
    """Implements ``AgentDriver``."""

    facts = Facts(
        name="claude",
        title="Claude Code",
        install="npm install -g @anthropic-ai/claude-code",
        programs=("claude",),
        minimum=(2, 1, 0),
        variables=(*_KEYS, "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CONFIG_DIR", *PROXIES),
        quiet={
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        },
        resumes=True,
        asking="claude-acp",
    )

    def native(self, found: str) -> tuple[str, ...]:
        return (native(found, "@anthropic-ai/claude-code", "claude", platforms()),)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        if config.base_url:
            return Login(ok=True, how=f"own endpoint {config.base_url}")
        for name in _KEYS:
            if env.get(name):
                return Login(ok=True, how=name)
        if (_home(env) / ".credentials.json").is_file():
            return Login(ok=True, how="logged in")
        if user := _logged_in(env):
            return Login(ok=True, how=f"logged in as {user}")
        return Login(ok=False, how=f"run `claude` and log in, or set {_KEYS[0]}")

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        refuse_foreign(spec, self.facts.title)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return ()

    def models_from(self, output: str) -> tuple[str, ...]:
        return ()

    def launch(self, work: AgentWork) -> Launch:
        own = bool(work.private) and (bool(work.config.base_url) or any(work.env.get(name) for name in _KEYS))
        home = Path(work.private, "claude") if own else _home(work.env)
        transcript = _transcript(work.session_id, dict.fromkeys((home, _home(work.env))))
        return Launch(
            argv=(*(work.program.argv or self.facts.programs), *_arguments(work, transcript)),
            env={
                "CLAUDE_CODE_EAGER_FLUSH": "1",
                "CLAUDE_CODE_MAX_RETRIES": _RETRIES,
                **({"CLAUDE_CONFIG_DIR": str(home)} if own else {}),
                **(_WAITS if work.tools is not None else {}),
                **_endpoint(work),
            },
            stdin=prompt_of(work, goes_on=bool(transcript)),
            hosts=_hosts(work),
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return ClaudeReader(work)


def _arguments(work: AgentWork, transcript: str) -> Iterator[str]:
    yield from ("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
    yield from ("--settings", _SETTINGS, "--disallowedTools", ",".join(_LEAVES))
    served = (f"mcp__{work.tools.name}",) if work.tools is not None else ()
    if work.permissions is Permissions.ALLOW:
        fetches = (f"WebFetch(domain:{_domain(url)})" for url in work.allowed_urls)
        yield from ("--permission-mode", "acceptEdits", "--allowedTools", ",".join((*_ALLOWED, *fetches, *served)))
    else:
        # Not by the repository's settings either: their hooks are commands that nobody was asked for.
        yield from ("--permission-mode", "default", "--setting-sources", "user")
        if served:
            yield from ("--allowedTools", *served)
    if work.tools is not None:
        yield from ("--mcp-config", _servers(work.tools.name, sealed(work)))
    if work.allowed_folders:
        yield from ("--add-dir", *work.allowed_folders)
    if model := work.model or work.config.model:
        yield from ("--model", model)
    if work.effort is not None:
        yield from ("--effort", work.effort.value)
    if work.max_turns is not None:
        yield from ("--max-turns", str(work.max_turns))
    if transcript:
        yield from ("--resume", transcript)
    elif is_id(work.new_session_id):
        yield from ("--session-id", work.new_session_id)


def _servers(name: str, command: tuple[str, ...]) -> str:
    """The server of its tools, beside the user's own. Its tools are in every request: they are not to be searched."""
    program, *arguments = command
    server = {"type": "stdio", "command": program, "args": arguments, "timeout": PATIENCE_MS, "alwaysLoad": True}
    return msgspec.json.encode({"mcpServers": {name: server}}).decode()


def _transcript(conversation: str, homes: Iterator[Path] | dict[Path, None]) -> str:
    """The file of a conversation: it is found by its id only from the directory it began in, and every attempt has one
    of its own. Empty when it is gone."""
    if not is_id(conversation):
        return ""
    found = (file for home in homes for file in sorted(home.glob(f"projects/*/{conversation}.jsonl")))
    return str(next(found, ""))


def _endpoint(work: AgentWork) -> dict[str, str]:
    """Variables that send it to the user's own model. Raises ``BadInput``."""
    config = work.config
    if not config.base_url:
        return {}
    if config.api not in ("", "anthropic"):
        raise unspoken(work, Claude.facts.title, "anthropic")
    model = work.model or config.model
    # Its small errands go to models of its own, which such an endpoint need not have.
    errands = {f"ANTHROPIC_DEFAULT_{kind}_MODEL": model for kind in ("HAIKU", "OPUS", "SONNET") if model}
    return {
        "ANTHROPIC_BASE_URL": config.base_url.rstrip("/").removesuffix("/v1"),
        "ANTHROPIC_API_KEY": key_of(work) or _KEYLESS,
        **errands,
    }


def _domain(url: str) -> str:
    return (urlsplit(url).hostname if "://" in url else url.split("/")[0]) or url


def _hosts(work: AgentWork) -> tuple[str, ...]:
    base = work.config.base_url or work.env.get("ANTHROPIC_BASE_URL", "")
    return tuple(filter(None, (host_of(base),))) if base else _SERVICE


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", ""), ".claude"))


def _logged_in(env: Mapping[str, str]) -> str:
    """Who is logged in where credentials are in a keychain; empty for nobody."""
    place = _home(env) if env.get("CLAUDE_CONFIG_DIR") else Path(env.get("HOME", ""))
    try:
        found = msgspec.json.decode((place / ".claude.json").read_bytes())
    except (OSError, *NOT_JSON):
        return ""
    account = found.get("oauthAccount") if isinstance(found, dict) else None
    return str(account.get("emailAddress", "somebody")) if isinstance(account, dict) else ""
