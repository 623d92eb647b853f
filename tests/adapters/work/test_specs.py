"""From what a plan says to an argv."""

from __future__ import annotations

import pytest

from pilothouse.adapters.work.specs import process_argv, shell_argv
from pilothouse.errors import BadInput


@pytest.mark.parametrize(
    ("shell", "argv"),
    [
        (None, ("sh", "-c", "a | b")),
        ("bash", ("bash", "-c", "a | b")),
        ("pwsh", ("pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", "a | b")),
    ],
)
def test_a_shell_gets_the_command_as_one_argument(shell: str | None, argv: tuple[str, ...]) -> None:
    assert shell_argv("a | b", shell) == argv


def test_an_unknown_shell_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="bash") as refused:
        shell_argv("true", "cmd")
    assert refused.value.field == "shell"


def test_a_process_gets_its_arguments_untouched() -> None:
    assert process_argv("tool", ["a b", "$HOME", ""]) == ("tool", "a b", "$HOME", "")


@pytest.mark.parametrize("command", ["", "  \n", "a\0b"])
def test_an_empty_or_impossible_command_is_refused(command: str) -> None:
    with pytest.raises(BadInput):
        shell_argv(command)


@pytest.mark.parametrize(("executable", "args"), [("", []), (" ", []), ("a\0", []), ("a", ["b", "c\0"])])
def test_an_impossible_process_is_refused(executable: str, args: list[str]) -> None:
    with pytest.raises(BadInput):
        process_argv(executable, args)
