"""What lies between two commits in memory: the twin of ``history``. Pure."""

from __future__ import annotations

import difflib

from pilothouse.adapters.git.memory_world import MemoryRepository
from pilothouse.core.plan.integration import FileChange, WorkSummary


def summary(repository: MemoryRepository, base: str, commit: str) -> WorkSummary:
    old, new = repository.commits[base].files, repository.commits[commit].files
    changes = tuple(
        _change(path, old.get(path), new.get(path)) for path in sorted({*old, *new}) if old.get(path) != new.get(path)
    )
    return WorkSummary(
        commits=len(repository.ancestors(commit) - repository.ancestors(base)),
        files_added=sum(change.status == "A" for change in changes),
        files_modified=sum(change.status == "M" for change in changes),
        files_deleted=sum(change.status == "D" for change in changes),
        changes=changes,
    )


def diff(repository: MemoryRepository, base: str, commit: str, limit: int) -> str:
    old, new = repository.commits[base].files, repository.commits[commit].files
    lines: list[str] = []
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            before, after = old.get(path, "").splitlines(), new.get(path, "").splitlines()
            lines.append(f"diff --git a/{path} b/{path}")
            lines += difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="")
    text = "".join(f"{line}\n" for line in lines)
    if len(text.encode()) <= limit:
        return text
    cut = text.encode()[:limit].decode("utf-8", "ignore")
    return f"{cut[: cut.rfind(chr(10)) + 1]}[cut after {limit} bytes]\n"


def _change(path: str, old: str | None, new: str | None) -> FileChange:
    lines = list(difflib.ndiff((old or "").splitlines(), (new or "").splitlines()))
    return FileChange(
        path=path,
        status="A" if old is None else "D" if new is None else "M",
        added=sum(line.startswith("+ ") for line in lines),
        removed=sum(line.startswith("- ") for line in lines),
    )
