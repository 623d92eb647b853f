"""Where the data directory is, when nobody says."""

from __future__ import annotations

import os
from pathlib import Path


def configured_data_dir() -> Path:
    """The data directory that the settings name: environment, ``.env``, ``config.toml``, default.

    The settings are asked only when one of the files is there: they take longer to import than most of what follows.
    """
    given = os.environ.get("PILOTHOUSE_DATA_DIR")
    if given:
        return absolute(Path(given))
    import platformdirs  # noqa: PLC0415 - only without a word from the environment, and it takes a while

    config = os.environ.get("PILOTHOUSE_CONFIG") or platformdirs.user_config_path(
        "pilothouse", appauthor=False
    ).joinpath("config.toml")
    if Path(".env").is_file() or Path(config).is_file():
        from pilothouse.settings import read_settings  # noqa: PLC0415 - see above

        return absolute(read_settings().data_dir)
    return Path(platformdirs.user_data_dir("pilothouse", appauthor=False))


def absolute(path: Path) -> Path:
    return path.expanduser().absolute()
