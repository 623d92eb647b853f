"""What a worktree holds in other repositories inside it is not lost with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.adapters.git.worlds import ENVIRONMENT, RealWorld, sh

from pilothouse.adapters.git import GitAdapter
from pilothouse.core.plan.integration import Committed, Rescued
from pilothouse.errors import GitFailed

T = TypeVar("T")
RESCUE = "refs/pilothouse/rescue/plan/node/1"
ALLOW = {"GIT_ALLOW_PROTOCOL": "file"}


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


class Nest:
    """A repository with the submodule ``lib``, which has the submodule ``deep``, in a worktree at ``path``."""

    def __init__(self, folder: Path) -> None:
        deep = RealWorld(folder / "deep")
        library = RealWorld(folder / "library")
        sh(library.repo, "submodule", "add", "--quiet", deep.repo, "deep", env=ALLOW)
        sh(library.repo, "commit", "--quiet", "--message=with deep")
        self.world = RealWorld(folder / "top", {**ENVIRONMENT, **ALLOW})
        sh(self.world.repo, "submodule", "add", "--quiet", library.repo, "lib", env=ALLOW)
        sh(self.world.repo, "commit", "--quiet", "--message=with lib")
        self.base = sh(self.world.repo, "rev-parse", "HEAD")
        self.path = f"{self.world.trees}/plan/node/1"
        run(self.git.add_worktree(self.world.repo, self.path, self.base))

    @property
    def git(self) -> GitAdapter:
        return self.world.adapter

    def write(self, name: str, text: str = "new\n") -> None:
        self.world.write(self.path, name, text)

    def commit_in(self, name: str, file: str = "new.txt") -> str:
        self.write(f"{name}/{file}")
        sh(f"{self.path}/{name}", "add", "--all")
        sh(f"{self.path}/{name}", "commit", "--quiet", "--message=in the submodule")
        return sh(f"{self.path}/{name}", "rev-parse", "HEAD")

    def commit_all(self) -> str:
        made = run(
            self.git.commit_all(self.path, baseline=self.base, message="m", expects_no_changes=False, evidence_id="n")
        )
        assert isinstance(made, Committed)
        run(self.git.pin(self.world.repo, "refs/pilothouse/plans/p/n/1", made.commit))
        return made.commit

    def rescue(self) -> Rescued | None:
        return run(self.git.rescue(self.world.repo, self.path, RESCUE, "rescued"))

    def remove(self) -> dict[str, str]:
        """Rescue and remove, as at the end of every attempt; what is left under refs of submodules, by name."""
        self.rescue()
        run(self.git.remove_worktree(self.world.repo, self.path))
        assert not os.path.lexists(self.path)
        sh(self.world.repo, "gc", "--quiet", "--prune=now")
        listed = sh(self.world.repo, "for-each-ref", "--format=%(refname:lstrip=6) %(objectname)", f"{RESCUE}-modules/")
        return {name: commit for name, _, commit in (line.partition(" ") for line in listed.splitlines())}

    def text(self, commit: str, name: str) -> str:
        return sh(self.world.repo, "cat-file", "blob", f"{commit}:{name}")


@pytest.fixture
def nest(tmp_path: Path) -> Nest:
    return Nest(tmp_path)


def test_submodules_nobody_worked_in_leave_nothing(nest: Nest) -> None:
    assert nest.rescue() is None
    assert nest.remove() == {}


def test_a_commit_in_a_submodule_that_a_successful_node_recorded_is_kept(nest: Nest) -> None:
    commit = nest.commit_in("lib")
    nest.commit_all()
    assert nest.remove() == {"lib": commit}
    assert nest.text(commit, "new.txt") == "new"


def test_a_commit_in_a_submodule_that_was_not_recorded_is_kept(nest: Nest) -> None:
    commit = nest.commit_in("lib")
    assert nest.remove() == {"lib": commit}


def test_uncommitted_files_of_a_submodule_are_kept_and_the_submodule_is_not_touched(nest: Nest) -> None:
    nest.write("lib/new.txt")
    nest.write("lib/README.md", "edited\n")
    head, status = (sh(f"{nest.path}/lib", *ask) for ask in (("rev-parse", "HEAD"), ("status", "--porcelain")))
    assert nest.rescue() is not None
    assert sh(f"{nest.path}/lib", "rev-parse", "HEAD") == head
    assert sh(f"{nest.path}/lib", "status", "--porcelain") == status
    [(name, commit)] = nest.remove().items()
    assert name == "lib"
    assert (nest.text(commit, "new.txt"), nest.text(commit, "README.md")) == ("new", "edited")
    assert nest.world.parents(commit) == [head]


def test_edits_in_a_submodule_are_kept_beside_what_a_successful_node_committed(nest: Nest) -> None:
    nest.write("other.txt")
    nest.write("lib/new.txt")
    nest.commit_all()
    [commit] = nest.remove().values()
    assert nest.text(commit, "new.txt") == "new"


def test_a_submodule_of_a_submodule_counts_too(nest: Nest) -> None:
    inner = nest.commit_in("lib/deep")
    kept = nest.remove()
    assert inner in kept.values()
    assert all("/" not in name for name in kept)


def test_branches_and_stashes_of_a_submodule_are_kept(nest: Nest) -> None:
    lib = f"{nest.path}/lib"
    home = sh(lib, "rev-parse", "HEAD")
    branch = nest.commit_in("lib", "a.txt")
    sh(lib, "branch", "mine")
    sh(lib, "reset", "--quiet", "--hard", home)
    stashes = []
    for name in ("one", "two"):
        nest.write("lib/README.md", f"{name}\n")
        sh(lib, "stash")
        stashes.append(sh(lib, "rev-parse", "refs/stash"))
    nest.remove()
    for commit in (branch, *stashes):
        sh(nest.world.repo, "cat-file", "-e", commit)


def test_what_a_removed_submodule_had_committed_is_kept(nest: Nest) -> None:
    commit = nest.commit_in("lib")
    sh(nest.path, "submodule", "deinit", "--force", "lib")
    assert nest.remove() == {"lib": commit}


def test_the_files_of_a_submodule_that_lost_its_repository_are_kept(nest: Nest) -> None:
    nest.write("lib/new.txt")
    Path(nest.path, "lib/.git").unlink()
    commit = nest.remove()["lib"]
    assert nest.text(commit, "new.txt") == "new"


@pytest.mark.parametrize(("commits", "recorded"), [(True, True), (True, False), (False, False)])
def test_a_repository_made_inside_is_kept(nest: Nest, commits: bool, recorded: bool) -> None:
    place = Path(nest.path, "tools/made here")
    place.mkdir(parents=True)
    sh(place, "init", "--quiet", "--initial-branch=main")
    nest.write("tools/made here/new.txt")
    if commits:
        nest.commit_in("tools/made here")
    nest.write("other.txt")
    if recorded:
        nest.commit_all()
    [(name, commit)] = nest.remove().items()
    assert name.startswith("tools-made-here-")
    assert nest.text(commit, "new.txt") == "new"


def test_a_rescue_repeated_adds_no_ref(nest: Nest) -> None:
    nest.write("lib/new.txt")
    first = nest.rescue()
    assert first == nest.rescue()
    assert len(nest.remove()) == 1


def test_two_states_of_a_submodule_are_both_kept(nest: Nest) -> None:
    texts = ["one", "two"]
    for text in texts:
        nest.write("lib/new.txt", f"{text}\n")
        nest.rescue()
    kept = nest.remove()
    assert list(kept) == ["lib", "lib-2"]
    assert [nest.text(commit, "new.txt") for commit in kept.values()] == texts


def test_what_cannot_be_fetched_is_refused(nest: Nest) -> None:
    commit = nest.commit_in("lib")
    objects = Path(sh(f"{nest.path}/lib", "rev-parse", "--absolute-git-dir"), "objects")
    (objects / commit[:2] / commit[2:]).unlink()
    with pytest.raises(GitFailed):
        nest.rescue()


@pytest.mark.parametrize("hide", ["all", "dirty"])
def test_a_submodule_that_is_hidden_from_status_is_looked_at(nest: Nest, hide: str) -> None:
    sh(nest.world.repo, "config", "submodule.lib.ignore", hide)
    commit = nest.commit_in("lib")
    nest.write("lib/more.txt")
    [kept] = nest.remove().values()
    assert nest.world.parents(kept) == [commit]


def test_a_worktree_made_inside_keeps_its_detached_head_and_its_files(nest: Nest) -> None:
    sh(nest.path, "worktree", "add", "--quiet", "--detach", f"{nest.path}/inner")
    commit = nest.commit_in("inner")
    nest.write("inner/more.txt")
    [kept] = nest.remove().values()
    assert nest.world.parents(kept) == [commit]
    assert nest.text(kept, "more.txt") == "new"


def _set_trap(repository: str, sprung: Path) -> None:
    """Have git run a program of this repository's wherever its files are looked at."""
    for name in ("filter.trap.clean", "filter.trap.process", "core.fsmonitor"):
        sh(repository, "config", name, f"touch {sprung}; cat")
    Path(repository, ".gitattributes").write_text("* filter=trap\n")
    Path(repository, "README.md").write_text("looked at\n")


