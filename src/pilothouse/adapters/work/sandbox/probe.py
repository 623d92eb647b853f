"""Whether this machine can confine a command, found out by doing so, and what to do where it cannot.

Runs one process for the answer and leaves nothing. Knows no command but ``true``.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from pilothouse.adapters.work.sandbox import start
from pilothouse.adapters.work.sandbox.folders import Scene, system
from pilothouse.adapters.work.sandbox.landlock import REFER_SINCE, SCOPES_SINCE, abi
from pilothouse.adapters.work.sandbox.policy import Policy
from pilothouse.errors import Unavailable

_WITHIN = 20.0
_SWITCHES = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
)
_IN_A_CONTAINER = "in a container, start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"


@functools.cache
def ensure_possible() -> None:
    """Raises ``Unavailable`` with what to do. A yes is remembered, a no is asked again."""
    if why := why_not():
        raise Unavailable(f"commands cannot be confined on this machine: {why}")


def why_not() -> str:
    """What stands in the way, and the remedy; empty when a command can be confined, its network cut off included."""
    if sys.platform != "linux":
        return "only Linux has what it takes; leave the sandbox out of the plan, or run Pilothouse in a Linux machine"
    scene = Scene()
    scene.show(*system())
    try:
        with tempfile.TemporaryDirectory(prefix="pilothouse-sandbox-") as scratch:
            argv = start.argv(Policy(scene.entries, str(Path(scratch).resolve()), "off"), ("true",))
            tried = subprocess.run(
                argv, cwd="/", env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return ""
    said = tried.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {tried.returncode}"]
    return f"{said[-1].removeprefix('sandbox: not run, because it cannot be confined: ')} ({_remedy()})"


def capabilities() -> list[tuple[str, bool, str]]:
    """(name, whether it is there, what that means for the user), one per capability, for ``doctor``."""
    why = why_not()
    if why:
        return [("sandbox", False, why)]
    version = abi()
    scoped = version >= SCOPES_SINCE
    landlock = f"Landlock ABI {version}" if version >= REFER_SINCE else "no Landlock"
    return [
        (
            "sandbox",
            True,
            "plans can confine commands: files, sockets and processes by namespaces, network full, limited, off",
        ),
        (
            "sandbox signals",
            scoped,
            f"what is confined can signal nothing outside ({landlock})"
            if scoped
            else f"what is confined could still end other processes of this user: Linux 6.12 is needed ({landlock})",
        ),
    ]


def _remedy() -> str:
    for name, bad, remedy in _SWITCHES:
        try:
            value = Path("/proc/sys", name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if value == bad:
            return f"as root: {remedy}"
    return _IN_A_CONTAINER
