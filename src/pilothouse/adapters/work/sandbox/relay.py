"""Carries connections of a sandboxed command to the endpoints it may reach, from outside its network namespace.

Owns a process beside the command: it takes listeners that were made inside, connects to their endpoints from outside,
and copies bytes. It knows no protocol and no names but those it was given, so there is nothing to talk it into. It
ends at once when the command does. Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

from pilothouse.adapters.work.sandbox.policy import Endpoint

_CHUNK = 1 << 16
_CONNECT_WITHIN = 30.0
_READY = b"r"


class NoRelay(OSError):
    """Raised when the relay did not start."""


def start() -> socket.socket:
    """Start it in the network of the caller; to be called before that is left. Answers the channel to it.

    It is no child of the caller's, so that a program which waits for all its children does not wait for it; whoever
    reaps the tree of the command adopts it.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:
                ours.close()
                _live(theirs, command)
        finally:
            os._exit(0)
    theirs.close()
    os.waitpid(child, 0)
    if ours.recv(1) != _READY:
        raise NoRelay("the relay of allowed connections did not start")
    return ours


def hand_over(channel: socket.socket, listeners: Iterable[tuple[Endpoint, socket.socket]]) -> None:
    """Give listeners to the relay, which serves once it has all."""
    for endpoint, listener in listeners:
        with listener:
            socket.send_fds(channel, [json.dumps(endpoint).encode("ascii")], [listener.fileno()])
    channel.close()


def _live(channel: socket.socket, command: int) -> NoReturn:
    try:
        for polite in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(polite, signal.SIG_IGN)  # the command may have things to say until it ends
        lifetime = os.pidfd_open(command)
        channel.send(_READY)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.chdir("/")
        _serve(_receive(channel), lifetime)
    finally:
        os._exit(0)


def _receive(channel: socket.socket) -> dict[int, tuple[socket.socket, Endpoint]]:
    listeners: dict[int, tuple[socket.socket, Endpoint]] = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 12, 1)
        if not message:
            channel.close()
            return listeners
        listener = socket.socket(fileno=descriptors[0])
        listener.setblocking(False)
        listeners[listener.fileno()] = listener, Endpoint(*json.loads(message))


def _serve(listeners: dict[int, tuple[socket.socket, Endpoint]], lifetime: int) -> None:
    poll = select.poll()
    for number in (lifetime, *listeners):
        poll.register(number, select.POLLIN)
    while True:
        ready = {number for number, _ in poll.poll()}
        if lifetime in ready:
            return
        for number in ready:
            listener, endpoint = listeners[number]
            with suppress(OSError):
                client, _ = listener.accept()
                client.setblocking(True)
                threading.Thread(target=_carry, args=(client, endpoint), daemon=True).start()


def _carry(client: socket.socket, endpoint: Endpoint) -> None:
    with client:
        try:
            server = socket.create_connection(endpoint, _CONNECT_WITHIN)
        except OSError:
            return
        with server:
            server.settimeout(None)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        source.shutdown(socket.SHUT_RD)
