"""The user's checkout after everything we do to their repository: byte for byte what it was."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adapters.git.worlds import RealWorld, sh

from pilothouse.adapters.git import GitAdapter
from pilothouse.core.plan.integration import Committed, Merged, Strategy
from pilothouse.errors import GitFailed


@pytest.fixture
def world(tmp_path: Path) -> RealWorld:
    return RealWorld(tmp_path)


def photograph(repo: str) -> dict[str, object]:
    """Everything in the checkout and what git keeps for it, with time stamps; not objects and our own refs."""
    top = Path(repo)
    private = ("HEAD", "index", "config", "info/exclude", "logs/HEAD", "logs/refs/stash", "refs/stash", "ORIG_HEAD")
    files = [file for file in top.rglob("*") if file.is_file() and top / ".git" not in file.parents]
    files += [top / ".git" / name for name in private if (top / ".git" / name).exists()]
    return {
        str(file.relative_to(top)): (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode) for file in files
    }


async def whole_cycle(git: GitAdapter, repo: str, trees: str) -> None:
    found = await git.inspect(repo)
    base = await git.resolve(repo, "main")
    await git.create_branch(repo, "target", base)
    done: list[str] = []
    for number in (1, 2):
        path = f"{trees}/plan/n{number}/1"
        await git.add_worktree(found.root, path, base)
        Path(path, f"new{number}.txt").write_text("new\n")
        made = await git.commit_all(path, baseline=base, message="m", expects_no_changes=False, evidence_id="e")
        assert isinstance(made, Committed)
        done.append(made.commit)
        Path(path, "late.txt").write_text("late\n")
        assert await git.rescue(repo, path, f"refs/pilothouse/plan/rescue/{number}", "rescued") is not None
        await git.remove_worktree(repo, path)
        merged = await git.merge_into(
            repo, "target", made.commit, message="m", strategy=Strategy.SQUASH, pin=f"refs/pilothouse/plan/n{number}"
        )
        assert isinstance(merged, Merged)
    await git.merge_forward(repo, done, "join")
    await git.summary(repo, base, done[0])
    await git.diff(repo, base, done[0])
    await git.sweep(repo, trees, frozenset())
    await git.delete_refs(repo, "plan")


def test_a_whole_cycle_leaves_a_dirty_checkout_as_it_was(world: RealWorld) -> None:
    repo = Path(world.repo)
    (repo / "stashed.txt").write_text("s\n")
    sh(repo, "add", "stashed.txt")
    sh(repo, "stash", "--quiet")
    (repo / "README.md").write_text("edited\n")
    (repo / "staged.txt").write_text("staged\n")
    sh(repo, "add", "staged.txt")
    (repo / "untracked.txt").write_text("untracked\n")
    (repo / "src/main.txt").unlink()
    status, stash = sh(repo, "status", "--porcelain"), sh(repo, "stash", "list")
    before = photograph(world.repo)

    asyncio.run(whole_cycle(world.adapter, world.repo, world.trees))

    assert photograph(world.repo) == before
    assert sh(repo, "status", "--porcelain") == status
    assert sh(repo, "stash", "list") == stash
    assert sh(repo, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_it_works_while_the_user_holds_the_index_lock(world: RealWorld) -> None:
    (Path(world.repo) / ".git/index.lock").touch()
    asyncio.run(whole_cycle(world.adapter, world.repo, world.trees))
    assert (Path(world.repo) / ".git/index.lock").exists()


def _point_at_checkout(world: RealWorld, path: Path, _: Path) -> None:
    (path / ".git").write_text(f"gitdir: {world.repo}/.git\n")


def _point_at_another_worktree(_: RealWorld, path: Path, other: Path) -> None:
    shutil.copy(other / ".git", path / ".git")


def _become_a_link(_: RealWorld, path: Path, other: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(other)


@pytest.mark.parametrize("redirect", [_point_at_checkout, _point_at_another_worktree, _become_a_link])
def test_a_worktree_that_was_pointed_at_the_users_own_is_not_committed(
    world: RealWorld, tmp_path: Path, redirect: Callable[[RealWorld, Path, Path], None]
) -> None:
    theirs = tmp_path / "theirs"
    sh(world.repo, "worktree", "add", "--quiet", "-b", "mine", str(theirs))
    path = Path(world.trees, "plan/node/1")
    asyncio.run(world.adapter.add_worktree(world.repo, str(path), world.base))
    for checkout in (world.repo, theirs):
        Path(checkout, "README.md").write_text("edited\n")
    redirect(world, path, theirs)

    with pytest.raises(GitFailed, match="no longer a worktree"):
        asyncio.run(
            world.adapter.commit_all(
                str(path), baseline=world.base, message="m", expects_no_changes=True, evidence_id="e"
            )
        )

    for checkout, branch in ((world.repo, "main"), (theirs, "mine")):
        assert sh(checkout, "symbolic-ref", "--short", "HEAD") == branch
        assert sh(checkout, "rev-parse", "HEAD") == world.base
        assert sh(checkout, "status", "--porcelain") == " M README.md"


def test_what_a_link_in_place_of_a_worktree_leads_to_is_not_rescued(world: RealWorld, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "id").write_text("secret\n")
    path = Path(world.trees, "plan/node/1")
    asyncio.run(world.adapter.add_worktree(world.repo, str(path), world.base))
    _become_a_link(world, path, private)

    assert asyncio.run(world.adapter.rescue(world.repo, str(path), "refs/pilothouse/rescue/1", "m")) is None

    asyncio.run(world.adapter.remove_worktree(world.repo, str(path)))
    assert (private / "id").read_text() == "secret\n"


def test_another_directory_that_was_made_the_working_tree_is_not_committed(world: RealWorld) -> None:
    path = Path(world.trees, "plan/node/1")
    asyncio.run(world.adapter.add_worktree(world.repo, str(path), world.base))
    Path(world.repo, "untracked.txt").write_text("theirs\n")
    (path / "new.txt").write_text("new\n")
    sh(world.repo, "config", "extensions.worktreeConfig", "true")
    sh(path, "config", "--worktree", "core.worktree", world.repo)

    made = asyncio.run(
        world.adapter.commit_all(str(path), baseline=world.base, message="m", expects_no_changes=False, evidence_id="e")
    )

    assert isinstance(made, Committed)
    assert world.files(made.commit) == world.files(world.base) | {"new.txt": "new\n"}
