"""What is chosen in part stands in for itself: it says what is missing, and everything else of a server works."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from pilothouse.adapters.backends.opening import BackendConfig, open_backend, open_backend_or_say
from pilothouse.adapters.backends.unready import UnreadyBackend
from pilothouse.errors import BackendFailed, BadInput, Unavailable


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"kind": "llm"}, "PILOTHOUSE_LLM_API_KEY"),
        ({"kind": "agent"}, "PILOTHOUSE_AGENT"),
        ({"kind": "remote"}, "PILOTHOUSE_BACKEND_URL"),
        ({"kind": "script"}, "PILOTHOUSE_SCRIPT"),
        ({"script": Path("/nowhere/replies.yaml")}, "PILOTHOUSE_SCRIPT"),
    ],
)
def test_a_setting_that_is_missing_is_named_once_in_the_log_and_by_every_request(
    given: dict[str, Any], setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> None:
        config = BackendConfig(**given)
        with pytest.raises(Unavailable, match=setting):
            async with open_backend(config):
                pass
        async with open_backend_or_say(config) as backend:
            assert isinstance(backend, UnreadyBackend)
            assert backend.name == config.chosen
            with pytest.raises(BackendFailed, match=setting):
                await backend.models()

    with caplog.at_level(logging.WARNING):
        asyncio.run(act())
    (said,) = caplog.messages
    assert "backend.unready" in said and setting in said


def test_a_file_of_replies_that_is_wrong_is_told_with_the_place(tmp_path: Path) -> None:
    replies = tmp_path / "replies.yaml"
    replies.write_text("otherwise: [{shout: a}]", encoding="utf-8")

    async def act() -> str:
        async with open_backend_or_say(BackendConfig(script=replies)) as backend:
            assert isinstance(backend, UnreadyBackend)
            return backend.lacking

    assert asyncio.run(act()).startswith("PILOTHOUSE_SCRIPT: otherwise[0]: ")


@pytest.mark.parametrize(
    "given", [{"kind": "llm", "llm_provider": "nobody"}, {"kind": "remote", "url": "ftp://x"}, {"kind": "nobody"}]
)
def test_a_value_that_cannot_be_meant_is_refused_all_the_same(given: dict[str, Any]) -> None:
    async def act() -> None:
        async with open_backend_or_say(BackendConfig(**given)):
            pass

    with pytest.raises(BadInput):
        asyncio.run(act())
