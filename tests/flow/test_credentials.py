"""Credentials from the command line to a tool's request: used where they belong, and found nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from tests.support.flow import PATIENCE_S
from tests.support.living import living
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, call, say
from tests.support.models.server import ModelServer
from tests.support.needs import need
from tests.support.outside.serving import serving
from tests.support.outside.slack import Slack
from tests.support.terminal import desk

pytestmark = pytest.mark.timeout(180)

VALUE = "planted-value-0123456789abcdef"
CLIENT_SECRET = "planted-client-secret-0123456789"


def model(asked: Asked) -> Turn:
    """Reads the channel, tells it something, asks a server with a secret, and repeats all it was told."""
    if not asked.tools:
        return (say("Talk"),)
    steps = (
        (call("slack_list_channels"), call("slack_read", {"channel": "#general"})),
        (call("slack_send", {"channel": "#general", "text": "Hello from a turn"}),),
    )
    if len(asked.results) < 2:
        return steps[0]
    if len(asked.results) < 3:
        return steps[1]
    return (say(f"It said: {asked.results[-1]}"),)


def files_with(values: set[str], where: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(where.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            yield from ((value, str(path)) for value in values if value.encode() in content)


def ask(url: str, key: str, path: str, body: Any = None) -> Any:
    """As any program would."""
    command = [need("curl"), "-sS", "-m", f"{PATIENCE_S:g}", "-H", f"X-API-Key: {key}", f"{url}{path}"]
    if body is not None:
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=2 * PATIENCE_S)
    return json.loads(done.stdout)


def test_tokens_are_used_for_their_service_and_are_nowhere_else(tmp_path: Path) -> None:
    slack = Slack()
    slack.tokens.clients = {"client-1": CLIENT_SECRET}
    slack.add("C1", "general")
    with serving(Starlette(routes=slack.routes())) as outside, ModelServer(model) as models:
        registered = {
            "clientId": "client-1",
            "clientSecret": CLIENT_SECRET,
            "authorizeUrl": f"{outside}/authorize",
            "tokenUrl": f"{outside}/token",
            "revokeUrl": f"{outside}/revoke",
            "apiUrl": outside,
        }
        settings = {
            "PILOTHOUSE_OAUTH": json.dumps({"slack": registered}),
            "PILOTHOUSE_VAULT_KEY": "file",
            "PILOTHOUSE_LOG_LEVEL": "DEBUG",
            "PILOTHOUSE_BACKEND": "llm",
            "PILOTHOUSE_LLM_PROVIDER": "openai",
            "PILOTHOUSE_LLM_BASE_URL": f"{models.url}/v1",
            "PILOTHOUSE_LLM_API_KEY": "loopback-key",
            "PILOTHOUSE_LLM_MODEL": "loopback",
            # A browser whose person agrees to everything.
            "BROWSER": f"{need('curl')} -s -L -o {os.devnull} %s &",
        }
        with desk(tmp_path, **settings) as at:
            told = []
            server = at.start("serve", "--port", "0", "--no-open")
            server.says("/login?token=")
            url = server.out.strip().partition("/login")[0]
            key = at.ask("keys", "create", "--name", "program", "--user", "local", "--scope", "approve")["key"]

            told.append(at.run("credentials", "set", "PLANTED", stdin=VALUE.encode()))
            told.append(at.run("credentials", "connect", "slack", "--account", "work"))
            assert told[-1].out == "connected: slack:work\n", told[-1].err
            told.append(at.run("credentials", "list"))

            # The service ends the token early; the tool refreshes it in the middle of the turn.
            slack.tokens.end_access()
            answer = ask(url, key, "/api/v1/copilot/chat", {"message": "Greet the channel"})
            assert [(one["name"], one["status"]) for one in answer["toolCalls"]] == [
                ("slack_list_channels", "success"),
                ("slack_read", "success"),
                ("slack_send", "success"),
            ], answer
            assert slack.messages["C1"][-1]["text"] == "Hello from a turn"
            assert slack.tokens.refreshes == 1

            export = ask(url, key, f"/api/copilot/chats/{answer['chatId']}/export")
            shown = [answer, export, *(ask(url, key, path) for path in ("/api/credentials", "/api/tools"))]
            planted = slack.tokens.secrets() | {VALUE}
            children = [one for one in living() if one.parent == server.pid]
            at.run("credentials", "remove", "slack:work")
            assert slack.tokens.revoked
            log = server.out + server.err
        everywhere = json.dumps(shown) + "".join(one.out + one.err for one in told) + log
        assert [value for value in planted if value in everywhere] == []
        assert list(files_with({"Hello from a turn"}, tmp_path)), "the search finds what is in the log"
        # Beside the data directory lies what this test gave to stdin.
        assert [found for found in files_with(planted, tmp_path) if not found[1].endswith("/in")] == []
        for child in children:
            assert [value for value in planted - {CLIENT_SECRET} if value.encode() in child.environ] == []
        asked_of_models = json.dumps([received.body for received in models.requests])
        assert [value for value in planted if value in asked_of_models] == []
