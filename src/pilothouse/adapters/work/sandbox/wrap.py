"""From a command to the same command in a sandbox.

Owns what goes around the arguments and into the environment, and the refusal where this machine cannot confine. What
is seen is ``folders`` and ``programs``; the process that enforces it is ``launcher``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pilothouse.adapters.work.sandbox import start
from pilothouse.adapters.work.sandbox.endpoints import endpoint
from pilothouse.adapters.work.sandbox.folders import Scene, declared, show_repository, system
from pilothouse.adapters.work.sandbox.policy import Kind, Policy
from pilothouse.adapters.work.sandbox.probe import ensure_possible
from pilothouse.adapters.work.sandbox.programs import installations
from pilothouse.core.plan.spec import Network, SandboxSpec

if sys.platform != "win32":
    import pwd

_POINTS_OUTSIDE = frozenset({"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"})
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "ftp_proxy"})
_NOBODY = "[user]\n\tname = Pilothouse\n\temail = pilothouse@localhost.invalid\n"
"""Who commits inside where the repository does not say: the user's own settings are in their home directory."""


class Sandboxed(NamedTuple):
    """What to start instead. Its status is the command's, or 126 with a line on stderr: it could not be confined."""

    argv: tuple[str, ...]
    env: dict[str, str]


def sandboxed(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    spec: SandboxSpec,
    worktree: Path,
    private: Path,
    data_dir: Path,
    readable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    kept: Iterable[Path] = (),
    addresses: Iterable[str] = (),
) -> Sandboxed:
    """``argv`` and ``env`` so that the command, and whatever it starts, is confined to what ``spec`` allows.

    It sees the system's folders, the installations of its own program, of what is on its PATH and of Pilothouse, the
    repository of ``worktree``, what ``spec`` declares and what ``readable`` adds. It writes ``worktree``, what git
    needs to commit there, what ``spec`` declares, what ``writable`` adds (an agent's state) but for what is ``kept`` of
    that, and ``private``: a directory of this attempt's, made here when it is missing, whose ``tmp`` is the command's
    /tmp; no other command may have been able to write beside it. Nothing else exists
    for it: no home directory, not ``data_dir``. HOME stays where it is writable, else it is ``private/home``.

    ``addresses`` are URLs or ``host:port``: all that can be reached if ``spec.network`` is ``limited``, under their
    own names and numbers. The loopback of a network that is not ``full`` is the command's own.

    All paths are absolute. Start it in the same working directory as without. It looks at files, and the first call
    runs a process (some 0.1 s): call it on a thread. Raises ``Unavailable`` when this machine cannot confine, and
    ``BadInput`` for a folder or an address that cannot be.
    """
    ensure_possible()
    homes = _homes(env)
    trusted = [*writable]
    plan_readable = declared(spec.readable, "sandbox.readable", [data_dir])
    plan_writable = declared(spec.writable, "sandbox.writable", [data_dir])
    for name in ("tmp", "home", "root"):
        (private / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    scene = Scene()
    for name in ("/tmp", "/var/tmp"):
        scene.replace(Path(name), private / "tmp")
    shown = [*system()]
    scene.show(*shown)
    scene.hide(*homes, data_dir)
    found = dict.fromkeys(installations(argv[0], env.get("PATH", os.defpath), homes, shown))
    own = data_dir.resolve()
    scene.show(*(path for path in found if not path.resolve().is_relative_to(own)))
    for path in sorted({*plan_readable, *plan_writable}, key=lambda path: len(path.parts)):
        scene.show(path, kind=Kind.WRITE if path in plan_writable else Kind.READ)
    scene.hide(data_dir)
    scene.show(*readable)
    scene.show(private / "tmp", private / "home", *trusted, kind=Kind.WRITE)
    scene.show(*kept)
    show_repository(scene, worktree)

    limited = spec.network is Network.LIMITED
    endpoints = tuple(dict.fromkeys(map(endpoint, addresses))) if limited else ()
    policy = Policy(scene.entries, str((private / "root").resolve()), str(spec.network), endpoints)
    return Sandboxed(start.argv(policy, argv), _environment(env, spec.network, private, [*trusted, *plan_writable]))


def _homes(env: Mapping[str, str]) -> list[Path]:
    """Where people keep what is theirs: by the environment and by the list of users."""
    found = [env.get("HOME", ""), os.environ.get("HOME", "")]
    try:
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        pass  # a user without a name, as in some containers
    real = (Path(home).resolve() for home in found if home.startswith("/"))
    return [home for home in dict.fromkeys(real) if home != Path("/")]


def _environment(env: Mapping[str, str], network: Network, private: Path, writable: list[Path]) -> dict[str, str]:
    gone = _POINTS_OUTSIDE if network is Network.FULL else _POINTS_OUTSIDE | _PROXIES
    kept = {name: value for name, value in env.items() if name not in gone and name.lower() not in gone}
    kept["TMPDIR"] = str(private / "tmp")
    home = kept.get("HOME", "")
    if not any(Path(home).is_relative_to(path) for path in writable):
        kept["HOME"] = str(private / "home")
        settings = private / "home" / ".gitconfig"
        if not settings.exists():
            settings.write_text(_NOBODY, encoding="utf-8")
    return kept
