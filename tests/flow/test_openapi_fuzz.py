"""Every route of the OpenAPI document, asked what fits the document and what does not: none of it is a server error.

Schemathesis makes the requests; they go through a real server at its TCP door.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import threading
from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from tests.interfaces.http.doors import Served, served
from tests.interfaces.http.keyed import key_of
from tests.interfaces.http.talking import talking
from tests.support.services import PATIENCE_S, ended, submit

from pilothouse.core.auth.principals import LOCAL, THE_LOCAL_USER, Scope
from pilothouse.core.workflow.document import Workflow
from pilothouse.engine.chats.values import Send
from pilothouse.interfaces.http.headless_errors import PATH as HEADLESS

EXAMPLES = int(os.environ.get("TEST_FUZZ", "5"))
"""Of each route, in each of the four ways."""
SETTINGS = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
KEYS = 40
UNKNOWN = frozenset({"mode", "command", "workspace", "workflowName", "toolResults", "agent", "kind"})
"""Fields that take few values, which are hardly ever guessed."""
EXPECTED = {("POST", HEADLESS, 504)}
"""Not failures of the server: a turn may be given less time than it takes."""


class Fuzzed:
    """A server in a thread of its own, with something of everything in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._at: Served | None = None
        self.url = ""
        self.keys: Iterator[str] = iter(())
        """One after the other: each may be used so often only."""
        self.document: dict[str, Any] = {}

    async def _serve(self) -> None:
        async with served(self._folder, talking()) as at:
            self._at, self.url = at, f"http://127.0.0.1:{at.port}"
            self.keys = cycle([await key_of(at, LOCAL, Scope.ADMIN) for _ in range(KEYS)])
            self.document = _without_credentials(at.app.openapi())
            self._ready.set()
            await self._over.wait()

    def names(self) -> dict[str, str]:
        """Names of something of everything, made just now."""
        assert self._at is not None
        return asyncio.run_coroutine_threadsafe(_furnished(self._at), self._loop).result(PATIENCE_S)

    @contextlib.contextmanager
    def running(self) -> Iterator[Fuzzed]:
        self._thread.start()
        try:
            assert self._ready.wait(PATIENCE_S)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(PATIENCE_S)
            self._loop.close()


async def _furnished(at: Served) -> dict[str, str]:
    run_id = await submit(at.services, "write a")
    await ended(at.services, run_id)
    sent = await at.services.chats.send(Send(message="hello"), THE_LOCAL_USER)
    await at.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
    workflow = await at.services.workflows.create(Workflow(name="nightly"), THE_LOCAL_USER)
    return {
        "run_id": run_id,
        "plan_id": run_id,
        "node": "job1",
        "workflow_id": workflow.id,
        "workflowId": workflow.id,
        "chat_id": sent.chat_id,
        "chatId": sent.chat_id,
        "streamId": sent.turn_id,
        "turnId": sent.turn_id,
    }


def _without_credentials(document: dict[str, Any]) -> dict[str, Any]:
    """Of the routes: a made-up key would be refused before anything else is looked at."""
    document = copy.deepcopy(document)
    document["components"].pop("securitySchemes")
    for methods in document["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    return document


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    with Fuzzed(tmp_path_factory.mktemp("fuzz")).running() as found:
        yield found


@pytest.mark.timeout(60 * EXAMPLES)  # it takes ten seconds on an idle machine
@pytest.mark.parametrize("known", [False, True], ids=["names as they come", "names of what there is"])
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_a_server_error(server: Fuzzed, mode: GenerationMode, known: bool) -> None:
    schema = schemathesis.openapi.from_dict(server.document)
    there: set[str] = set()
    with requests.Session() as session:
        for found in schema.get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()
            there.add(operation.path)
            _fuzz(session, server, operation.as_strategy(generation_mode=mode), server.names() if known else {})
    assert there == server.document["paths"].keys()


def _fuzz(
    session: requests.Session, server: Fuzzed, cases: SearchStrategy[Case[Any]], names: Mapping[str, str]
) -> None:
    @SETTINGS
    @given(case=cases)
    def ask(case: Case[Any]) -> None:
        _ask(session, server, case, names)

    with contextlib.suppress(Unsatisfiable):  # nothing can be wrong with a request that has no parameters
        ask()


def _ask(session: requests.Session, server: Fuzzed, case: Case[Any], names: Mapping[str, str]) -> None:
    for part in (case.path_parameters, case.query, case.body):
        if names and isinstance(part, dict):
            _use(part, names)
    prepared = case.as_transport_kwargs(base_url=server.url)
    prepared["headers"] = {**prepared.get("headers", {}), "x-api-key": next(server.keys)}
    with session.request(**prepared, stream=True, timeout=PATIENCE_S, allow_redirects=False) as answered:
        unexpected = answered.status_code >= 500 and (case.method, case.path, answered.status_code) not in EXPECTED
        turned_away = answered.status_code in {401, 429} and not case.path.endswith("/login")
        assert not turned_away, "it did not come as far as it should"
        assert not unexpected, f"{answered.status_code} {answered.text[:500]}\n{case.as_curl_command()}"


def _use(given: dict[str, Any], names: Mapping[str, str]) -> None:
    """Names of what there is instead of made-up ones, and none of what would be refused before anything else."""
    for name in given.keys() & names.keys():
        given[name] = names[name]
    for name in given.keys() & UNKNOWN:
        del given[name]
