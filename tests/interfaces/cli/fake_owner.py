"""An owner for tests of clients: the routes they use, over a Unix socket, with a story instead of an engine.

``FakeOwner`` runs in a thread of the test. As a program (``fake_owner.py owner --data-dir DIR``) it is what a client
starts in the background: it takes the directory's lock, or ends when another one has it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from tests.interfaces.cli.story import Story

from pilothouse.core.plan.view import mermaid, node_detail, plan_brief
from pilothouse.core.run.agents import AgentInfo, ModelInfo
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.owner import Owner, owning, private_dir, read_owner, socket_path, write_owner

Answer = tuple[int, Any]
VERSION = "0.1.0"


class FakeOwner:
    """``stories`` are the plans there are, newest last. ``cut``: the event number after which the next stream breaks,
    once. ``answers`` replace what a route would answer; ``asked`` is every request, in order."""

    def __init__(self, data_dir: Path, *, version: str = VERSION, mode: str = "background") -> None:
        private_dir(data_dir)
        self.data_dir = data_dir
        self.version, self.mode = version, mode
        self.stories: dict[str, Story] = {}
        self.submitted: Story | None = None
        self.on_stop: Callable[[Story], object] = Story.stop
        self.cut: int | None = None
        self.repeat_from: int | None = None
        self.answers: dict[tuple[str, str], Answer] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.output: dict[str, str] = {}
        self.changed = threading.Condition()
        self.closing = False
        self.stepped_down = threading.Event()
        self.socket = str(socket_path(data_dir))

    def tell(self, change: Callable[[Story], object], plan_id: str | None = None) -> None:
        with self.changed:
            change(self.stories[plan_id] if plan_id else next(reversed(self.stories.values())))
            self.changed.notify_all()

    def paths(self, method: str) -> list[str]:
        return [path for verb, path, _ in self.asked if verb == method]

    @contextlib.contextmanager
    def serving(self) -> Iterator[FakeOwner]:
        Path(self.socket).unlink(missing_ok=True)
        server = _Server(self.socket, _Handler)
        server.fake = self
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        write_owner(self.data_dir, Owner(os.getpid(), self.version, self.socket, self.mode))
        try:
            yield self
        finally:
            with self.changed:
                self.closing = True
                self.changed.notify_all()
            server.shutdown()
            server.server_close()
            thread.join()
            (self.data_dir / "owner.json").unlink(missing_ok=True)
            Path(self.socket).unlink(missing_ok=True)

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        if (method, path) in self.answers:
            return self.answers[(method, path)]
        for verb, pattern, act in ROUTES:
            found = re.fullmatch(pattern, path)
            if verb == method and found:
                return act(self, query, body, *map(unquote, found.groups()))
        return 404, {"detail": "there is no such route", "code": "not_found", "status": 404}

    def find(self, run_id: str) -> Story:
        if run_id not in self.stories:
            raise KeyError(run_id)
        return self.stories[run_id]


def _ready(fake: FakeOwner, query: Any, body: Any) -> Answer:
    return 200, {"status": "ready", "version": fake.version}


def _step_down(fake: FakeOwner, query: Any, body: Any) -> Answer:
    if fake.mode != "background":
        return 409, {"detail": "somebody serves this", "code": "refused", "status": 409}
    (fake.data_dir / "owner.json").unlink(missing_ok=True)
    fake.stepped_down.set()
    return 200, {}


def _submit(fake: FakeOwner, query: Any, body: Any) -> Answer:
    assert fake.submitted is not None
    fake.stories[fake.submitted.id] = fake.submitted
    return 201, fake.submitted.view()


def _plans(fake: FakeOwner, query: Any, body: Any) -> Answer:
    rows = [story.row for story in reversed(fake.stories.values()) if story.row]
    return 200, {"plans": [plan_brief(row) for row in rows][: int(query.get("limit", 100))]}


def _row(story: Story) -> Any:
    assert story.row is not None
    return {**msgspec.to_builtins(story.row), "status": story.row.lifecycle.lower()}


def _runs(fake: FakeOwner, query: Any, body: Any) -> Answer:
    rows = [_row(story) for story in reversed(fake.stories.values())]
    begin = int(query.get("before", 0))
    page = rows[begin : begin + int(query.get("limit", 100))]
    more = {"next": str(begin + len(page))} if begin + len(page) < len(rows) else {}
    return 200, {"runs": page, **more}


def _control(fake: FakeOwner, query: Any, body: Any, run_id: str, verb: str) -> Answer:
    story = fake.find(run_id)
    if verb == "stop":
        with fake.changed:
            fake.on_stop(story)
            fake.changed.notify_all()
    return 200, _row(story)


def _logs(fake: FakeOwner, query: Any, body: Any, run_id: str, node: str) -> Answer:
    text = fake.output.get(node, "")
    if "tail" in query:
        text = "\n".join(text.splitlines()[-int(query["tail"]) :])
    return 200, {"planId": run_id, "node": node, "phase": query.get("phase", "all"), "text": text, "parts": []}


def _node(fake: FakeOwner, query: Any, body: Any, run_id: str, node: str) -> Answer:
    found = fake.find(run_id).state.find(node)
    assert found is not None
    return 200, node_detail(fake.find(run_id).state, found)


def _events(fake: FakeOwner, query: Any, body: Any, run_id: str) -> Answer:
    events = [json.loads(data) for _, data in fake.find(run_id).wire(int(query.get("after", 0)))]
    limit = int(query.get("limit", 5))
    more = {"next": events[limit - 1]["seq"]} if len(events) > limit else {}
    return 200, {"events": events[:limit], **more}


AGENTS = msgspec.to_builtins(
    [
        AgentInfo(
            name="claude",
            title="Claude Code",
            installed=False,
            install="npm i claude",
            problem="not installed; install it with: npm i claude",
        ),
        AgentInfo(
            name="codex",
            title="Codex",
            installed=True,
            version="0.169.0",
            path="/bin/codex",
            logged_in=True,
            login="OPENAI_API_KEY",
            resumes=True,
            models=2,
        ),
    ]
)
MODELS = msgspec.to_builtins([ModelInfo(id="gpt-5", agent="codex", vendor="openai", default=True)])

KEY = {
    "id": "4hK0vQ2mYtB",
    "name": "nightly",
    "user": "local",
    "scopes": ["run"],
    "createdAt": 1767225600000,
    "lastUsedAt": None,
}

_ID = "([^/]+)"
ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", "/readyz", _ready),
    ("POST", "/api/owner/step-down", _step_down),
    ("POST", "/api/plans", _submit),
    ("GET", "/api/plans", _plans),
    ("GET", f"/api/plans/{_ID}", lambda fake, query, body, plan: (200, fake.find(plan).view())),
    (
        "GET",
        f"/api/plans/{_ID}/graph",
        lambda fake, query, body, plan: (200, {"mermaid": mermaid(fake.find(plan).state)}),
    ),
    ("DELETE", f"/api/plans/{_ID}", lambda fake, query, body, plan: (204, None)),
    ("POST", f"/api/plans/{_ID}/retry", lambda fake, query, body, plan: (200, fake.find(plan).view())),
    ("POST", f"/api/plans/{_ID}/nodes/{_ID}/cancel", lambda fake, query, body, plan, node: (200, {})),
    ("POST", f"/api/plans/{_ID}/groups/cancel", lambda fake, query, body, plan: (200, {})),
    ("GET", f"/api/plans/{_ID}/nodes/{_ID}", _node),
    ("GET", f"/api/plans/{_ID}/nodes/{_ID}/logs", _logs),
    ("GET", "/api/runs", _runs),
    ("GET", f"/api/runs/{_ID}", lambda fake, query, body, run: (200, _row(fake.find(run)))),
    ("GET", f"/api/runs/{_ID}/events", _events),
    ("POST", f"/api/runs/{_ID}/([a-z]+)", _control),
    ("GET", "/api/agents", lambda fake, query, body: (200, {"agents": AGENTS})),
    ("GET", "/api/models", lambda fake, query, body: (200, {"models": MODELS})),
    ("GET", "/api/approvals", lambda fake, query, body: (200, {"approvals": []})),
    ("GET", "/api/keys", lambda fake, query, body: (200, {"keys": [KEY]})),
    ("POST", "/api/keys", lambda fake, query, body: (201, {**KEY, **body, "key": "pk_secret"})),
    ("DELETE", f"/api/keys/{_ID}", lambda fake, query, body, key: (204, None)),
    ("GET", "/api/repos", lambda fake, query, body: (200, {"repos": [{"path": "/repo"}]})),
    ("POST", "/api/repos", lambda fake, query, body: (201, {"path": body["path"]})),
    ("DELETE", "/api/repos", lambda fake, query, body: (204, None)),
)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    fake: FakeOwner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_GET

    def _answer(self) -> None:
        fake = self.server.fake
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        fake.asked.append((self.command, self.path, body))
        streams = self.headers.get("Accept") == "text/event-stream"
        if streams and ("GET", url.path) not in fake.answers:
            self._stream(fake, url.path.split("/")[3], int(self.headers["Last-Event-ID"]))
            return
        try:
            status, found = fake.route(self.command, url.path, query, body)
        except KeyError as error:
            status, found = 404, {"detail": f"there is no run {error}", "code": "not_found", "status": 404}
        data = b"" if found is None else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, fake: FakeOwner, run_id: str, after: int) -> None:
        story = fake.stories[run_id]
        if after >= len(story.recorded) and story.state.common.lifecycle in TERMINAL:
            self.send_response(204)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b": connected\n\n")
        if fake.repeat_from is not None:
            after, fake.repeat_from = fake.repeat_from, None
        while True:
            with fake.changed:
                while not fake.closing and after >= len(story.recorded):
                    fake.changed.wait(timeout=30)
                events = story.wire(after)
            if fake.closing and not events:
                self.close_connection = True
                return
            for seq, data in events:
                self._chunk(b"id: %d\ndata: %s\n\n" % (seq, data))
                after = seq
                if fake.cut is not None and seq >= fake.cut:
                    fake.cut = None
                    self.close_connection = True  # in the middle: no last chunk
                    return
            if story.state.common.lifecycle in TERMINAL:
                self.wfile.write(b"0\r\n\r\n")
                return

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def main() -> int:
    data_dir = Path(sys.argv[sys.argv.index("--data-dir") + 1])
    if os.environ.get("FAKE_OWNER_FAILS"):
        sys.stderr.write("12:00 INFO looking\nerror: the database is from the future\n12:00 INFO ending\n")
        return 1
    with owning(data_dir) as mine:
        if not mine:
            (data_dir / "gave-way").touch()
            return 0
        fake = FakeOwner(data_dir)
        signal.signal(signal.SIGTERM, lambda *_: fake.stepped_down.set())
        with (data_dir / "owners").open("a") as file:
            file.write(f"{os.getpid()}\n")
        with fake.serving():
            fake.stepped_down.wait(timeout=60)
    assert read_owner(data_dir) is None
    return 0


if __name__ == "__main__":
    sys.exit(main())