@pytest.mark.parametrize("before", ["commit", "rescue"])
def test_programs_that_are_configured_inside_are_never_run(tmp_path: Path, before: str) -> None:
    nest, sprung = Nest(tmp_path), tmp_path / "sprung"
    own = Path(nest.path, "own")
    nest.write("own/README.md")
    sh(str(own), "init", "--quiet")
    sh(str(own), "add", "--all")
    sh(str(own), "commit", "--quiet", "--message=own")
    head = sh(str(own), "rev-parse", "HEAD")
    sh(nest.path, "add", "own")
    for name in ("lib", "lib/deep", "own"):
        _set_trap(f"{nest.path}/{name}", sprung)
    if before == "commit":
        made = nest.commit_all()
        assert sh(nest.world.repo, "rev-parse", f"{made}:own") == head
    assert nest.rescue() is not None or before == "commit"
    saved = sh(nest.world.repo, "for-each-ref", "--format=%(refname)", f"{RESCUE}-modules/").splitlines()
    assert len(saved) == 3
    assert all(sh(nest.world.repo, "show", f"{ref}:README.md") == "looked at" for ref in saved)
    assert not sprung.exists()


def test_a_partial_clone_inside_is_not_looked_at_because_it_names_programs_that_fetch(tmp_path: Path) -> None:
    nest = Nest(tmp_path)
    nest.commit_in("lib")
    sh(f"{nest.path}/lib", "config", "remote.origin.promisor", "true")
    with pytest.raises(GitFailed, match="partial clone"):
        nest.rescue()
