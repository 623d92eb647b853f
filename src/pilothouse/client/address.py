"""Where a server is and how one comes in: a URL and a key, or the owner of a data directory at its Unix socket.

An owner that is gone is looked for anew, and started where there is none: by whatever would start one at first.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

from pilothouse.client.owners import find_owner, live_owner
from pilothouse.client.places import absolute, configured_data_dir
from pilothouse.owner import socket_path

SUCCESSOR_PATIENCE = 1.0
"""Seconds a new owner is given to appear by itself before one is started."""
_POLL = 0.05

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """``data_dir`` is None where there is a ``url``. ``headers`` go with every request."""

    url: str
    headers: dict[str, str]
    data_dir: Path | None = None

    @property
    def socket_path(self) -> str | None:
        return None if self.data_dir is None else os.fspath(socket_path(self.data_dir))

    @property
    def place(self) -> str:
        """What it is for people: the URL, or the socket."""
        return self.socket_path or self.url

    def find(self, *, lost: bool = False) -> None:
        """Make sure that somebody is there, as far as that is ours to do. ``lost``: somebody was, and a successor is
        given a moment to come by itself. Blocks, at most for the seconds that an owner may take to start. Raises
        ``Unavailable``."""
        if self.data_dir is None:
            return
        deadline = time.monotonic() + SUCCESSOR_PATIENCE
        while lost and time.monotonic() < deadline:
            if live_owner(self.data_dir) is not None:
                return
            time.sleep(_POLL)
        find_owner(self.data_dir, log.warning)


def address_of(url: str | None, api_key: str | None, data_dir: Path | str | None) -> Address:
    """Without ``url``: the owner of ``data_dir``, or of the one that the settings name."""
    headers = {"User-Agent": "pilothouse-python"} | ({"X-API-Key": api_key} if api_key else {})
    if url is not None:
        return Address(url.rstrip("/"), headers)
    place = configured_data_dir() if data_dir is None else absolute(Path(data_dir))
    return Address("http://localhost", headers, place)
