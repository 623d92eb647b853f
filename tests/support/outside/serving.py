"""An application on the loopback interface, in a thread of the test: for clients of this process and of others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

STARTS_WITHIN_S = 20.0


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """The application's address, while it is served."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="outside")
        thread.start()
        try:
            deadline = time.monotonic() + STARTS_WITHIN_S
            while not server.started:
                assert thread.is_alive() and time.monotonic() < deadline, "it does not start"
                time.sleep(0.002)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
