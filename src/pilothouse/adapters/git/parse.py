"""Pure parsers for what git prints: bytes in, values out. NUL-separated forms only, as names hold anything.

Knows the formats of git 2.38 and later. Runs nothing.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pilothouse.core.plan.integration import FileChange, WorkSummary

_VERSION = re.compile(r"git version (\d+)\.(\d+)(?:\.(\d+))?")
_HEADS = "refs/heads/"
_GITLINK = b"160000 "
_NULL_OBJECT = re.compile(r"0+")


class Worktree(NamedTuple):
    """One entry of ``git worktree list``. ``head`` is None when the branch is unborn or the tree is bare."""

    path: str
    head: str | None = None
    branch: str | None = None
    bare: bool = False
    prunable: bool = False


class MergeOutcome(NamedTuple):
    """What ``git merge-tree --write-tree`` found. Without ``clean`` the tree holds conflict markers."""

    tree: str
    clean: bool = True
    files: tuple[str, ...] = ()
    detail: str = ""


def version(text: str) -> tuple[int, int, int]:
    """The numbers of ``git version``; vendors append things such as ``(Apple Git-154)``."""
    found = _VERSION.search(text)
    if found is None:
        raise ValueError(f"not a git version: {text!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def file_name(raw: bytes) -> str:
    """A path as text that can be shown and stored anywhere."""
    return raw.decode("utf-8", "replace")


def branch_name(ref: str) -> str:
    return ref.removeprefix(_HEADS)


def worktrees(output: bytes) -> list[Worktree]:
    """Entries of ``git worktree list --porcelain -z``, the main worktree first."""
    entries = []
    for block in output.split(b"\0\0"):
        fields = dict(line.partition(b" ")[::2] for line in block.split(b"\0") if line)
        if b"worktree" not in fields:
            continue
        head = fields.get(b"HEAD", b"").decode("ascii")
        branch = fields.get(b"branch")
        entries.append(
            Worktree(
                path=os.fsdecode(fields[b"worktree"]),
                head=None if _NULL_OBJECT.fullmatch(head) or not head else head,
                branch=None if branch is None else branch_name(os.fsdecode(branch)),
                bare=b"bare" in fields,
                prunable=b"prunable" in fields,
            )
        )
    return entries


def nested(output: bytes) -> list[str]:
    """Repositories in ``git ls-files -z --stage --others``: recorded ones have a mode of their own, of others the
    directory is named."""
    found: dict[str, None] = {}
    for entry in output.split(b"\0"):
        if entry.startswith(_GITLINK):
            found[os.fsdecode(entry.partition(b"\t")[2])] = None
        elif entry.endswith(b"/"):
            found[os.fsdecode(entry.rstrip(b"/"))] = None
    return list(found)


def merge_tree(output: bytes, *, clean: bool) -> MergeOutcome:
    """Output of ``git merge-tree --write-tree -z --name-only --messages``.

    Tree, then the conflicted files, an empty field, then messages: a count, that many paths, a kind, a text.
    Whether it is clean is the exit status alone: some conflicts name no file.
    """
    fields = output.split(b"\0")
    tree = fields[0].decode("ascii")
    rest = fields[1:]
    end = rest.index(b"") if b"" in rest else len(rest)
    files = tuple(dict.fromkeys(file_name(raw) for raw in rest[:end]))
    texts: list[str] = []
    messages = iter(rest[end + 1 :])
    for count in messages:
        if not count.isdigit():
            break
        for _ in range(int(count)):
            next(messages, b"")
        kind, text = next(messages, b""), next(messages, b"")
        if kind.startswith(b"CONFLICT"):
            texts.append(file_name(text).strip())
    return MergeOutcome(tree, clean, files, "\n".join(texts))


def summary(commits: int, output: bytes) -> WorkSummary:
    """Output of ``git diff --raw --numstat -z -M``: raw entries first, then the numbers in the same order."""
    fields = iter(output.split(b"\0"))
    statuses: dict[bytes, str] = {}
    counts: dict[bytes, tuple[int, int]] = {}
    for field in fields:
        if field.startswith(b":"):
            status = chr(field.split(b" ")[4][0])
            path = next(fields)
            if status in "RC":
                path = next(fields)
            statuses[path] = status
        elif field.count(b"\t") >= 2:
            added, removed, path = field.split(b"\t", 2)
            if not path:
                next(fields)
                path = next(fields)
            # A binary file has "-" for both.
            counts[path] = (int(added), int(removed)) if added.isdigit() else (0, 0)
    changes = tuple(
        FileChange(path=file_name(path), status=status, added=counts.get(path, (0, 0))[0],
                   removed=counts.get(path, (0, 0))[1])
        for path, status in statuses.items()
    )  # fmt: skip
    return WorkSummary(
        commits=commits,
        files_added=sum(change.status in "AC" for change in changes),
        files_modified=sum(change.status in "MTR" for change in changes),
        files_deleted=sum(change.status == "D" for change in changes),
        changes=changes,
    )
