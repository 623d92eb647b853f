"""Where the data directory of one invocation is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Session:
    """One invocation. ``data_dir`` is None until an option or the default said it."""

    data_dir: Path | None = None

    def place(self) -> Path:
        """The data directory, absolute: of the option, else of the settings."""
        if self.data_dir is None:
            self.data_dir = configured_data_dir()
        return self.data_dir


def configured_data_dir() -> Path:
    """The data directory the settings name: environment, ``.env``, ``config.toml``, default.

    The settings are asked only when one of the files is there: they cost more to import than most verbs take.
    """
    given = os.environ.get("PILOTHOUSE_DATA_DIR")
    if given:
        return absolute(Path(given))
    import platformdirs

    config = os.environ.get("PILOTHOUSE_CONFIG") or platformdirs.user_config_path(
        "pilothouse", appauthor=False
    ).joinpath("config.toml")
    if Path(".env").is_file() or Path(config).is_file():
        from pilothouse.settings import read_settings

        return absolute(read_settings().data_dir)
    return Path(platformdirs.user_data_dir("pilothouse", appauthor=False))


def absolute(path: Path) -> Path:
    return path.expanduser().absolute()
