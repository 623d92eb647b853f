"""The GitHub Copilot CLI: how it is launched, how one logs in to it, which models it offers.

What it prints is ``reader``'s. Over standard input it takes a prompt of any length; its arguments hold neither
that nor secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.copilot.reader import CopilotReader
from pilothouse.adapters.agents.copilot.usage import REPORT, begin
from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.launching import (
    PROXIES,
    host_of,
    key_of,
    prompt_of,
    refuse_foreign,
    unspoken,
)
from pilothouse.adapters.agents.npm import native, platforms
from pilothouse.adapters.agents.reading import NOT_JSON
from pilothouse.adapters.agents.tool_servers import PATIENCE_MS, sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions
from pilothouse.errors import BadInput

_TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")
"""In the order in which it looks for them."""
_HOSTS = ("COPILOT_GH_HOST", "GH_HOST")
_SERVICE = (
    "api.github.com:443",
    "api.githubcopilot.com:443",
    "api.individual.githubcopilot.com:443",
    "api.business.githubcopilot.com:443",
    "api.enterprise.githubcopilot.com:443",
)
_OWN_ENDPOINT = {
    "": {"COPILOT_PROVIDER_TYPE": "openai"},
    "completions": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions"},
    "responses": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"},
    "anthropic": {"COPILOT_PROVIDER_TYPE": "anthropic"},
}
_CHOICES = re.compile(r"--model\s+<[^>]*>.*?\(choices:\s*(.*?)\)", re.DOTALL)
_SECTION = re.compile(r"^[ \t]*`model`:.*?$(.*?)(?:^[ \t]*`|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r'"([^"\s]+)"')


class Copilot:
    """Implements ``AgentDriver``."""

    facts = Facts(
        name="copilot",
        title="GitHub Copilot CLI",
        install="npm install -g @github/copilot",
        programs=("copilot",),
        minimum=(1, 0, 102),
        variables=(*_TOKENS, *_HOSTS, *PROXIES, "COPILOT_HOME", "XDG_CACHE_HOME"),
        quiet={"COPILOT_AUTO_UPDATE": "false"},
        resumes=True,
        asking="copilot-acp",
    )

    def native(self, found: str) -> tuple[str, ...]:
        return (native(found, "@github/copilot", "copilot", platforms()),)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        if config.base_url:
            return Login(ok=True, how=f"own endpoint {config.base_url}")
        for name in _TOKENS:
            if env.get(name):
                return Login(ok=True, how=name)
        if user := _logged_in(_home(env) / "config.json"):
            return Login(ok=True, how=f"logged in as {user}")
        if (Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "")) / ".config") / "gh" / "hosts.yml").is_file():
            return Login(ok=None, how="maybe with the login of gh")
        return Login(ok=False, how=f"run `copilot login`, or set {_TOKENS[0]}")

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        refuse_foreign(spec, self.facts.title)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return (*program.argv, "help", "config")

    def models_from(self, output: str) -> tuple[str, ...]:
        """From the list of ``help config``, or the choices that older versions show in ``--help``."""
        found = _CHOICES.search(output) or _SECTION.search(output)
        return tuple(dict.fromkeys(_QUOTED.findall(found[1]))) if found else ()

    def launch(self, work: AgentWork) -> Launch:
        own = bool(work.private) and (bool(work.config.base_url) or any(work.env.get(name) for name in _TOKENS))
        home = Path(work.private, "copilot") if own else _home(work.env)
        begun = begin(work, dict.fromkeys((home, _home(work.env))))
        goes_on = begun.conversation == work.session_id
        return Launch(
            argv=(*(work.program.argv or self.facts.programs), *_arguments(work, begun.conversation)),
            env={**({"COPILOT_HOME": str(home)} if own else {}), **_endpoint(work)},
            stdin=prompt_of(work, goes_on=goes_on),
            hosts=_hosts(work),
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return CopilotReader(work)


def _arguments(work: AgentWork, conversation: str) -> Iterator[str]:
    yield from ("-C", work.worktree, "--output-format", "json", "--stream", "on", "--no-color", "--no-ask-user")
    yield from ("--no-auto-update", "--disable-client-telemetry", "--no-remote-export")
    if work.run:
        yield from ("--usage-output-file", str(Path(work.run, REPORT)))
    if work.permissions is Permissions.ALLOW:
        yield "--allow-all-tools"  # not all paths, and not all addresses
    if work.tools is not None:
        yield from ("--additional-mcp-config", _servers(work.tools.name, sealed(work)))
        yield f"--allow-tool={work.tools.name}"
    for folder in work.allowed_folders:
        yield from ("--add-dir", folder)
    for url in work.allowed_urls:
        yield f"--allow-url={url}"
    if model := work.model or work.config.model:
        yield from ("--model", model)
    if work.effort is not None:
        yield from ("--reasoning-effort", work.effort.value)
    if conversation:
        yield from ("--session-id", conversation)  # resumes one that is there, and begins one that is not


def _servers(name: str, command: tuple[str, ...]) -> str:
    """The server of its tools, beside the user's own."""
    program, *arguments = command
    server = {"type": "local", "command": program, "args": arguments, "tools": ["*"], "timeout": PATIENCE_MS}
    return msgspec.json.encode({"mcpServers": {name: server}}).decode()


def _endpoint(work: AgentWork) -> dict[str, str]:
    """Variables that send it to the user's own model. Raises ``BadInput``."""
    config = work.config
    if not config.base_url:
        return {}
    if config.api not in _OWN_ENDPOINT:
        raise unspoken(work, Copilot.facts.title, ", ".join(filter(None, _OWN_ENDPOINT)))
    if not (work.model or config.model or work.env.get("COPILOT_MODEL")):
        raise BadInput(
            "an endpoint of your own has no default model", field="model", fix="say model, or set agents.copilot.model"
        )
    key = key_of(work)
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": config.base_url,
        **_OWN_ENDPOINT[config.api],
        # By this name it keeps it from its shells, by any other it would not.
        **({config.api_key_env: "", "COPILOT_PROVIDER_API_KEY": key} if key else {}),
    }


def _hosts(work: AgentWork) -> tuple[str, ...]:
    if work.config.base_url:
        return tuple(filter(None, (host_of(work.config.base_url),)))
    host = next((work.env[name] for name in _HOSTS if work.env.get(name)), "github.com")
    if host == "github.com":
        return _SERVICE
    return f"{host}:443", f"api.{host}:443", f"copilot-api.{host}:443"


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("COPILOT_HOME") or Path(env.get("HOME", ""), ".copilot"))


def _logged_in(settings: Path) -> str:
    """Who is logged in, by the settings file; empty for nobody. Comments stand before its JSON."""
    try:
        lines = settings.read_text(encoding="utf-8", errors="replace").splitlines()
        found = msgspec.json.decode("\n".join(line for line in lines if not line.lstrip().startswith("//")))
    except (OSError, *NOT_JSON):
        return ""
    users = (found.get("loggedInUsers") or found.get("logged_in_users")) if isinstance(found, dict) else None
    first = users[0] if isinstance(users, list) and users else None
    return str(first.get("login", "somebody")) if isinstance(first, dict) else ""
