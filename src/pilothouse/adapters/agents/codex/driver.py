"""Codex: how it is launched, how one logs in to it, which models it offers.

What it prints is ``reader``'s. Over standard input it takes a prompt of any length; its arguments hold neither
that nor secrets. What it is told of its endpoint and its permissions goes over whatever a configuration says.
"""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.codex.reader import CodexReader
from pilothouse.adapters.agents.codex.usage import begin
from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.launching import PROXIES, host_of, prompt_of, refuse_foreign, unspoken
from pilothouse.adapters.agents.npm import native
from pilothouse.adapters.agents.reading import NOT_JSON
from pilothouse.adapters.agents.tool_servers import PATIENCE_MS, START_MS, known_as, sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions
from pilothouse.errors import BadInput

_KEY = "CODEX_API_KEY"
_PROVIDER = "pilothouse"
_SERVICE = ("api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443")
_SANDBOX = {Permissions.ALLOW: "danger-full-access", Permissions.DENY: "read-only"}
"""Its own sandbox would keep it from committing, and from the network; one of ours is the plan's to ask for."""
_ALWAYS = {
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    # It would wait for a server that refuses until somebody ends it.
    "features.unbounded_connection_retries": False,
    "approval_policy": "never",
}


class Codex:
    """Implements ``AgentDriver``."""

    facts = Facts(
        name="codex",
        title="Codex CLI",
        install="npm install -g @openai/codex",
        programs=("codex",),
        minimum=(0, 169),
        variables=(_KEY, "CODEX_HOME", *PROXIES),
        resumes=True,
        asking="codex-acp",
    )

    def native(self, found: str) -> tuple[str, ...]:
        machine = "aarch64" if platform.machine().lower() in ("aarch64", "arm64") else "x86_64"
        system = "unknown-linux-musl" if sys.platform.startswith("linux") else "apple-darwin"
        program = f"vendor/{machine}-{system}/bin/codex"
        return (native(found, "@openai/codex", program, ("linux" if system.endswith("musl") else "darwin",)),)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        if config.base_url:
            return Login(ok=True, how=f"own endpoint {config.base_url}")
        if env.get(_KEY):
            return Login(ok=True, how=_KEY)
        if how := _logged_in(_home(env) / "auth.json"):
            return Login(ok=True, how=how)
        return Login(ok=False, how=f"run `codex login`, or set {_KEY}")

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        refuse_foreign(spec, self.facts.title)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return (*program.argv, "debug", "models")

    def models_from(self, output: str) -> tuple[str, ...]:
        """Those it shows to people, in the order in which it does."""
        try:
            catalog = msgspec.json.decode(output, type=_Catalog)
        except NOT_JSON:
            return ()
        listed = sorted((model for model in catalog.models if model.visibility == "list"), key=lambda one: one.priority)
        return tuple(model.slug for model in listed)

    def launch(self, work: AgentWork) -> Launch:
        usual = str(_home(work.env))
        homes = (str(Path(work.private, "codex")), usual) if _is_own(work) else (usual,)
        begun = begin(work, homes)
        home, *_ = begun.homes
        if home != usual:
            Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)  # it does not make it itself
        return Launch(
            argv=(*(work.program.argv or self.facts.programs), *_arguments(work, begun.thread, Path(home))),
            env={"CODEX_HOME": home} if home != usual else {},
            stdin=prompt_of(work, goes_on=bool(begun.thread)),
            hosts=tuple(filter(None, (host_of(work.config.base_url),))) if work.config.base_url else _SERVICE,
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return CodexReader(work)


class _Model(msgspec.Struct, frozen=True):
    slug: str
    visibility: str = "list"
    priority: int = 0


class _Catalog(msgspec.Struct, frozen=True):
    models: tuple[_Model, ...] = ()


def _arguments(work: AgentWork, thread: str, home: Path) -> Iterator[str]:
    yield from ("exec", "--json", "-C", work.worktree, "--skip-git-repo-check")
    if model := work.model or work.config.model:
        yield from ("-m", model)
    for folder in work.allowed_folders:
        yield from ("--add-dir", folder)
    for name, value in _settings(work, home).items():
        yield from ("-c", f"{name}={_toml(value)}")
    if thread:
        yield from ("resume", thread)
    yield "-"


def _settings(work: AgentWork, home: Path) -> dict[str, object]:
    """Raises ``BadInput``."""
    if work.permissions not in _SANDBOX:
        raise BadInput(f"{Codex.facts.title} cannot ask for permission", field="permissions", fix="use codex-acp")
    found: dict[str, object] = {**_ALWAYS, "sandbox_mode": _SANDBOX[work.permissions]}
    if work.effort is not None:
        found["model_reasoning_effort"] = work.effort.value
    if _is_own(work):
        # In a directory of its own there are none but those it would fetch.
        found["features.plugins"] = False
        found["shell_environment_policy.exclude"] = [work.config.api_key_env or _KEY]
    if work.tools is not None:
        found |= _served(known_as(work.tools), sealed(work))
        if work.tools.name in _servers(home):
            # Most likely these are the same tools, but its calls would be nobody's.
            found[f"mcp_servers.{work.tools.name}.enabled"] = False
    return found | _endpoint(work)


def _served(name: str, command: tuple[str, ...]) -> dict[str, object]:
    """Settings that give it the server of its tools, beside the user's own: it mixes those of servers of one name, and
    does not start where one is at an address and the other a program."""
    program, *arguments = command
    server: dict[str, object] = {
        "command": program,
        "args": arguments,
        "default_tools_approval_mode": "approve",
        "required": True,  # it waits for any other for a second, then works without it
        "startup_timeout_sec": START_MS // 1_000,
        "tool_timeout_sec": PATIENCE_MS // 1_000,
    }
    return {f"mcp_servers.{name}.{setting}": value for setting, value in server.items()}


def _servers(home: Path) -> Collection[str]:
    """Names of the user's own servers of tools."""
    try:
        found = tomllib.loads((home / "config.toml").read_text(encoding="utf-8")).get("mcp_servers")
    except (OSError, ValueError):
        return ()
    return found if isinstance(found, dict) else ()


def _endpoint(work: AgentWork) -> dict[str, object]:
    """Settings that send it to the user's own model. Raises ``BadInput``."""
    config = work.config
    if not config.base_url:
        return {}
    if config.api not in ("", "responses"):
        raise unspoken(work, Codex.facts.title, "responses")
    if not (work.model or config.model):
        raise BadInput(
            "an endpoint of your own has no default model", field="model", fix="say model, or set agents.codex.model"
        )
    provider: dict[str, object] = {"name": _PROVIDER, "base_url": config.base_url, "wire_api": "responses"}
    if config.api_key_env:
        provider["env_key"] = config.api_key_env
    settings = {f"model_providers.{_PROVIDER}.{name}": value for name, value in provider.items()}
    return {"model_provider": _PROVIDER, **settings}


def _toml(value: object) -> str:
    """Of texts, truth values and lists of texts, TOML and JSON write the same."""
    return msgspec.json.encode(value).decode()


def _is_own(work: AgentWork) -> bool:
    """Whether it works in a directory of ours. The user's own login lies in the user's."""
    return bool(work.private) and bool(work.config.base_url or work.env.get(_KEY))


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME", ""), ".codex"))


def _logged_in(credentials: Path) -> str:
    """How, by the file of credentials; empty for not at all."""
    try:
        found = msgspec.json.decode(credentials.read_bytes())
    except (OSError, *NOT_JSON):
        return ""
    if not isinstance(found, dict):
        return ""
    if found.get("tokens"):
        return "logged in with ChatGPT"
    return "logged in with an API key" if found.get("OPENAI_API_KEY") else ""
