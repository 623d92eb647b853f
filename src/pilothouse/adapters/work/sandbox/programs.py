"""Where the programs of a command are installed: what must be readable so that they run.

Looks at files, changes nothing. An installation is a ``bin`` with the ``lib`` beside it, or a tree of ``node_modules``;
never the home directory as a whole, nor what a program keeps under ``share`` or ``etc``, where people's data are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pilothouse
from pilothouse.adapters.work.spawn import find_program

_BESIDE = ("lib", "lib32", "lib64", "libexec", "include", "pyvenv.cfg")
_BINS = ("bin", "sbin", "libexec")
_PACKAGES = ("site-packages", "dist-packages")
_INTERPRETERS = 3
"""How far interpreters of interpreters are followed, as by the kernel."""


def installations(program: str, path: str, homes: Sequence[Path], shown: Sequence[Path] = ()) -> Iterator[Path]:
    """Files and directories that must be readable to run ``program`` and what is on ``path``; some may be there twice.

    Relative entries of ``path`` are left out: they mean the worktree. Links in directories below ``shown`` are taken to
    lead somewhere below it too.
    """
    for entry in path.split(os.pathsep):
        directory = Path(entry)
        if directory.is_absolute() and directory.is_dir():
            yield from _bin(directory, homes)
            yield from _bin(directory.resolve(), homes)
            if not any(directory.resolve().is_relative_to(folder) for folder in shown):
                for link in filter(Path.is_symlink, sorted(directory.iterdir())):
                    yield from _program(str(link), path, homes, _INTERPRETERS)
    yield from _program(program, path, homes, _INTERPRETERS)
    for python in {Path(sys.executable), Path(sys.executable).resolve()}:
        yield from _bin(python.parent, homes)
    yield Path(pilothouse.__file__).resolve().parent
    yield from (found for entry in sys.path if (found := Path(entry)).name in _PACKAGES and found.is_dir())


def _program(name: str, path: str, homes: Sequence[Path], depth: int) -> Iterator[Path]:
    try:
        found = Path(find_program(name, path))
        real = found.resolve(strict=True)
    except OSError:
        return  # it may lie in the worktree, and where it is missing its start says so
    yield real
    if found.parent.name in _BINS:
        yield from _bin(found.parent, homes)
    if "node_modules" in real.parts:
        yield Path(*real.parts[: real.parts.index("node_modules") + 1])
    elif real.parent.name in _BINS or real.parent != found.parent:
        yield from _bin(real.parent, homes)
    if depth and (interpreter := _interpreter(real)):
        yield from _program(interpreter, path, homes, depth - 1)


def _bin(directory: Path, homes: Sequence[Path]) -> Iterator[Path]:
    if _holds_a_home(directory, homes):
        return
    yield directory
    if directory.name in _BINS and not _holds_a_home(directory.parent, homes):
        yield from (found for name in _BESIDE if (found := directory.parent / name).exists())


def _holds_a_home(directory: Path, homes: Sequence[Path]) -> bool:
    return any(home.is_relative_to(directory) for home in homes)


def _interpreter(script: Path) -> str:
    """What the first line of a script names; empty for what is no script."""
    try:
        with script.open("rb") as file:
            line = file.readline(512)
    except OSError:
        return ""
    if not line.startswith(b"#!"):
        return ""
    first, *rest = os.fsdecode(line[2:]).split() or [""]
    if Path(first).name != "env":
        return first
    return next((word for word in rest if not word.startswith("-") and "=" not in word), "")
