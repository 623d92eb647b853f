"""Conversations that draft a workflow, run it and look at it, with real tools; and secrets that stay where they are."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.flow import Repo, engine, eventually, finished, is_a, make_repo, run, until
from tests.support.living import kept, living

from pilothouse.core.auth.principals import THE_LOCAL_USER
from pilothouse.core.chat.calls import CallStatus, OnApproval
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.run.events import NeedsApproval
from pilothouse.engine.chats.values import Send
from pilothouse.engine.services import Services

SECRET = "planted-5ecret/of+the=user-0123456789"
PLANTED_IN_HOST = "planted-secret-of-the-host-9876543210"

SCRIPT = {
    "rules": [
        {
            "when": {"contains": "draft"},
            "steps": [
                {
                    "call": {
                        "tool": "create_workflow",
                        "arguments": {
                            "name": "greetings",
                            "blocks": [
                                {
                                    "id": "hello",
                                    "type": "shell",
                                    "task": "Greet",
                                    "config": {"command": "echo hello > hello.txt; env"},
                                }
                            ],
                        },
                    }
                },
                {
                    "call": {
                        "tool": "edit_workflow",
                        "arguments": {
                            "version": 1,
                            "why": "two are better",
                            "operations": [
                                {
                                    "op": "add_block",
                                    "block": {
                                        "id": "ahoy",
                                        "type": "shell",
                                        "task": "Greet at sea",
                                        "config": {"command": "echo ahoy > ahoy.txt"},
                                    },
                                    "after": ["hello"],
                                }
                            ],
                        },
                    }
                },
                {"say": "Version {results.edit_workflow.version} has two blocks."},
            ],
        },
        {
            "when": {"contains": "run it"},
            "steps": [
                {"call": {"tool": "run_workflow", "arguments": {}}},
                {"call": {"tool": "get_workflow_run", "arguments": {"runId": "{results.run_workflow.runId}"}}},
                {"say": "It runs."},
            ],
        },
        {
            "when": {"matches": "look at (?P<id>\\S+)"},
            "steps": [
                {
                    "call": [
                        {"tool": "get_plan_status", "arguments": {"planId": "{id}"}},
                        {"tool": "get_plan_logs", "arguments": {"planId": "{id}", "node": "hello", "phase": "work"}},
                    ]
                },
                {"say": "It is {results.get_plan_status.status}."},
            ],
        },
        {
            "when": {"matches": "ask (?P<url>\\S+)"},
            "steps": [
                {
                    "call": [
                        {
                            "tool": "http_request",
                            "arguments": {
                                "url": "{url}",
                                "headers": {"Authorization": "Bearer {{SERVICE_TOKEN}}"},
                                "query": {"key": "{{SERVICE_TOKEN}}"},
                            },
                        },
                        {
                            "tool": "run_shell",
                            "arguments": {
                                "command": 'env; printf %s "$T" | base64 -w0; test -n "$T" && echo " was there"',
                                "env": {"T": "{{SERVICE_TOKEN}}"},
                            },
                        },
                        {"tool": "write_file", "arguments": {"path": "note.txt", "content": "{{SERVICE_TOKEN}}"}},
                        {"tool": "http_request", "arguments": {"url": "{url}?{{MISSING}}"}},
                    ]
                },
                {"say": "The service said {results.http_request.body}"},
            ],
        },
    ],
    "otherwise": [{"say": "?"}],
}


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    script = tmp_path / "replies.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    return {"backend": "script", "script": script, **more}


async def said(services: Services, message: str, **more: Any) -> TurnResult:
    sent = await services.chats.send(Send(message=message, **more), THE_LOCAL_USER)
    return await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 30)


def statuses(result: TurnResult) -> dict[str, str]:
    return {call.name: str(call.status) for call in result.tool_calls}


def test_a_workflow_is_drafted_edited_run_with_approval_and_looked_at_in_one_conversation(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")

    async def journey() -> None:
        async with engine(tmp_path / "data", **settings(tmp_path)) as services:
            await services.repos.add(str(repo.path), "local")
            drafted = await said(services, "draft greetings", workspace=str(repo.path), message_id="m1")
            assert drafted.success, drafted
            assert drafted.content == "Version 2 has two blocks."
            chat = await services.chats.get(drafted.chat_id, THE_LOCAL_USER)
            assert chat.workflow_id is not None
            checkpoints = await services.chats.checkpoints(chat.id, THE_LOCAL_USER)
            assert [(one.version, one.why) for one in checkpoints] == [(2, "two are better"), (1, "")]
            assert all(one.message_id == "m1" for one in checkpoints)

            sent = await services.chats.send(Send(message="run it", chat_id=chat.id), THE_LOCAL_USER)
            await until(services, sent.turn_id, is_a(NeedsApproval))
            assert await services.queries.runs(kind="plan") == []
            ((wait,),) = [row.waits for row in await services.runs.waits()]
            await services.runs.answer(wait.id, "approve", "local")
            started = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 30)
            assert statuses(started) == {"run_workflow": "success", "get_workflow_run": "success"}
            (row,) = await services.queries.runs(kind="plan")
            assert (row.session_id, row.parent_run_id) == (chat.id, sent.turn_id)
            plan = await finished(services, row.id)
            assert plan["status"] == "succeeded"
            assert {"hello.txt", "ahoy.txt"} <= repo.files(plan["targetBranch"])

            looked = await said(services, f"look at {row.id}", chat_id=chat.id)
            assert looked.content == "It is succeeded."
            assert statuses(looked) == {"get_plan_status": "success", "get_plan_logs": "success"}

    run(journey())


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_a_mode_that_only_looks_runs_nothing(tmp_path: Path, mode: str) -> None:
    repo = make_repo(tmp_path / "repo")

    async def journey() -> None:
        async with engine(tmp_path / "data", **settings(tmp_path)) as services:
            await services.repos.add(str(repo.path), "local")
            result = await said(services, "draft, then run it", workspace=str(repo.path), mode=mode)
            wanted = {"ask": CallStatus.ERROR, "plan": CallStatus.SUCCESS}[mode]
            assert statuses(result)["create_workflow"] == wanted
            other = await said(services, "ask http://127.0.0.1:1/", workspace=str(repo.path), mode=mode)
            assert set(statuses(other).values()) == {"error"}
            assert not (repo.path / "note.txt").exists()

    run(journey())


def files_with(secret: str, *places: Path) -> list[Path]:
    forms = [secret.encode(), base64.b64encode(secret.encode())[:-4]]
    return [
        path
        for place in places
        for path in place.rglob("*")
        if path.is_file() and not path.is_symlink() and any(form in path.read_bytes() for form in forms)
    ]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A service that says everything it was told."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = json.dumps({"you said": head.decode(), "in base64": base64.b64encode(head).decode()}).encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
    writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()
    received.append(head.decode())


received: list[str] = []


def test_a_secret_is_used_and_found_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SOME_SERVICE_TOKEN", PLANTED_IN_HOST)
    repo = make_repo(tmp_path / "repo")
    data = tmp_path / "data"
    caplog.set_level("DEBUG")
    received.clear()

    async def journey() -> str:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, engine(data, **settings(tmp_path, http_allow=(f"127.0.0.1:{port}",))) as services:
            await services.repos.add(str(repo.path), "local")
            await services.credentials.set_value(THE_LOCAL_USER, "SERVICE_TOKEN", SECRET)
            url = f"http://127.0.0.1:{port}/"
            result = await said(
                services, f"ask {url}", workspace=str(repo.path), on_approval=OnApproval.RUN, headless=True
            )
            by_name: dict[str, list[Any]] = {}
            for call in result.tool_calls:
                by_name.setdefault(call.name, []).append(call)
            first, second = by_name["http_request"]
            assert (first.status, second.status) == ("success", "error")
            assert "{{MISSING}}" in second.error
            assert "Bearer {{SERVICE_TOKEN}}" in first.result["body"]["you said"]
            assert by_name["run_shell"][0].result["output"].endswith(" was there\n")
            await drafted_and_run(services, repo)
            shown = [result, *await services.chats.messages(result.chat_id, THE_LOCAL_USER)]
            events = await services.queries.events(result.turn_id)
            alive = kept(data, living())
            assert not [one for one in alive if SECRET.encode() in one.environ or SECRET in one.command]
            exported = await services.chats.export(result.chat_id, THE_LOCAL_USER)
            return repr(shown) + repr(events) + exported.decode()

    dump = run(journey())
    assert f"Bearer {SECRET}" in received[0]
    assert (repo.path / "note.txt").read_text() == "{{SERVICE_TOKEN}}"
    with sqlite3.connect(data / "pilothouse.db") as database:
        dump += "\n".join(database.iterdump())
    dump += caplog.text
    for secret in (SECRET, PLANTED_IN_HOST):
        assert secret not in dump
        assert json.dumps(secret)[1:-1] not in dump
        assert base64.b64encode(secret.encode()).decode()[:-4] not in dump
        assert quote(secret, safe="") not in dump
        assert files_with(secret, data, repo.path) == []


async def drafted_and_run(services: Services, repo: Repo) -> None:
    """A plan whose command prints its environment: it was given nothing."""
    drafted = await said(services, "draft", workspace=str(repo.path))
    await said(services, "run it", chat_id=drafted.chat_id, on_approval=OnApproval.RUN)
    (row,) = await eventually(lambda: services.queries.runs(kind="plan"), bool)
    plan = await finished(services, row.id)
    logs = await services.queries.node_logs(plan["planId"], "hello", phase="work")
    assert "PILOTHOUSE_NODE=hello" in logs["text"]
    assert SECRET not in logs["text"]
    assert PLANTED_IN_HOST not in logs["text"]
