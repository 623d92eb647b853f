"""OpenCode: how it is launched, how one logs in to it, which models it offers.

What it prints is ``reader``'s. Over standard input it takes a prompt of any length; its arguments hold neither
that nor secrets. Its settings are handed over in a variable, which goes over those in its files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.launching import PROXIES, host_of, prompt_of, refuse_foreign, unspoken
from pilothouse.adapters.agents.opencode.reader import OpenCodeReader, prefix_of
from pilothouse.adapters.agents.opencode.store import Begun, begin
from pilothouse.adapters.agents.reading import NOT_JSON
from pilothouse.adapters.agents.tool_servers import PATIENCE_MS, known_as, sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions
from pilothouse.errors import BadInput

_PROVIDER = "pilothouse"
_KEYS: Mapping[str, tuple[str, str]] = {
    "ANTHROPIC_API_KEY": ("anthropic", "api.anthropic.com:443"),
    "DEEPSEEK_API_KEY": ("deepseek", "api.deepseek.com:443"),
    "GOOGLE_GENERATIVE_AI_API_KEY": ("google", "generativelanguage.googleapis.com:443"),
    "MISTRAL_API_KEY": ("mistral", "api.mistral.ai:443"),
    "OPENAI_API_KEY": ("openai", "api.openai.com:443"),
    "OPENCODE_API_KEY": ("opencode", "opencode.ai:443"),
    "OPENROUTER_API_KEY": ("openrouter", "openrouter.ai:443"),
    "XAI_API_KEY": ("xai", "api.x.ai:443"),
}
"""Variables with a key → the provider it is for, and where that is reached."""
_WIRES = {
    "": "@ai-sdk/openai-compatible",
    "completions": "@ai-sdk/openai-compatible",
    "responses": "@ai-sdk/openai",
    "anthropic": "@ai-sdk/anthropic",
    "gemini": "@ai-sdk/google",
}
"""Its own packages, by the API they speak."""
_PLACES = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state"}
_FETCHED = '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}'
_LOOKS = ("glob", "grep", "list", "lsp", "read", "skill", "todoread", "todowrite")
"""Tools that change nothing outside of it."""
_MODEL = re.compile(r"[a-z0-9][\w.-]*/\S+")


class OpenCode:
    """Implements ``AgentDriver``."""

    facts = Facts(
        name="opencode",
        title="OpenCode",
        install="npm install -g opencode-ai",
        programs=("opencode",),
        minimum=(1, 18),
        variables=(*_KEYS, "OPENCODE_CONFIG", "OPENCODE_DB", *_PLACES, "XDG_CACHE_HOME", *PROXIES),
        quiet={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        },
        resumes=True,
        asking="opencode-acp",
    )

    def native(self, found: str) -> tuple[str, ...]:
        """Its package puts the program itself in the place of a loader."""
        return (found,)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        if config.base_url:
            return Login(ok=True, how=f"own endpoint {config.base_url}")
        if providers := _logins(env):
            return Login(ok=True, how=f"logged in to {', '.join(providers)}")
        for name in _KEYS:
            if env.get(name):
                return Login(ok=True, how=name)
        return Login(ok=None, how="only its free models; for others run `opencode auth login`")

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        refuse_foreign(spec, self.facts.title)

    def models_command(self, program: Program) -> tuple[str, ...]:
        return (*program.argv, "models")

    def models_from(self, output: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for line in map(str.strip, output.splitlines()) if _MODEL.fullmatch(line)))

    def launch(self, work: AgentWork) -> Launch:
        usual = _places(work.env)
        own = _own_places(work)
        databases = [_database(work, places) for places in (own, usual) if places]
        begun = begin(work, tuple(dict.fromkeys(databases)))
        env = {"OPENCODE_CONFIG_CONTENT": msgspec.json.encode(_settings(work)).decode()}
        if own and begun.databases[0] == databases[0]:
            _prepare(own, usual)
            env |= own
        if work.config.base_url:
            env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
        return Launch(
            argv=moving(work, begun, (*(work.program.argv or self.facts.programs), *_arguments(work, begun.session))),
            env=env,
            stdin=prompt_of(work, goes_on=bool(begun.session)),
            hosts=_hosts(work),
        )

    def reader(self, work: AgentWork) -> AgentReader:
        return OpenCodeReader(work)


def moving(work: AgentWork, begun: Begun, run: tuple[str, ...]) -> tuple[str, ...]:
    """What to start so that ``run`` goes on with a conversation: it is at home in one directory, and resumed in another
    it would work on in the first one, and not end. To import it, without any messages, is to move it."""
    if not begun.session or begun.directory == work.worktree:
        return run
    file = Path(work.run, "moved.json")
    file.write_bytes(msgspec.json.encode(_moved(begun.session, work.worktree)))
    move = shlex.join((*(work.program.argv or OpenCode.facts.programs), "import", str(file)))
    return "/bin/sh", "-c", f"{move} </dev/null >&2 && exec {shlex.join(run)}"


def model_name(work: AgentWork) -> str:
    """The model as OpenCode calls it; empty for its own choice."""
    model = work.model or work.config.model
    return f"{_PROVIDER}/{model}" if model and work.config.base_url else model


def _arguments(work: AgentWork, session: str) -> Iterator[str]:
    yield from ("run", "--dir", work.worktree, "--format", "json", "--thinking", f"--title={work.node}")
    if model := model_name(work):
        yield from ("-m", model)
    if work.effort is not None and not work.config.base_url:
        yield from ("--variant", work.effort.value)
    if work.permissions is Permissions.ALLOW:
        yield "--auto"  # what it would ask for; what its settings deny stays denied
    if session:
        yield from ("-s", session)


def _settings(work: AgentWork) -> dict[str, Any]:
    """Raises ``BadInput``."""
    # Git keeps what a worktree held before.
    common = {"autoupdate": False, "share": "disabled", "snapshot": False}
    return {**common, "permission": _permissions(work), **_endpoint(work), **_tools(work)}


def _tools(work: AgentWork) -> dict[str, Any]:
    if work.tools is None:
        return {}
    server = {"type": "local", "command": sealed(work), "enabled": True, "timeout": PATIENCE_MS}
    # One of the user's own with the name has the same tools: calls of those would not be the turn's.
    return {"mcp": {known_as(work.tools): server, work.tools.name: {"enabled": False}}}


def _permissions(work: AgentWork) -> dict[str, Any]:
    """The last rule that fits counts. What is asked for and refused would end the run, so it is denied instead."""
    if work.permissions is Permissions.ASK:
        raise BadInput(f"{OpenCode.facts.title} cannot ask for permission", field="permissions", fix="use opencode-acp")
    folders = [f"{folder.rstrip('/')}{rest}" for folder in work.allowed_folders for rest in ("", "/*")]
    data = (_own_places(work) or _places(work.env))["XDG_DATA_HOME"]
    outside = {"*": "deny", f"{data}/opencode/tool-output/*": "allow", **dict.fromkeys(folders, "allow")}
    given = {f"{prefix_of(work.tools)}*": "allow"} if work.tools else {}
    if work.permissions is Permissions.DENY:
        return {"*": "deny", **dict.fromkeys(_LOOKS, "allow"), "external_directory": outside, **given}
    found: dict[str, Any] = {"doom_loop": "deny", "external_directory": outside, **given}
    if work.allowed_urls:
        found["webfetch"] = {"*": "deny", **dict.fromkeys((f"{url}*" for url in work.allowed_urls), "allow")}
    return found


def _endpoint(work: AgentWork) -> dict[str, Any]:
    """Settings that send it to the user's own model. Raises ``BadInput``."""
    config = work.config
    if not config.base_url:
        return {}
    if config.api not in _WIRES:
        raise unspoken(work, OpenCode.facts.title, ", ".join(filter(None, _WIRES)))
    model = work.model or config.model
    if not model:
        raise BadInput(
            "an endpoint of your own has no default model", field="model", fix="say model, or set agents.opencode.model"
        )
    url = config.base_url.rstrip("/")
    if config.api == "anthropic" and not url.endswith("/v1"):
        url += "/v1"  # others are given the address without it
    if config.api == "gemini" and not re.search(r"/v1\w*$", url):
        url += "/v1beta"
    options = {"baseURL": url} | ({"apiKey": f"{{env:{config.api_key_env}}}"} if config.api_key_env else {})
    openai = config.api in ("", "completions", "responses")
    effort = {"reasoningEffort": work.effort.value} if work.effort is not None and openai else {}
    return {
        "enabled_providers": [_PROVIDER],
        "small_model": f"{_PROVIDER}/{model}",
        "provider": {
            _PROVIDER: {
                "npm": _WIRES[config.api],
                "name": "Pilothouse",
                "options": options,
                "models": {model: {"name": model, "options": effort}},
            }
        },
    }


