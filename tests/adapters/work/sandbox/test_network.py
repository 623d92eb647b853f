"""What a confined command reaches of the network, with servers on this machine's loopback as the world outside."""

from __future__ import annotations

import errno
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from tests.adapters.work.sandbox.setting import Setting

from pilothouse.core.plan.spec import Network
from pilothouse.errors import BadInput

GET = """
import os, socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(':')
    try:
        with socket.create_connection((host, int(port)), timeout=10) as server:
            server.sendall(b'hello')
            server.shutdown(socket.SHUT_WR)
            print(b''.join(iter(lambda: server.recv(1 << 16), b'')).decode())
    except OSError as error:
        print(type(error).__name__)
"""


class Shout(socketserver.StreamRequestHandler):
    """Answers everything it is told in capitals, once it has heard all."""

    def handle(self) -> None:
        self.wfile.write(self.rfile.read().upper())


class Servers(socketserver.ThreadingTCPServer):
    request_queue_size = 128


@contextmanager
def servers(count: int, host: str = "127.0.0.1") -> Iterator[list[int]]:
    """The ports of as many servers."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            server = stack.enter_context(Servers((host, 0), Shout))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            ports.append(server.server_address[1])
        yield ports


def get(setting: Setting, *wanted: str, network: Network = Network.FULL, addresses: Sequence[str] = ()) -> list[str]:
    """What each wanted address answers inside, or why it does not."""
    script = f"exec {sys.executable} - {' '.join(wanted)}"
    done = setting.run(script, stdin=GET, network=network, addresses=addresses)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_whole_network_is_there_where_nothing_else_is_said(setting: Setting) -> None:
    with servers(1) as [port]:
        assert get(setting, f"127.0.0.1:{port}") == ["HELLO"]


def test_no_server_is_reached_when_the_network_is_off(setting: Setting) -> None:
    with servers(1) as [port]:
        answers = get(setting, f"127.0.0.1:{port}", f"localhost:{port}", "192.0.2.1:80", network=Network.OFF)
    assert answers[0] == answers[1] == "ConnectionRefusedError"
    assert answers[2] == "OSError"


def test_no_datagram_leaves_when_the_network_is_off(setting: Setting) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        send = f"import socket; socket.socket(2, 2).sendto(b'x', {receiver.getsockname()!r})"
        done = setting.run(f'{sys.executable} -c "{send}"', network=Network.OFF)
        assert done.stderr == ""
        with pytest.raises(BlockingIOError):
            receiver.recv(1)


def test_a_command_has_a_loopback_of_its_own_when_the_network_is_off(setting: Setting) -> None:
    serve = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "c = socket.create_connection(s.getsockname()); s.accept()[0].sendall(b'x'); print(c.recv(1))"
    )
    assert setting.run(f'{sys.executable} -c "{serve}"', network=Network.OFF).stdout == "b'x'\n"


def test_only_what_is_listed_is_reached_when_the_network_is_limited(setting: Setting) -> None:
    with servers(2) as [listed, other]:
        answers = get(
            setting,
            *(f"127.0.0.1:{listed}", f"127.0.0.1:{other}", f"localhost:{listed}", "192.0.2.1:80"),
            network=Network.LIMITED,
            addresses=[f"http://127.0.0.1:{listed}/v1"],
        )
    assert answers == ["HELLO", "ConnectionRefusedError", "HELLO", "OSError"]


def test_a_listed_name_is_reached_by_its_name_and_no_other_is_known(setting: Setting) -> None:
    with servers(1) as [port]:
        name = socket.gethostname()
        try:
            socket.create_connection((name, port), timeout=5).close()
        except OSError:
            name = "localhost"  # the name of this machine leads elsewhere
        answers = get(
            setting, f"{name}:{port}", "example.com:80", network=Network.LIMITED, addresses=[f"{name}:{port}"]
        )
    assert answers == ["HELLO", "gaierror"]


def test_an_address_beside_the_loopback_is_carried_too(setting: Setting) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("needs an address beside the loopback (a network interface)")
        own = any_socket.getsockname()[0]
    with servers(1, own) as [port]:
        addresses = [f"http://{own}:{port}"]
        answers = get(setting, f"{own}:{port}", "192.0.2.1:80", network=Network.LIMITED, addresses=addresses)
    assert answers == ["HELLO", "OSError"]


def test_a_grandchild_is_limited_too_and_what_it_reaches_is_carried_whole(setting: Setting) -> None:
    size = 5_000_000
    with servers(2) as [listed, other]:
        (setting.worktree / "talk.py").write_text(
            f"""
import socket
server = socket.create_connection(('127.0.0.1', {listed}))
server.sendall(b'x' * {size})
server.shutdown(socket.SHUT_WR)
print(len(b''.join(iter(lambda: server.recv(1 << 16), b''))))
print(socket.socket().connect_ex(('127.0.0.1', {other})))
"""
        )
        done = setting.run(
            f"setsid sh -c '{sys.executable} talk.py' & wait",
            network=Network.LIMITED,
            addresses=[f"127.0.0.1:{listed}"],
        )
    assert done.stdout.split() == [str(size), str(errno.ECONNREFUSED)]


def test_a_hundred_connections_are_carried_at_once(setting: Setting) -> None:
    with servers(1) as [port]:
        talk = f"""
import socket
servers = [socket.create_connection(('127.0.0.1', {port})) for _ in range(100)]
for server in servers:
    server.sendall(b'hello')
    server.shutdown(socket.SHUT_WR)
print({{server.recv(100) for server in servers}})
"""
        done = setting.run(
            f"exec {sys.executable} -", stdin=talk, network=Network.LIMITED, addresses=[f"127.0.0.1:{port}"]
        )
    assert done.stdout == "{b'HELLO'}\n"


def test_the_relay_is_no_child_of_the_command(setting: Setting) -> None:
    wait = "import os\ntry: os.wait()\nexcept ChildProcessError: print('no child')"
    done = setting.run(f"exec {sys.executable} -", stdin=wait, network=Network.LIMITED, addresses=["127.0.0.1:1"])
    assert done.stdout == "no child\n"


def test_proxies_of_the_outside_are_not_named_where_they_cannot_be_reached(setting: Setting) -> None:
    setting.env |= {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "http://proxy:3128"}
    assert "proxy:3128" in setting.run("env").stdout
    assert "proxy:3128" not in setting.run("env", network=Network.LIMITED).stdout


@pytest.mark.parametrize("address", ["https://*.example.com", "example.com", "", "http://[2001:db8::1]/", "0.0.0.0:80"])
def test_an_address_that_cannot_be_let_through_is_refused(setting: Setting, address: str) -> None:
    with pytest.raises(BadInput):
        setting.run("true", network=Network.LIMITED, addresses=[address])
