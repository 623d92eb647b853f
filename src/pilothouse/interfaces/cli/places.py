"""Where the data directory of one invocation is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pilothouse.client.places import absolute, configured_data_dir

__all__ = ["Session", "absolute"]


@dataclass(slots=True)
class Session:
    """One invocation. ``data_dir`` is None until an option or the default said it."""

    data_dir: Path | None = None

    def place(self) -> Path:
        """The data directory, absolute: of the option, else of the settings."""
        if self.data_dir is None:
            self.data_dir = configured_data_dir()
        return self.data_dir
