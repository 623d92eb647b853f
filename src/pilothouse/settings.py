"""Settings: from flags, the environment (``PILOTHOUSE_*``), ``.env`` and ``config.toml``, in this order.

Read once, where a process starts; everything below is handed plain values. A file that is not there is no error, a
setting that is wrong is one, naming it.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from pilothouse.core.credentials.services import Given
from pilothouse.core.run.agents import AgentConfig
from pilothouse.errors import BadInput
from pilothouse.owner import config_file


def _upper(level: object) -> object:
    return level.upper() if isinstance(level, str) else level


def _listed(text: object) -> object:
    return [part.strip() for part in text.split(",") if part.strip()] if isinstance(text, str) else text


def _absolute(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(Path(folder).expanduser().absolute()) for folder in folders)


def _absolute_file(file: Path | None) -> Path | None:
    return file and file.expanduser().absolute()


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("an address begins with http:// or https://")
    return url


def _private(url: str) -> str:
    parts = urlsplit(_endpoint(url))
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError("tokens go over https:// only, but for this machine's own addresses")
    return url


def _means_on(flag: object) -> bool:
    return flag is True or flag == "true"


class AgentSettings(BaseModel):
    """What is set for one agent: a table ``[agents.NAME]`` in ``config.toml``, or JSON in ``PILOTHOUSE_AGENTS``."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    command: list[str] = []
    acp: bool = False
    base_url: Annotated[str, AfterValidator(_endpoint)] = ""
    api: Literal["", "completions", "responses", "anthropic", "gemini"] = ""
    api_key_env: str = ""
    model: str = ""
    env: dict[str, str] = {}


