"""The owner of a data directory, as the command line talks to it."""

from __future__ import annotations

from pathlib import Path

from pilothouse.client import owners
from pilothouse.client.owners import log_file
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.door import note
from pilothouse.owner import Owner

__all__ = ["connect", "live_owner", "log_file"]


def connect(data_dir: Path | None) -> Client:
    """A client of the owner of a data directory, which is started in the background when there is none.

    Raises ``Unavailable``, quoting the end of the owner's log, when none comes to life.
    """
    assert data_dir is not None, "verbs are always handed a directory"
    return _client(data_dir, owners.find_owner(data_dir, note))


def live_owner(data_dir: Path) -> Client | None:
    """A client of the owner that answers there now; None without one, also while one is starting."""
    owner = owners.live_owner(data_dir)
    return None if owner is None else _client(data_dir, owner)


def _client(data_dir: Path, owner: Owner) -> Client:
    return Client(owner.socket, log=str(log_file(data_dir)))
