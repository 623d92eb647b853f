"""A client that waits, at a Unix socket: nothing is left open, whatever becomes of the other side."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import httpx
import pytest

from pilothouse.client.transport import SocketTransport

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
WAIT_S = 10.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


@contextmanager
def server(path: str, *connections: list[bytes]) -> Iterator[None]:
    """Takes so many connections one after another; on each it gives so many answers, then closes it."""

    def serve(listening: socket.socket) -> None:
        for answers in connections:
            connected, _ = listening.accept()
            with connected:
                connected.settimeout(WAIT_S)
                for answer in answers:
                    read_request(connected)
                    connected.sendall(answer)

    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(WAIT_S)
        listening.bind(path)
        listening.listen()
        thread = Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield
        finally:
            thread.join(WAIT_S)


def read_request(connected: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        head += connected.recv(1 << 16)


def client(path: str) -> closing[httpx.Client]:
    return closing(httpx.Client(transport=SocketTransport(path), base_url="http://here", timeout=WAIT_S))


def test_a_refused_connection_is_closed(path: str) -> None:
    with server(path):
        pass
    with warnings.catch_warnings(record=True) as complaints, client(path) as http:
        warnings.simplefilter("always")
        with pytest.raises(httpx.ConnectError, match="refused"):
            http.get("/")
        gc.collect()
    assert [str(complaint.message) for complaint in complaints] == []


def test_a_connection_is_used_again_and_one_that_was_closed_is_not(path: str) -> None:
    with client(path) as http, server(path, [ANSWER, ANSWER], [ANSWER]):
        assert [http.get("/").text for _ in range(3)] == ["hi", "hi", "hi"]


def test_what_breaks_off_is_told_from_what_takes_too_long(path: str) -> None:
    with client(path) as http:
        with (
            server(path, [b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf"]),
            pytest.raises(httpx.RemoteProtocolError),
        ):
            http.get("/")
        with server(path, [b""]), pytest.raises(httpx.RemoteProtocolError):
            http.get("/")
        with socket.socket(socket.AF_UNIX) as silent:
            Path(path).unlink()
            silent.bind(path)
            silent.listen()
            with pytest.raises(httpx.ReadTimeout):
                http.get("/", timeout=0.05)
