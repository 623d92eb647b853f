"""The Gemini CLI: how it is launched, how one logs in to it.

What it prints is ``reader``'s. Over standard input it takes a prompt of any length; its arguments hold neither
that nor secrets. Names of files after an ``@`` in the prompt it reads at once. It does not tell which models there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.gemini import homes
from pilothouse.adapters.agents.gemini.reader import GeminiReader
from pilothouse.adapters.agents.gemini.sessions import Begun, begin
from pilothouse.adapters.agents.launching import PROXIES, host_of, key_of, prompt_of, refuse_foreign, unspoken
from pilothouse.adapters.agents.tool_servers import PATIENCE_MS, known_as, sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions
from pilothouse.errors import BadInput

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_VERTEX = "GOOGLE_GENAI_USE_VERTEXAI"
_CLOUD = (
    _VERTEX,
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GENAI_USE_GCA",
)
_SERVICE = (
    "aiplatform.googleapis.com:443",
    "cloudcode-pa.googleapis.com:443",
    "generativelanguage.googleapis.com:443",
    "oauth2.googleapis.com:443",
)
_KEYLESS = "none"
"""Without any key it does not ask the endpoint."""
_MODES = {Permissions.ALLOW: "yolo", Permissions.DENY: "default"}
"""By default it offers the model no tool that it would have to ask for."""
_SETTINGS: Mapping[str, Any] = {
    # Its own ten tries take four minutes. Beyond these 15 s a retry is ours, and a stop ends it.
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": 3},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


class Gemini:
    """Implements ``AgentDriver``."""

    facts = Facts(
        name="gemini",
        title="Gemini CLI",
        install="npm install -g @google/gemini-cli",
        programs=("gemini",),
        minimum=(0, 61),
        variables=(*_KEYS, *_CLOUD, "GEMINI_CLI_HOME", "GEMINI_MODEL", *PROXIES),
        # It would start itself a second time, and stand in front of that.
        quiet={"GEMINI_CLI_NO_RELAUNCH": "true"},
        resumes=True,
        asking="gemini-acp",
    )

    def native(self, found: str) -> tuple[str, ...]:
        """A script for Node, which puts itself in its place."""
        return (found,)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        if config.base_url:
            return Login(ok=True, how=f"own endpoint {config.base_url}")
        for name in _KEYS:
            if env.get(name):
                return Login(ok=True, how=name)
        if env.get(_VERTEX):
            return Login(ok=None, how="the login of Google Cloud")
        place = Path(_home(env), ".gemini")
        if (place / "oauth_creds.json").is_file():
            user = _active(place / "google_accounts.json")
            return Login(ok=True, how=f"logged in as {user}" if user else "logged in")
        return Login(ok=False, how=f"run `gemini` and log in, or set {_KEYS[0]}")

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        refuse_foreign(spec, self.facts.title)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return ()

    def models_from(self, output: str) -> tuple[str, ...]:
        return ()

    def launch(self, work: AgentWork) -> Launch:
        env, usual = _endpoint(work), _home(work.env)
        own = str(Path(work.private, "gemini")) if work.private and _has_key(work) else ""
        lent = str(Path(work.private, "gemini-lent")) if work.private and not own else ""
        begun = begin(work, tuple(dict.fromkeys(filter(None, (own, lent, usual)))))
        servers = _servers(work)
        if own:
            homes.own(own, {**_SETTINGS, **_login(work), **({"mcpServers": servers} if servers else {})})
            env["GEMINI_CLI_HOME"] = own
        elif lent and work.tools is not None:
            # One of the user's own with the name has the same tools: calls of those would not be the turn's.
            homes.lent(lent, usual, _SETTINGS, servers, instead=work.tools.name)
            env["GEMINI_CLI_HOME"] = lent
        elif work.private:
            # Under the user's own, which count before these.
            defaults = Path(work.private, "gemini-defaults.json")
            homes.settle(defaults, _SETTINGS)
            env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] = str(defaults)
        return Launch(
            argv=(*(work.program.argv or self.facts.programs), *_arguments(work, begun)),
            env=env,
            stdin=prompt_of(work, goes_on=bool(begun.file)),
            hosts=tuple(filter(None, (host_of(work.config.base_url),))) if work.config.base_url else _SERVICE,
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return GeminiReader(work)


def _arguments(work: AgentWork, begun: Begun) -> Iterator[str]:
    if work.permissions not in _MODES:
        raise BadInput(f"{Gemini.facts.title} cannot ask for permission", field="permissions", fix="use gemini-acp")
    yield from ("--output-format", "stream-json", "--skip-trust", "--approval-mode", _MODES[work.permissions])
    if model := work.model or work.config.model:
        yield from ("--model", model)
    for folder in work.allowed_folders:
        yield f"--include-directories={folder}"
    if begun.file:
        yield from ("--session-file", begun.file)
    elif begun.session:
        yield from ("--session-id", begun.session)


def _servers(work: AgentWork) -> dict[str, Any]:
    if work.tools is None:
        return {}
    command, *args = sealed(work)
    return {known_as(work.tools): {"command": command, "args": args, "trust": True, "timeout": PATIENCE_MS}}


def _endpoint(work: AgentWork) -> dict[str, str]:
    """Variables that send it to the user's own model. Raises ``BadInput``."""
    config = work.config
    if not config.base_url:
        return {}
    if config.api not in ("", "gemini"):
        raise unspoken(work, Gemini.facts.title, "gemini")
    if not (work.model or config.model):
        raise BadInput(
            "an endpoint of your own has no default model", field="model", fix="say model, or set agents.gemini.model"
        )
    url = re.sub(r"/v1\w*/?\Z", "", config.base_url)  # the version it adds itself
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": key_of(work) or _KEYLESS}


def _has_key(work: AgentWork) -> bool:
    """Whether it needs nothing of what the user's own directory holds, where logins are."""
    return bool(work.config.base_url) or any(work.env.get(name) for name in _KEYS)


def _login(work: AgentWork) -> Mapping[str, Any]:
    vertex = not work.config.base_url and (work.env.get(_VERTEX) or not work.env.get("GEMINI_API_KEY"))
    return {"security": {"auth": {"selectedType": "vertex-ai" if vertex else "gemini-api-key"}}}


def _home(env: Mapping[str, str]) -> str:
    """The directory in which its own is."""
    return env.get("GEMINI_CLI_HOME") or env.get("HOME", "")


def _active(accounts: Path) -> str:
    active = homes.json_object(accounts).get("active")
    return active if isinstance(active, str) else ""
