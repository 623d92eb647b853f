"""Which backend a configuration means, opened for as long as the server lives.

Owns the choice alone, and what a choice lacks that was made in part. Each backend is imported when it is chosen,
because some bring heavy libraries that others do not need.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pilothouse.adapters.backends.unready import UnreadyBackend
from pilothouse.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from pilothouse.adapters.backends.guide import GuideBackend
    from pilothouse.adapters.backends.llm.backend import LlmBackend
    from pilothouse.adapters.backends.remote import RemoteBackend
    from pilothouse.adapters.backends.script import ScriptBackend

    AnyBackend: TypeAlias = GuideBackend | LlmBackend | RemoteBackend | ScriptBackend

log = logging.getLogger(__name__)

KINDS = ("remote", "llm", "agent", "script")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendConfig:
    """What settings say about backends; keys are never shown. ``kind`` empty: what else is given decides."""

    kind: str = ""
    url: str = ""
    api_key: str = field(default="", repr=False)
    llm_provider: str = ""
    llm_base_url: str = ""
    llm_api_key: str = field(default="", repr=False)
    llm_model: str = ""
    llm_context_tokens: int = 0
    prices: Path | None = None
    """The price table, by which answers of language models cost something."""
    agent: str = ""
    script: Path | None = None

    @property
    def chosen(self) -> str:
        """One of ``KINDS``, or empty for the guide. Raises ``BadInput`` where more than one is meant."""
        if self.kind:
            if self.kind not in KINDS:
                raise BadInput(
                    f"{self.kind!r} is no backend", field="PILOTHOUSE_BACKEND", fix=f"one of {', '.join(KINDS)}"
                )
            return self.kind
        given = {
            "remote": self.url,
            "llm": self.llm_provider or self.llm_base_url or self.llm_model,
            "agent": self.agent,
            "script": self.script,
        }
        meant = [kind for kind, value in given.items() if value]
        if len(meant) > 1:
            raise BadInput(
                f"{' and '.join(meant)} are configured", field="PILOTHOUSE_BACKEND", fix="say which of them is meant"
            )
        return meant[0] if meant else ""


@asynccontextmanager
async def open_backend(config: BackendConfig) -> AsyncIterator[AnyBackend]:
    """Every kind but an ``agent`` that is named. Leaving closes its connections.

    Raises ``BadInput`` for a configuration that cannot be meant, ``Unavailable`` for one that was made in part, or
    needs something this machine lacks."""
    # Imported when chosen, each: a server pays at its start for no library but that of its own backend.
    match config.chosen:
        case "remote":
            from pilothouse.adapters.backends.remote import RemoteBackend  # noqa: PLC0415

            if not config.url.strip():
                raise _lacks("remote", "PILOTHOUSE_BACKEND_URL", "its address, like https://copilot.example.com")
            async with RemoteBackend.opened(config.url, config.api_key) as remote:
                yield remote
        case "llm":
            from pilothouse.adapters.backends.llm.config import LlmConfig  # noqa: PLC0415
            from pilothouse.adapters.backends.llm.opening import opened  # noqa: PLC0415

            asked = LlmConfig(
                provider=config.llm_provider or "openai",
                base_url=config.llm_base_url,
                api_key=config.llm_api_key,
                model=config.llm_model,
                context_tokens=config.llm_context_tokens,
            )
            async with opened(asked, config.prices) as llm:
                yield llm
        case "script":
            from pilothouse.adapters.backends.script import ScriptBackend  # noqa: PLC0415

            if config.script is None:
                raise _lacks("script", "PILOTHOUSE_SCRIPT", "a file of replies (see docs/script-backend.md)")
            try:
                script = ScriptBackend.read(config.script)
            except BadInput as error:  # the setting itself is right: a file is put right, or is there later
                raise Unavailable(f"PILOTHOUSE_SCRIPT: {error}") from error
            yield script
        case "":
            from pilothouse.adapters.backends.guide import GuideBackend  # noqa: PLC0415

            yield GuideBackend()
        case kind:
            # An agent works within a turn as it does within a node, so the engine itself makes one that is named.
            raise _lacks(kind, "PILOTHOUSE_AGENT", "one that `pilothouse agents` lists")


@asynccontextmanager
async def open_backend_or_say(config: BackendConfig) -> AsyncIterator[AnyBackend | UnreadyBackend]:
    """The same, or what stands in for one that lacks something, of which the log tells: people who run plans need no
    model. Raises ``BadInput``."""
    async with AsyncExitStack() as stack:
        backend: AnyBackend | UnreadyBackend
        try:
            backend = await stack.enter_async_context(open_backend(config))
        except Unavailable as error:
            log.warning("backend.unready: conversations are refused until the server is started with it: %s", error)
            backend = UnreadyBackend(config.chosen, str(error))
        yield backend


def _lacks(kind: str, setting: str, what: str) -> Unavailable:
    return Unavailable(f"PILOTHOUSE_BACKEND is {kind!r}, and {setting} is missing: set it to {what}")
