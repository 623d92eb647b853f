"""Which vault a data directory has, and where the key of a new one goes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pilothouse.adapters.vault.file import FileVault
from pilothouse.adapters.vault.places import Keychain, KeyFile, KeyPlace

KEY_FILE = "vault.key"

KeyChoice = Literal["auto", "file", "keychain"]


def open_vault(data_dir: Path, key: KeyChoice = "auto") -> FileVault:
    """The vault of a directory that only its user can enter; nothing is touched yet. ``key`` is where the key of a new
    one goes; ``auto``: into the system's keychain where there is a real one, else into a file."""

    def choose() -> str:
        if key == "auto":
            return "keychain" if Keychain.there() else "file"
        return key

    places: dict[str, KeyPlace] = {"file": KeyFile(data_dir / KEY_FILE), "keychain": Keychain(data_dir)}
    return FileVault(data_dir, places, choose)
