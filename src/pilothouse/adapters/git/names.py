"""Names, as pure rules: what git accepts as a branch, what is a commit's full name.

The real adapter asks git about branch names as well; the twin only this.
"""

from __future__ import annotations

import re

from pilothouse.errors import BadInput

LONGEST_BRANCH = 200
"""Bytes; a ref is a file, its lock adds five, and file systems end at 255 per component."""

FIX = "use letters, digits, '-', '_', '.' and '/', for example feature/search"

_OBJECT_NAME = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def branch_problem(name: str) -> str | None:
    """Why ``name`` is no branch name; None when it is one."""
    if not name:
        return "a branch name is not empty"
    if len(name.encode("utf-8", "surrogateescape")) > LONGEST_BRANCH:
        return f"a branch name has at most {LONGEST_BRANCH} bytes"
    parts = name.split("/")
    wrong = (
        name.startswith(("-", "refs/"))
        or name in ("HEAD", "@")
        or name.endswith(".")
        or _FORBIDDEN.search(name) is not None
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    )
    return f"{name!r} is not a branch name" if wrong else None


def excludes(branch: str, other: str) -> bool:
    """Whether one of two names lies below the other, so that no repository can have both."""
    return branch.startswith(f"{other}/") or other.startswith(f"{branch}/")


def no_room(branch: str) -> BadInput:
    return BadInput(f"{branch!r} cannot be a branch beside the branches there are", fix="choose another name")


def is_object_name(text: str) -> bool:
    return _OBJECT_NAME.match(text) is not None
