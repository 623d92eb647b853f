"""The one translation from errors to what a terminal sees: one sentence on stderr and an exit code.

0 succeeded, 1 failed (also: a bug, with a pointer to the log), 2 refused before anything happened, 3 partial,
130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Protocol

import typer

from pilothouse.errors import BadInput, Denied, Gone, NotFound, PilothouseError, Refused, Unavailable
from pilothouse.interfaces.cli.places import Session
from pilothouse.interfaces.cli.words import tame

SILENCE_S = 1.5
"""Seconds that somebody at a terminal waits without a word."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
REFUSALS = (BadInput, NotFound, Gone, Denied, Refused, Unavailable)


class ExitCode(IntEnum):
    SUCCEEDED = 0
    FAILED = 1
    REFUSED = 2
    PARTIAL = 3
    INTERRUPTED = 130


class _Explains(Protocol):
    """What a mistake on the command line knows of itself."""

    exit_code: int

    def format_message(self) -> str: ...


def guarded(session: Session, action: Callable[[], Any]) -> int:
    """Run a command line; answers its exit code. Raises nothing."""
    try:
        code = action()
        sys.stdout.flush()
        return code if isinstance(code, int) else ExitCode.SUCCEEDED
    except typer.TyperException as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return ExitCode.FAILED
    except SystemExit as error:  # completion leaves this way
        return error.code if isinstance(error.code, int) else ExitCode.FAILED
    except REFUSALS as error:
        return say_error(str(error), ExitCode.REFUSED)
    except PilothouseError as error:
        return say_error(str(error), ExitCode.FAILED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _close_stdout()
            return say_error(f"what is to be printed or kept finds no room: {error.strerror}", ExitCode.FAILED)
        return _bug(session, error)


def say_error(message: str, code: ExitCode) -> int:
    note(f"error: {message}")
    return code


def note(message: str) -> None:
    """A message for the person, never part of the answer."""
    print(tame(message, colour=False)[0], file=sys.stderr)


@contextmanager
def patience(message: str) -> Iterator[None]:
    """On a terminal, ``message`` says what is waited for when it takes long."""
    timer = threading.Timer(SILENCE_S, note, (message,))
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()


def _usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message().replace("Value error, ", "")  # a library's word for what follows
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help itself
        print(message, file=sys.stderr)
        return ExitCode.REFUSED
    where = f" (see {context.command_path} --help)" if context is not None else ""
    return say_error(f"{_lower_first(message).rstrip('.')}{where}", ExitCode.REFUSED)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _close_stdout() -> None:
    """The reader is gone; what is still buffered must not fail again when the interpreter flushes it."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _bug(session: Session, error: Exception) -> int:
    said = f"this should not have happened: {type(error).__name__}: {error}"
    try:
        log = session.place() / "cli.log"
        with log.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
    except (OSError, PilothouseError):
        return say_error(said, ExitCode.FAILED)
    return say_error(f"{said} (the details are in {log})", ExitCode.FAILED)
