"""What drivers share when they launch."""

from __future__ import annotations

import pytest
from tests.adapters.agents.replay import some_work

from pilothouse.adapters.agents.launching import host_of, is_id, prompt_of


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com/v1", "api.example.com:443"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://[::1]:11434/v1", "[::1]:11434"),
        ("example.com", ""),
        ("http://x:notaport", ""),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(url: str, host: str) -> None:
    assert host_of(url) == host


def test_an_id_is_neither_an_option_nor_a_path() -> None:
    assert is_id("11111111-2222-4333-8444-555555555555")
    assert not any(map(is_id, ("", "-x", "a/b", "..", "a b", "*", "x" * 200)))


def test_a_conversation_that_is_gone_is_begun_with_all_that_a_new_one_is_told() -> None:
    work = some_work(prompt="Go on.", opening="All of it.", session_id="s")

    assert prompt_of(work, goes_on=True) == "Go on."
    assert prompt_of(work, goes_on=False) == "All of it."
    assert prompt_of(some_work(prompt="Begin.", opening="Begin."), goes_on=False) == "Begin."
