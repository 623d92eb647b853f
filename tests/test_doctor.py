"""What ``doctor`` says of the vault, and of who answers in conversations."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pilothouse.adapters.vault.opening import open_vault
from pilothouse.core.auth.principals import LOCAL
from pilothouse.doctor import Check, doctor


def of_the_vault(data_dir: Path) -> Check:
    (check,) = [check for check in doctor(data_dir) if check.name == "vault"]
    return check


def test_a_vault_that_does_not_open_is_told_with_a_way_out_and_no_server_needs_it(tmp_path: Path) -> None:
    assert of_the_vault(tmp_path).ok
    assert not (tmp_path / "vault").exists()
    asyncio.run(open_vault(tmp_path, "file").put(LOCAL, "value/A", {"value": "planted-secret", "createdAt": 0}))
    check = of_the_vault(tmp_path)
    assert (check.ok, "1 " in check.detail, "planted" in check.detail) == (True, True, False)
    (tmp_path / "vault.key").unlink()
    check = of_the_vault(tmp_path)
    assert (check.ok, check.needed) == (False, False)
    assert "is gone" in check.detail


@pytest.mark.parametrize(
    ("given", "ok", "told"),
    [
        ({}, True, "built-in guide"),
        ({"BACKEND": "script"}, False, "PILOTHOUSE_SCRIPT"),
        ({"SCRIPT": "/nowhere/replies.yaml"}, False, "PILOTHOUSE_SCRIPT: /nowhere/replies.yaml cannot be read"),
        ({"BACKEND": "remote"}, False, "PILOTHOUSE_BACKEND_URL"),
        ({"BACKEND": "agent"}, False, "PILOTHOUSE_AGENT"),
        ({"AGENT": "nobody"}, False, "there is no agent 'nobody'"),
        ({"BACKEND": "llm"}, False, "PILOTHOUSE_LLM_API_KEY"),
        ({"LLM_PROVIDER": "ollama"}, False, "no model is chosen"),
        ({"LLM_PROVIDER": "ollama", "LLM_MODEL": "qwen3"}, True, "the model qwen3 answers"),
    ],
)
def test_who_answers_in_conversations_is_told_and_what_is_missing_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, str], ok: bool, told: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"PILOTHOUSE_{name}", value)
    (check,) = [check for check in doctor(tmp_path) if check.name == "conversations"]
    assert (check.ok, told in check.detail, check.needed) == (ok, True, False), check


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"LLM_PROVIDER": "nobody"}, "PILOTHOUSE_LLM_PROVIDER"),
        ({"AGENT": "codex", "LLM_PROVIDER": "ollama"}, "PILOTHOUSE_BACKEND"),
    ],
)
def test_settings_that_cannot_be_meant_are_told_as_what_no_server_starts_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, str], told: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"PILOTHOUSE_{name}", value)
    (check,) = [check for check in doctor(tmp_path) if check.name == "conversations"]
    assert (check.ok, told in check.detail, check.needed) == (False, True, True), check
