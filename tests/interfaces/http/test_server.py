"""A real server: both doors at once, who is at the other end, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import stat
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from tests.interfaces.http.doors import SSE, events, run, served
from tests.interfaces.http.test_plans import refusal
from tests.support.services import PATIENCE_S, ended, plan, submit

from pilothouse.errors import BadInput, Unavailable
from pilothouse.interfaces.http import server
from pilothouse.interfaces.http.server import serve
from pilothouse.interfaces.http.sockets import bind_tcp, bind_unix


def test_both_doors_lead_to_the_same_server(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at, at.browser() as browser:
            created = await at.client.post("/api/plans", json={"plan": plan("write a")})
            refusal(await browser.get("/api/plans"), 401, "no_credential")
            assert (await browser.get(f"/login?token={at.guard.new_token()}")).status_code == 303
            listed = (await browser.get("/api/plans")).json()["plans"]
            assert [found["id"] for found in listed] == [created.json()["id"]]
            foreign = {"sec-fetch-site": "cross-site"}
            refusal(await browser.post("/api/stop-everything", headers=foreign), 403, "denied")
            refusal(await browser.get("/api/plans", headers={"host": "evil.example"}), 403, "denied")
            refusal(await browser.get("/api/plans", headers={"origin": "http://evil.example"}), 403, "denied")
            async with browser.stream("GET", "/api/events") as response:
                assert await anext(events(response)) == ": connected"
            await ended(at.services, created.json()["id"])

    run(journey())


def test_the_socket_is_for_its_user_only_and_replaces_a_stale_one(tmp_path: Path) -> None:
    async def journey() -> None:
        stale = bind_unix(tmp_path / "owner.sock")
        stale.close()
        async with served(tmp_path) as at:
            assert stat.S_IMODE(at.socket.stat().st_mode) == 0o600
            assert (await at.client.get("/healthz")).status_code == 200
        assert not at.socket.exists()

    run(journey())


def test_what_is_no_socket_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "owner.sock").write_text("precious", encoding="utf-8")
    with pytest.raises(Unavailable, match=r"owner\.sock"):
        bind_unix(tmp_path / "owner.sock")
    assert (tmp_path / "owner.sock").read_text(encoding="utf-8") == "precious"


def test_the_application_is_told_who_is_at_the_other_end(tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(dict(scope["state"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def journey() -> None:
        stop, ports = asyncio.Event(), asyncio.Queue[int | None]()
        path = tmp_path / "s"
        ready = ports.put_nowait
        task = asyncio.create_task(serve(app, app, socket_path=path, host="127.0.0.1", port=0, ready=ready, stop=stop))
        port = await ports.get()
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path))) as client:
            await client.get("http://localhost/")
        async with httpx.AsyncClient() as client:
            await client.get(f"http://127.0.0.1:{port}/")
        stop.set()
        await task

    run(journey())
    assert seen[0]["peer_uid"] == Path("/proc/self").stat().st_uid if Path("/proc/self").exists() else True
    assert "peer_uid" not in seen[1]


def test_without_a_host_only_the_unix_socket_is_served(tmp_path: Path) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody asks")

    async def journey() -> None:
        stop, ports = asyncio.Event(), list[int | None]()
        stop.set()
        await serve(app, app, socket_path=tmp_path / "s", host=None, port=0, ready=ports.append, stop=stop)
        assert ports == [None]

    run(journey())


def test_a_port_in_use_is_said_clearly_and_nothing_is_served(tmp_path: Path) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody asks")

    async def journey(port: int) -> None:
        await serve(
            app,
            app,
            socket_path=tmp_path / "s",
            host="127.0.0.1",
            port=port,
            ready=lambda _: pytest.fail("it is not ready"),
            stop=asyncio.Event(),
        )

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Unavailable, match=r"in use.*--port"):
        run(journey(taken.getsockname()[1]))
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("host", "error"), [("no-such-host.invalid", BadInput), ("192.0.2.1", Unavailable)])
def test_an_address_that_is_not_ours_is_refused(host: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        bind_tcp(host, 0)


def test_open_streams_end_properly_when_the_server_stops(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at, at.browser() as browser:
            run_id = await submit(at.services, "hang")
            await browser.get(f"/login?token={at.guard.new_token()}")
            async with (
                at.client.stream("GET", f"/api/runs/{run_id}/events", headers=SSE) as one,
                browser.stream("GET", "/api/events") as other,
            ):
                streams = [events(one), events(other)]
                for stream in streams:
                    await anext(stream)
                at.stop.set()
                # No error: the server said that this was all, instead of breaking off. And well before it gives up on
                # streams that do not end.
                for stream in streams:
                    async for _ in stream:
                        pass
            async with asyncio.timeout(PATIENCE_S):
                await at.task
            await at.services.runs.control(run_id, "cancel")
            await ended(at.services, run_id)

    run(journey())


def test_a_request_in_progress_is_answered_when_the_server_stops(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def journey() -> None:
        stop = asyncio.Event()
        path = tmp_path / "s"
        listening = asyncio.Event()
        task = asyncio.create_task(
            serve(app, app, socket_path=path, host=None, port=0, ready=lambda _: listening.set(), stop=stop)
        )
        await listening.wait()
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), timeout=PATIENCE_S) as client:
            asked = asyncio.create_task(client.get("http://localhost/"))
            await begun.wait()
            stop.set()
            await asyncio.sleep(0)
            go_on.set()
            assert (await asked).text == "done"
        await task

    run(journey())


def test_signals_are_left_alone(tmp_path: Path) -> None:
    async def journey() -> None:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        async with served(tmp_path) as at:
            await at.client.get("/healthz")
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

    run(journey())


async def _answer_to(tmp_path: Path, head: bytes) -> bytes:
    """What a connection that sends ``head`` and then nothing more gets, until it is closed."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the request is not complete")

    stop, ports = asyncio.Event(), asyncio.Queue[int | None]()
    task = asyncio.create_task(
        serve(app, app, socket_path=tmp_path / "s", host="127.0.0.1", port=0, ready=ports.put_nowait, stop=stop)
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", await ports.get())
    try:
        writer.write(head)
        async with asyncio.timeout(8):
            return await reader.read()
    finally:
        writer.close()
        stop.set()
        await task


def test_a_head_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    head = b"GET / HTTP/1.1\r\nX-Long: " + b"a" * (server.MAX_HEAD + 1)
    assert run(_answer_to(tmp_path, head)).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_who_connects_and_asks_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.05)
    assert run(_answer_to(tmp_path, head)) == b""
