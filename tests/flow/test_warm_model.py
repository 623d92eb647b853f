"""A server whose conversations a language model answers: the library is there before the first message, which nobody
waits for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.terminal import desk, until

MODEL = {"PILOTHOUSE_LLM_BASE_URL": "http://127.0.0.1:9/v1", "PILOTHOUSE_LLM_MODEL": "m"}
OF_THE_LIBRARY = "jiter"
"""Compiled, so that it shows among what a process has mapped."""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has loaded is read from /proc")
def test_the_library_is_loaded_without_a_message_once_the_server_is_up(tmp_path: Path) -> None:
    with desk(tmp_path, **MODEL) as at:
        server = at.start("serve", "--port", "0", "--no-open")
        server.says("/login?token=")
        maps = Path(f"/proc/{server.pid}/maps")
        until(lambda: OF_THE_LIBRARY in maps.read_text("utf-8"))
        server.press_ctrl_c()
        assert server.wait().code == 0


def test_a_server_that_is_stopped_while_it_gets_ready_ends_in_order(tmp_path: Path) -> None:
    with desk(tmp_path, **MODEL) as at:
        server = at.start("serve", "--port", "0", "--no-open")
        server.says("/login?token=")
        server.press_ctrl_c()
        said = server.wait()
        assert said.code == 0
        assert "Traceback" not in said.err
