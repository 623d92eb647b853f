"""One way to set up and look at repositories, over the real git and over the twin.

What a contract test needs beside the port: objects and refs made directly, files written as work would.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from pilothouse.adapters.git import GitAdapter, MemoryGit, MemoryWorld
from pilothouse.engine.ports import Git

FIRST = {"README.md": "hello\n", "src/main.txt": "one\ntwo\nthree\n"}

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Author",
    "GIT_AUTHOR_EMAIL": "author@example.invalid",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_COMMITTER_EMAIL": "author@example.invalid",
}


class World(Protocol):
    """A repository with ``main`` at ``base`` checked out at ``repo``, and ``trees`` to put worktrees below."""

    git: Git
    repo: str
    trees: str
    base: str

    def commit(self, files: Mapping[str, str], *parents: str) -> str: ...
    def set_ref(self, ref: str, commit: str) -> None: ...
    def ref(self, ref: str) -> str | None: ...
    def files(self, commit: str) -> dict[str, str]: ...
    def parents(self, commit: str) -> list[str]: ...
    def message(self, commit: str) -> str: ...
    def checkout(self, path: str, branch: str) -> None: ...
    def write(self, path: str, name: str, text: str | None) -> None: ...
    def worktree_files(self, path: str) -> dict[str, str]: ...
    def leave(self, path: str, name: str, text: str) -> None: ...
    def exists(self, path: str) -> bool: ...


def sh(cwd: str | Path, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run git the plain way, as a user would; its output without the final newline."""
    done = subprocess.run(
        ["git", *args],
        cwd=cwd,
        input=stdin,
        env={**ENVIRONMENT, **(env or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.removesuffix("\n")


class RealWorld:
    """Real repositories below a temporary directory, with nobody's configuration."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.adapter = GitAdapter(ENVIRONMENT if environ is None else environ)
        self.git: Git = self.adapter
        self.repo = str(folder / "repo")
        self.trees = str(folder / "trees")
        Path(self.repo).mkdir(parents=True)
        sh(self.repo, "init", "--quiet", "--initial-branch=main")
        self.base = self.commit(FIRST)
        self.set_ref("refs/heads/main", self.base)
        sh(self.repo, "reset", "--quiet", "--hard")

    def commit(self, files: Mapping[str, str], *parents: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            env = {"GIT_INDEX_FILE": f"{folder}/index"}
            for name, text in files.items():
                blob = sh(self.repo, "hash-object", "-w", "--stdin", stdin=text)
                sh(self.repo, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", env=env)
            tree = sh(self.repo, "write-tree", env=env)
        args = [part for parent in parents for part in ("-p", parent)]
        return sh(self.repo, "commit-tree", tree, *args, "-m", "made by the test")

    def set_ref(self, ref: str, commit: str) -> None:
        sh(self.repo, "update-ref", ref, commit)

    def ref(self, ref: str) -> str | None:
        return sh(self.repo, "for-each-ref", "--format=%(objectname)", ref) or None

    def files(self, commit: str) -> dict[str, str]:
        listed = sh(self.repo, "ls-tree", "-r", "-z", commit)
        entries = [entry.partition("\t") for entry in listed.split("\0") if entry]
        return {name: sh(self.repo, "cat-file", "blob", meta.split()[2]) + "\n" for meta, _, name in entries}

    def parents(self, commit: str) -> list[str]:
        return sh(self.repo, "log", "-1", "--format=%P", commit).split()

    def message(self, commit: str) -> str:
        return sh(self.repo, "log", "-1", "--format=%B", commit).strip()

    def checkout(self, path: str, branch: str) -> None:
        sh(self.repo, "worktree", "add", "--quiet", path, branch)

    def write(self, path: str, name: str, text: str | None) -> None:
        file = Path(path, name)
        if text is None:
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def worktree_files(self, path: str) -> dict[str, str]:
        found = {str(file.relative_to(path)): file for file in Path(path).rglob("*") if file.is_file()}
        return {
            name: file.read_text() for name, file in found.items() if name != ".git" and not name.startswith(".git/")
        }

    def leave(self, path: str, name: str, text: str) -> None:
        self.write(path, name, text)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)


class TwinWorld:
    """The same over :class:`MemoryWorld`."""

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.git: Git = MemoryGit(self.world)
        self.repo, self.trees = "/repo", "/trees"
        self.repository = self.world.add_repository(self.repo, FIRST)
        self.base = self.repository.refs["refs/heads/main"]

    def commit(self, files: Mapping[str, str], *parents: str) -> str:
        return self.repository.commit(files, parents, "made by the test")

    def set_ref(self, ref: str, commit: str) -> None:
        self.repository.refs[ref] = commit

    def ref(self, ref: str) -> str | None:
        return self.repository.refs.get(ref)

    def files(self, commit: str) -> dict[str, str]:
        return dict(self.repository.commits[commit].files)

    def parents(self, commit: str) -> list[str]:
        return list(self.repository.commits[commit].parents)

    def message(self, commit: str) -> str:
        return self.repository.commits[commit].message.strip()

    def checkout(self, path: str, branch: str) -> None:
        self.repository.checkout(path, self.repository.refs[f"refs/heads/{branch}"], branch)

    def write(self, path: str, name: str, text: str | None) -> None:
        files = self.world.worktree(path).files
        if text is None:
            del files[name]
        else:
            files[name] = text

    def worktree_files(self, path: str) -> dict[str, str]:
        return dict(self.world.worktree(path).files)

    def leave(self, path: str, name: str, text: str) -> None:
        self.world.leftovers.setdefault(path, {})[name] = text

    def exists(self, path: str) -> bool:
        return path in self.world.leftovers or path in self.repository.worktrees


def merged_with(files: Mapping[str, str], **changes: str) -> dict[str, str]:
    """``files`` with some more; keyword names stand for ``<name>.txt``."""
    return {**files, **{f"{name}.txt": text for name, text in changes.items()}}