def _hosts(work: AgentWork) -> tuple[str, ...]:
    if work.config.base_url:
        return tuple(filter(None, (host_of(work.config.base_url),)))
    asked = (work.model or work.config.model).partition("/")[0]
    return tuple(host for provider, host in _KEYS.values() if asked in ("", provider))


def _places(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env.get(name) or str(Path(env.get("HOME", ""), usual)) for name, usual in _PLACES.items()}


def _own_places(work: AgentWork) -> dict[str, str]:
    """Directories of ours, unless it needs those of the user, where logins are."""
    own = work.config.base_url or (any(work.env.get(name) for name in _KEYS) and not _logins(work.env))
    if not work.private or not own:
        return {}
    return {name: str(Path(work.private, "opencode", Path(usual).name)) for name, usual in _PLACES.items()}


def _prepare(own: Mapping[str, str], usual: Mapping[str, str]) -> None:
    for place in own.values():
        Path(place).mkdir(mode=0o700, parents=True, exist_ok=True)
    # Git looks for its settings in the directory of settings too, and finds them as before.
    link = Path(own["XDG_CONFIG_HOME"], "git")
    if not link.is_symlink():
        link.symlink_to(Path(usual["XDG_CONFIG_HOME"], "git"))
    # It would fetch what plugins are written with, each time anew. None is here, so it is told that it has that.
    settings = Path(own["XDG_CONFIG_HOME"], "opencode")
    (settings / "node_modules").mkdir(parents=True, exist_ok=True)
    (settings / "package-lock.json").write_text(_FETCHED, encoding="utf-8")


def _database(work: AgentWork, places: Mapping[str, str]) -> str:
    return str(Path(places["XDG_DATA_HOME"], "opencode", work.env.get("OPENCODE_DB") or "opencode.db"))


def _moved(session: str, directory: str) -> dict[str, Any]:
    """A conversation as it is imported. Of one that is there already only the directory counts."""
    info = {"id": session, "slug": "moved", "projectID": "global", "directory": directory, "title": "moved"}
    return {"info": {**info, "version": "1", "time": {"created": 1, "updated": 1}}, "messages": []}


def _logins(env: Mapping[str, str]) -> list[str]:
    """Providers that the user has logged in to."""
    try:
        found = msgspec.json.decode(Path(_places(env)["XDG_DATA_HOME"], "opencode", "auth.json").read_bytes())
    except (OSError, *NOT_JSON):
        return []
    return sorted(found) if isinstance(found, dict) else []
