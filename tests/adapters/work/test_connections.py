"""A client of the warden that reads slowly, or not at all."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from pilothouse.adapters.work.connections import Connection, peer_uid
from pilothouse.adapters.work.protocol import Lines, Message, exit_dict


class Pair:
    """A connection of a warden and the client at its other end."""

    def __init__(self) -> None:
        ours, self.client = socket.socketpair()
        self.client.settimeout(5)
        self.selector = selectors.DefaultSelector()
        self.requests: list[Message] = []
        self.closed: list[Connection] = []
        self.connection = Connection(ours, self.selector, lambda _, r: self.requests.append(r), self.closed.append)

    def turn(self) -> None:
        """One turn of the loop."""
        for event, mask in self.selector.select(0):
            event.data(mask)

    def receive(self, count: int) -> list[Message]:
        lines = Lines()
        found: list[Message] = []
        while len(found) < count:
            self.turn()
            found += lines.feed(self.client.recv(1 << 16))
        return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.connection.close()
    made.client.close()
    made.selector.close()


def test_growth_is_merged_while_the_client_does_not_read(pair: Pair) -> None:
    pair.connection.follow("k")
    for to in range(1, 200_001):
        pair.connection.grew("k", to, 2 * to)
    pair.connection.ended("k", exit_dict("exited", status=0))
    received: list[Message] = []
    while not received or received[-1]["ev"] != "ended":
        received += pair.receive(1)
    assert len(received) < 20_000
    assert [message["ev"] for message in received].count("ended") == 1


def test_what_is_not_followed_is_not_told(pair: Pair) -> None:
    pair.connection.follow("k")
    pair.connection.unfollow("k")
    pair.connection.grew("k", 1, 0)
    pair.connection.ended("other", exit_dict("lost"))
    pair.connection.send({"re": 1})
    assert pair.receive(1) == [{"re": 1}]


def test_a_connection_is_closed_after_its_last_words(pair: Pair) -> None:
    pair.connection.send({"text": "x" * 5_000_000})
    pair.connection.send({"ev": "fenced"})
    pair.connection.close_after_sending()
    assert pair.receive(2)[1] == {"ev": "fenced"}
    pair.turn()
    assert pair.client.recv(1) == b""
    assert pair.closed == [pair.connection]


def test_nonsense_closes_the_connection(pair: Pair) -> None:
    pair.client.sendall(b'{"op":"ping"}\nnonsense\n')
    pair.turn()
    assert pair.closed == [pair.connection]


def test_a_peer_is_known_by_its_uid(pair: Pair) -> None:
    assert peer_uid(pair.client) >= 0
