"""Programs that npm installs are loaders: the real one is in a package for the platform, beside the loader's.

A loader that stands between us and the agent costs a process and its start, and may not pass on a signal.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

_ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def native(found: str, package: str, program: str, platforms: tuple[str, ...]) -> str:
    """The real program behind ``found``, or ``found`` itself where there is none.

    ``package`` is the loader's, ``@scope/name``; those of platforms are called ``@scope/name-PLATFORM-ARCHITECTURE``,
    and are looked for in the order of ``platforms``. Follows links, reads nothing.
    """
    real = Path(os.path.realpath(found))
    architecture = _ARCHITECTURES.get(platform.machine().lower(), "")
    for modules in _modules(real, package):
        for name in platforms:
            candidate = modules / f"{package}-{name}-{architecture}" / program
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return str(candidate)
    return found


def platforms() -> tuple[str, ...]:
    """How npm packages call this one; a Linux with another C library comes last, where both are installed."""
    return ("linux", "linuxmusl") if sys.platform.startswith("linux") else (sys.platform,)


def _modules(real: Path, package: str) -> Iterator[Path]:
    """Where packages beside that of ``real`` may be: in its own ``node_modules``, then in those it lies in."""
    home = next((place for place in real.parents if place.parts[-2:] == tuple(package.split("/"))), None)
    if home is not None:
        yield home / "node_modules"
        yield home.parent.parent
