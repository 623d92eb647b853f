"""The events of a run as JSON lines, as they come: ``runs events --follow``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pilothouse.client.sse import Message
from pilothouse.errors import PilothouseError
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.feed import Ended, Feed
from pilothouse.interfaces.cli.printing import print_json_line

_PATIENCE = 1.0


def print_events(client: Client, data_dir: Path, run_id: str, after: int) -> None:
    """Until the run has ended. Raises what the feed gives up with."""
    with Feed(client, data_dir, run_id, after) as feed:
        while not isinstance(item := feed.next(_PATIENCE), Ended):
            if isinstance(item, PilothouseError):
                raise item
            if isinstance(item, Message):
                print_json_line(json.loads(item.data))
                sys.stdout.flush()