class OAuthSettings(BaseModel):
    """What is set for one service: a table ``[oauth.NAME]`` in ``config.toml``, or JSON in ``PILOTHOUSE_OAUTH``."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    client_id: str = ""
    client_secret: SecretStr = SecretStr("")
    authorize_url: Annotated[str, AfterValidator(_private)] = ""
    token_url: Annotated[str, AfterValidator(_private)] = ""
    revoke_url: Annotated[str, AfterValidator(_private)] = ""
    api_url: Annotated[str, AfterValidator(_private)] = ""
    redirect_url: Annotated[str, AfterValidator(_private)] = ""
    scopes: list[str] = []
    scope_parameter: str = ""


class Settings(BaseSettings):
    """Everything a server can be told. Each is set by ``PILOTHOUSE_<NAME>`` or, in ``config.toml``, by its name."""

    model_config = SettingsConfigDict(env_prefix="PILOTHOUSE_", env_file=".env", extra="ignore")

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("pilothouse", appauthor=False)),
        description="Where everything is kept: the log, output, worktrees, sockets.",
    )
    worktree_root: Path | None = Field(
        default=None,
        description="Where worktrees are made, in a folder of their own; by default `worktrees` in the data directory.",
    )
    max_parallel: int = Field(default=16, ge=1, le=1024, description="How many nodes may work at once, over all plans.")
    orphan_grace: float = Field(
        default=60.0,
        ge=0,
        le=86400,
        description="Seconds that work goes on without a server before it is ended.",
    )
    idle_timeout: float = Field(
        default=30.0, ge=0, description="Seconds without work or clients after which a background server ends."
    )
    host: str = Field(default="127.0.0.1", description="Address that `serve` listens on.")
    port: int = Field(default=8484, ge=0, le=65535, description="Port that `serve` listens on; 0 takes a free one.")
    key_rate: int = Field(
        default=1200,
        ge=1,
        le=1_000_000,
        description="Requests a minute that each API key may make; ten seconds' worth of them at once.",
    )
    database_url: str | None = Field(
        default=None, description="Another database than the SQLite file in the data directory (not built yet)."
    )
    agents: dict[str, AgentSettings] = Field(
        default={},
        description="Per agent: `command`, `baseUrl`, `api`, `apiKeyEnv`, `model`, `env`, `acp`; see docs/agents.md.",
    )
    agent_backoff: float = Field(
        default=30.0,
        ge=0,
        le=3600,
        description="Seconds until an agent that was rate limited or disconnected is tried again; doubled each time.",
    )
    backend: Literal["", "remote", "llm", "agent", "script"] = Field(
        default="",
        description="Where replies in conversations come from: `remote`, `llm`, `agent` or `script`; by default a "
        "built-in guide that says how to connect a model.",
    )
    backend_url: Annotated[str, AfterValidator(_endpoint)] = Field(
        default="", description="Of a `remote` backend: its address."
    )
    backend_api_key: SecretStr = Field(default=SecretStr(""), description="Of a `remote` backend: its key.")
    llm_provider: str = Field(
        default="",
        description="Of the backend `llm`: `openai` (the default; whoever speaks chat completions), "
        "`openai-responses`, `anthropic` or `ollama`.",
    )
    llm_base_url: Annotated[str, AfterValidator(_endpoint)] = Field(
        default="", description="Of the backend `llm`: its address; by default the provider's own."
    )
    llm_api_key: SecretStr = Field(default=SecretStr(""), description="Of the backend `llm`: its key.")
    llm_model: str = Field(
        default="", description="Of the backend `llm`: the model that answers unless a chat says another."
    )
    llm_context_tokens: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Of the backend `llm`: how many tokens its model takes at once; by default as its server tells.",
    )
    agent: str = Field(default="", description="Of the backend `agent`: which one, see `pilothouse agents`.")
    agent_permissions: Literal["ask", "allow", "deny"] = Field(
        default="ask",
        description="Of the backend `agent`: what becomes of its requests to use tools that change something.",
    )
    script: Annotated[Path | None, AfterValidator(_absolute_file)] = Field(
        default=None, description="Of the backend `script`: the file with its replies."
    )
    redis_url: str | None = Field(
        default=None,
        description="A Redis server that carries signals between the processes that share a store. They are signed "
        "with `signals.key` of the data directory, which all of them need.",
    )
    copilot_use_server_orchestrator: Annotated[bool, BeforeValidator(_means_on)] = Field(
        default=True,
        validation_alias="copilot_use_server_orchestrator",
        description="`true`: this server orchestrates turns. Anything else: conversations are passed through to a "
        "`remote` backend, and the headless API is off.",
    )
    copilot_enable_headless_api: Annotated[bool, BeforeValidator(_means_on)] = Field(
        default=True,
        validation_alias="copilot_enable_headless_api",
        description="`true`: the headless API answers. Anything else: it is off.",
    )
    vault_key: Literal["auto", "file", "keychain"] = Field(
        default="auto",
        description="Where the key of a new vault of credentials goes: `keychain`, the system's; `file`, beside the "
        "vault; by default the keychain where there is one.",
    )
    oauth: dict[str, OAuthSettings] = Field(
        default={},
        description="Per service: `clientId`, `clientSecret`, `scopes`, addresses; see docs/credentials.md.",
    )
    http_allow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = Field(
        default=(),
        description="Hosts, addresses and networks that the tool `http_request` may ask although they are not public, "
        "separated by commas: `intranet.example, 127.0.0.1:8080, 10.0.0.0/8`.",
    )
    docs: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed), AfterValidator(_absolute)] = Field(
        default=(), description="Folders that the tool `search_documentation` searches too, separated by commas."
    )
    prices: Path | None = Field(
        default=None, description="The price table; by default `prices.toml` beside `config.toml`, if there is one."
    )
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = Field(
        default="INFO", description="Of the server's own log: DEBUG, INFO, WARNING or ERROR."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, toml_file=config_file())
        return (init_settings, env_settings, dotenv_settings, toml)

    @property
    def price_table(self) -> Path | None:
        """The file that ``prices`` means."""
        beside = config_file().with_name("prices.toml")
        return self.prices or (beside if beside.exists() else None)

    @property
    def agent_configs(self) -> dict[str, AgentConfig]:
        """What is set for agents, as the adapters take it."""
        return {name: msgspec.convert(given.model_dump(), AgentConfig) for name, given in self.agents.items()}

    @property
    def oauth_services(self) -> dict[str, Given]:
        """What is set for services."""
        return {
            name: msgspec.convert(given.model_dump() | {"client_secret": given.client_secret.get_secret_value()}, Given)
            for name, given in self.oauth.items()
        }


def read_settings(**flags: Any) -> Settings:
    """The settings, with flags (None: not given) over everything else. Raises ``BadInput`` naming the setting."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        raise _wrong(error) from error
    except SettingsError as error:
        table = "oauth" if '"oauth"' in str(error) else "agents"
        fix = _TABLES[table][1]
        raise BadInput("is not the JSON that it has to be", field=f"PILOTHOUSE_{table.upper()}", fix=fix) from error
    except (ValueError, RecursionError, OSError) as error:  # what a file can hold that is no TOML
        raise BadInput(f"{config_file()}: {error}", field="PILOTHOUSE_CONFIG", fix="see docs/settings.md") from error


_TABLES: dict[str, tuple[type[BaseModel], str]] = {
    "agents": (AgentSettings, "see docs/agents.md"),
    "oauth": (OAuthSettings, "see docs/credentials.md"),
}


def _wrong(error: ValidationError) -> BadInput:
    """The first thing that is wrong, named as people write it: what is set in a table has no variable of its own."""
    first = error.errors()[0]
    name, *inside = map(str, first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    if not inside:
        return BadInput(message, field=f"PILOTHOUSE_{name.upper()}", fix="see docs/settings.md")
    model, fix = _TABLES[name]
    if first["type"] == "extra_forbidden":
        known = {field.lower(): field for field in map(to_camel, model.model_fields)}
        near = difflib.get_close_matches(inside[-1].lower().replace("_", ""), known, n=1)
        message = "there is no such setting"
        fix = f"did you mean {known[near[0]]!r}?" if near else f"there are {', '.join(known.values())}"
    return BadInput(message, field=".".join((name, *inside)), fix=fix)
