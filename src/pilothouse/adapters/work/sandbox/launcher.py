"""Becomes the command, inside its sandbox: what ``wrap`` puts before the arguments of a command.

Owns the order of the steps. Every one must succeed: a command that cannot be confined does not run, and says why with
status 126. The process stays the same one all the way, so whoever started it still ends it. Standard library only, and
everything is imported before the first step: afterwards there may be nothing to import from.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from pilothouse.adapters.work import spawn
from pilothouse.adapters.work.sandbox import kernel, landlock, network, relay, root
from pilothouse.adapters.work.sandbox.policy import Policy

CANNOT_CONFINE, CANNOT_RUN = 126, 127


def main() -> NoReturn:
    """``argv``: a policy as JSON, the program, its arguments. The environment is the command's."""
    _, text, *argv = sys.argv
    here = Path.cwd()
    try:
        confine(Policy.from_json(text))
        os.chdir(here)
    except OSError as error:
        _give_up(CANNOT_CONFINE, f"not run, because it cannot be confined: {_reason(error)}")
    try:
        program = spawn.find_program(argv[0], os.environ.get("PATH", os.defpath))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores both, and what it starts would do so too
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execv(program, argv)
    except OSError as error:
        _give_up(CANNOT_RUN, f"cannot run {argv[0]}: {error.strerror}")


def confine(policy: Policy) -> None:
    """Put this process, which must have one thread, into the sandbox for good. Raises ``OSError``."""
    limited = policy.network == "limited"
    channel = relay.start() if limited else None
    _enter_namespaces(with_network=policy.network == "full")
    if policy.network != "full":
        network.bring_up_loopback()
    if channel is not None:
        relay.hand_over(channel, network.listeners(policy.endpoints))
    root.enter(policy.entries, policy.scratch, network.hosts_file(policy.endpoints) if limited else "")
    kernel.no_new_privileges()
    landlock.restrict((*policy.writable(), "/dev"))
    kernel.drop_capabilities()


def _enter_namespaces(*, with_network: bool) -> None:
    user, group = os.geteuid(), os.getegid()
    own = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
    kernel.unshare(own if with_network else own | kernel.CLONE_NEWNET)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)


def _reason(error: OSError) -> str:
    about = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{about}"


def _give_up(status: int, why: str) -> NoReturn:
    os.write(2, f"sandbox: {why}\n".encode("utf-8", "backslashreplace"))
    os._exit(status)
