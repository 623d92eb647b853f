"""Conversations of a real server: from a browser's session, and with the flags of the chat document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from tests.flow.test_serve_http import Server
from tests.support.terminal import Desk, desk

CHAT, HEADLESS = "/api/copilot/chat", "/api/v1/copilot/chat"
SCRIPT = 'otherwise: [{say: "Hello."}]\n'
BODY = {"message": "hi", "stream": False}

Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server that answers with a script, in an environment."""
    with ExitStack() as stack:

        def start(**environ: str) -> Server:
            folder = tmp_path / f"desk-{len(environ)}-{'-'.join(environ)[:20]}"
            folder.mkdir()
            script = folder / "replies.yaml"
            script.write_text(SCRIPT)
            given = {"PILOTHOUSE_BACKEND": "script", "PILOTHOUSE_SCRIPT": str(script), **environ}
            at: AbstractContextManager[Desk] = desk(folder, **given)
            return Server(stack.enter_context(at).start("serve", "--port", "0", "--no-open"))

        yield start


def test_a_browser_that_logged_in_talks_and_a_stranger_does_not(serve: Serve) -> None:
    server = serve()
    with server.stranger() as stranger:
        refused = stranger.post(CHAT, json=BODY)
        assert (refused.status_code, refused.json()["code"]) == (401, "no_credential")
        headless = stranger.post(HEADLESS, json=BODY)
        assert (headless.status_code, headless.json()["success"]) == (401, False)
    with server.browser() as browser:
        answered = browser.post(CHAT, json=BODY, headers={"origin": server.url})
        assert (answered.status_code, answered.json()["content"]) == (200, "Hello.")
        foreign = browser.post(CHAT, json=BODY, headers={"origin": "http://evil.example"})
        assert foreign.status_code == 403


@pytest.mark.parametrize(
    ("environ", "interactive", "headless"),
    [
        ({}, 200, 200),
        ({"COPILOT_USE_SERVER_ORCHESTRATOR": "true", "COPILOT_ENABLE_HEADLESS_API": "true"}, 200, 200),
        ({"COPILOT_ENABLE_HEADLESS_API": "false"}, 200, 503),
        ({"COPILOT_ENABLE_HEADLESS_API": "1"}, 200, 503),
        ({"COPILOT_USE_SERVER_ORCHESTRATOR": "false"}, 503, 503),
    ],
)
def test_the_flags_of_the_environment_switch_the_routes(
    serve: Serve, environ: dict[str, str], interactive: int, headless: int
) -> None:
    server = serve(**environ)
    with server.browser() as browser:
        assert browser.post(CHAT, json=BODY).status_code == interactive
        answered = browser.post(HEADLESS, json={"message": "hi"})
        assert answered.status_code == headless
        assert answered.json()["success"] is (headless == 200)
