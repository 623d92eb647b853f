"""From what a plan says to an argv. Pure; whether the executable exists is seen when it is started."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.errors import BadInput

DEFAULT_SHELL = "sh"
_POSIX = ("sh", "bash", "dash", "zsh", "ksh", "fish")
_POWERSHELL = ("-NoLogo", "-NoProfile", "-NonInteractive", "-Command")
SHELLS: dict[str, tuple[str, ...]] = {
    **{name: (name, "-c") for name in _POSIX},
    "pwsh": ("pwsh", *_POWERSHELL),
    "powershell": ("pwsh", *_POWERSHELL),
}
"""What precedes the command text, by the name a plan uses."""


def shell_argv(command: str, shell: str | None = None) -> tuple[str, ...]:
    """The argv that runs ``command`` as a line of ``shell``. Raises ``BadInput``."""
    prefix = SHELLS.get(shell or DEFAULT_SHELL)
    if prefix is None:
        raise BadInput(f"unknown shell {shell!r}", field="shell", fix=f"use one of {', '.join(SHELLS)}")
    if not command.strip():
        raise BadInput("the command is empty", field="command")
    _check(command, "command")
    return (*prefix, command)


def process_argv(executable: str, args: Sequence[str] = ()) -> tuple[str, ...]:
    """The argv that runs ``executable`` without any shell. Raises ``BadInput``."""
    if not executable.strip():
        raise BadInput("no executable is named", field="executable")
    _check(executable, "executable")
    for index, argument in enumerate(args):
        _check(argument, f"args[{index}]")
    return (executable, *args)


def _check(text: str, field: str) -> None:
    if "\0" in text:
        raise BadInput("a NUL character cannot be passed to a process", field=field)
