"""What only a real repository has: hooks, filters, locks, odd names, half-finished states."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.adapters.git.worlds import ENVIRONMENT, FIRST, RealWorld, merged_with, sh

from pilothouse.adapters.git import GitAdapter, process
from pilothouse.adapters.git import run as runner
from pilothouse.adapters.git.process import Ended
from pilothouse.core.plan.integration import CheckedOut, Committed, Conflict, Merged, NoEvidence, Strategy
from pilothouse.errors import BadInput, GitFailed

T = TypeVar("T")
PIN = "refs/pilothouse/plan/node/1"
RESCUE = "refs/pilothouse/plan/rescue/1"


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


@pytest.fixture
def world(tmp_path: Path) -> RealWorld:
    return RealWorld(tmp_path)


@pytest.fixture
def path(world: RealWorld) -> str:
    made = f"{world.trees}/plan/node/1"
    run(world.git.add_worktree(world.repo, made, world.base))
    return made


async def commit_all(world: RealWorld, path: str) -> Committed | NoEvidence:
    return await world.git.commit_all(
        path, baseline=world.base, message="work", expects_no_changes=False, evidence_id="n1"
    )


def committed(world: RealWorld, path: str) -> str:
    made = run(commit_all(world, path))
    assert isinstance(made, Committed)
    return made.commit


async def squash(world: RealWorld, branch: str, source: str, **more: Any) -> Merged | Conflict | CheckedOut:
    given: dict[str, Any] = {"message": "m", "strategy": Strategy.SQUASH, "pin": PIN}
    return await world.git.merge_into(world.repo, branch, source, **(given | more))


class TestInspect:
    def test_a_subdirectory_belongs_to_its_repository(self, world: RealWorld) -> None:
        found = run(world.git.inspect(f"{world.repo}/src"))
        assert (found.root, found.common_dir) == (world.repo, f"{world.repo}/.git")

    def test_a_linked_worktree_is_its_own_root_with_the_same_common_dir(self, world: RealWorld, path: str) -> None:
        found = run(world.git.inspect(path))
        assert (found.root, found.common_dir, found.head_branch) == (path, f"{world.repo}/.git", None)
        assert found.head_commit == world.base

    def test_a_bare_repository_is_reported(self, world: RealWorld, tmp_path: Path) -> None:
        sh(tmp_path, "clone", "--quiet", "--bare", world.repo, "bare")
        found = run(world.git.inspect(str(tmp_path / "bare")))
        assert found.bare
        assert found.head_commit == world.base
        assert found.checked_out == {}

    def test_an_unborn_branch_has_no_commit(self, world: RealWorld, tmp_path: Path) -> None:
        sh(tmp_path, "init", "--quiet", "--initial-branch=trunk", "new")
        found = run(world.git.inspect(str(tmp_path / "new")))
        assert (found.head_branch, found.head_commit) == ("trunk", None)

    def test_a_detached_head_has_no_branch(self, world: RealWorld) -> None:
        sh(world.repo, "checkout", "--quiet", "--detach")
        found = run(world.git.inspect(world.repo))
        assert (found.head_branch, found.head_commit, found.checked_out) == (None, world.base, {})

    def test_a_branch_being_rebased_counts_as_checked_out(self, world: RealWorld) -> None:
        stop_in_a_rebase(world, "topic")
        assert run(world.git.inspect(world.repo)).checked_out == {"topic": world.repo}

    @pytest.mark.parametrize("kind", ["file", "folder", "missing", "empty"])
    def test_what_is_no_repository_is_refused(self, world: RealWorld, tmp_path: Path, kind: str) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
        with pytest.raises(BadInput):
            run(world.git.inspect("" if kind == "empty" else str(tmp_path / kind)))

    def test_a_repository_of_another_user_is_refused_with_the_way_out(self, tmp_path: Path) -> None:
        world = RealWorld(tmp_path, {**ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
        # The variable is not one that may stay, so git is asked to assume it by configuration of the runner.
        world.adapter._git._env["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
        with pytest.raises(BadInput, match=r"safe\.directory"):
            run(world.git.inspect(world.repo))


def stop_in_a_rebase(world: RealWorld, branch: str) -> None:
    """Leave the user's checkout in the middle of a rebase of ``branch``, HEAD detached."""
    tip = world.commit({**FIRST, "README.md": "theirs\n"}, world.base)
    onto = world.commit({**FIRST, "README.md": "ours\n"}, world.base)
    world.set_ref(f"refs/heads/{branch}", tip)
    sh(world.repo, "checkout", "--quiet", branch)
    with pytest.raises(Exception, match="rebase"):
        sh(world.repo, "rebase", "--quiet", onto)


class TestTarget:
    def test_a_branch_being_rebased_is_not_moved(self, world: RealWorld) -> None:
        stop_in_a_rebase(world, "topic")
        head = world.ref("refs/heads/topic")
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        assert run(squash(world, "topic", source)) == CheckedOut(path=world.repo)
        assert world.ref("refs/heads/topic") == head

    @pytest.mark.parametrize("kind", ["target is another name", "HEAD is another name", "HEAD is a link"])
    def test_a_branch_that_is_checked_out_under_another_name_is_not_moved(self, world: RealWorld, kind: str) -> None:
        target = "main"
        if kind == "HEAD is a link":
            head = Path(world.repo, ".git/HEAD")
            head.unlink()
            head.symlink_to("refs/heads/main")
        else:
            sh(world.repo, "symbolic-ref", "refs/heads/master", "refs/heads/main")
            if kind == "HEAD is another name":
                sh(world.repo, "symbolic-ref", "HEAD", "refs/heads/master")
            else:
                target = "master"
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        assert run(squash(world, target, source)) == CheckedOut(path=world.repo)
        assert sh(world.repo, "status", "--porcelain") == ""

    def test_a_branch_being_bisected_is_not_moved(self, world: RealWorld) -> None:
        world.set_ref("refs/heads/topic", world.commit(merged_with(FIRST, a="a\n"), world.base))
        sh(world.repo, "checkout", "--quiet", "topic")
        sh(world.repo, "bisect", "start")
        sh(world.repo, "checkout", "--quiet", "--detach")
        source = world.commit(merged_with(FIRST, b="b\n"), world.base)
        assert run(squash(world, "topic", source)) == CheckedOut(path=world.repo)

    def test_a_stream_of_foreign_commits_does_not_lose_ours(self, world: RealWorld, tmp_path: Path) -> None:
        world.set_ref("refs/heads/target", world.base)
        sources = [world.commit(merged_with(FIRST, **{f"s{n}": "x\n"}), world.base) for n in range(4)]

        async def others(git: GitAdapter) -> None:
            for n in range(6):
                source = await asyncio.to_thread(world.commit, merged_with(FIRST, **{f"o{n}": "x\n"}), world.base)
                found = await git.merge_into(
                    world.repo, "target", source, message="m", strategy=Strategy.MERGE,
                    pin=f"refs/pilothouse/other/{n}",
                )  # fmt: skip
                assert isinstance(found, Merged)

        async def race() -> None:
            other = GitAdapter(ENVIRONMENT)
            async with asyncio.TaskGroup() as group:
                group.create_task(others(other))
                for n, source in enumerate(sources):
                    group.create_task(squash(world, "target", source, pin=f"refs/pilothouse/plan/{n}"))

        run(race())
        head = world.ref("refs/heads/target")
        assert head is not None
        expected = {f"s{n}.txt" for n in range(4)} | {f"o{n}.txt" for n in range(6)} | set(FIRST)
        assert set(world.files(head)) == expected

    def test_a_ref_lock_somebody_holds_is_waited_for(self, world: RealWorld) -> None:
        world.set_ref("refs/heads/target", world.base)
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        lock = Path(world.repo, ".git/refs/heads/target.lock")
        lock.touch()

        async def release_during_the_merge() -> Merged | Conflict | CheckedOut:
            merging = asyncio.create_task(squash(world, "target", source))
            # The merge commit exists once the merge has reached the ref; only then is the lock let go.
            while (
                not (await asyncio.to_thread(sh, world.repo, "fsck", "--unreachable", "--no-progress")).count("commit")
                > 1
            ):
                await asyncio.sleep(0)
            lock.unlink()
            return await merging

        assert isinstance(run(release_during_the_merge()), Merged)

    def test_edits_of_one_file_merge_by_lines_when_the_first_leaf_is_known(self, world: RealWorld) -> None:
        world.set_ref("refs/heads/target", world.base)
        lines = [f"line {n}\n" for n in range(20)]
        shared = world.commit(merged_with(FIRST, shared="".join(lines)), world.base)
        top, bottom = ["top\n", *lines[1:]], [*lines[:-1], "bottom\n"]
        first = world.commit(merged_with(FIRST, shared="".join(top)), shared)
        second = world.commit(merged_with(FIRST, shared="".join(bottom)), shared)
        run(squash(world, "target", first))
        other = "refs/pilothouse/plan/node/2"
        assert isinstance(run(squash(world, "target", second, pin=other)), Conflict)
        merged = run(squash(world, "target", second, pin=other, already_merged=[first]))
        assert isinstance(merged, Merged)
        assert world.files(merged.commit)["shared.txt"] == "".join(["top\n", *lines[1:-1], "bottom\n"])


class TestMergeForward:
    def test_repeated_later_it_makes_the_same_commit(self, world: RealWorld) -> None:
        tree = sh(world.repo, "rev-parse", f"{world.commit(merged_with(FIRST, a='a'), world.base)}^{{tree}}")
        old = {"GIT_COMMITTER_DATE": "1700000000 +0100"}
        left = sh(world.repo, "commit-tree", tree, "-p", world.base, "-m", "left", env=old)
        right = world.commit(merged_with(FIRST, b="b\n"), world.base)
        merged = run(world.git.merge_forward(world.repo, [left, right], "join"))
        assert isinstance(merged, Merged)
        times = sh(world.repo, "log", "--no-walk", "--format=%ct %at", merged.commit).split()
        assert times == [sh(world.repo, "log", "-1", "--format=%ct", right)] * 2


class TestBare:
    def test_a_bare_repository_is_as_good_as_any(self, world: RealWorld, tmp_path: Path) -> None:
        sh(tmp_path, "clone", "--quiet", "--bare", world.repo, "bare.git")
        bare, path = str(tmp_path / "bare.git"), f"{world.trees}/plan/node/1"

        async def node() -> Merged | Conflict | CheckedOut:
            await world.git.add_worktree(bare, path, world.base)
            world.write(path, "new.txt", "n\n")
            made = await commit_all(world, path)
            assert isinstance(made, Committed)
            merged = await world.git.merge_into(
                bare, "main", made.commit, message="m", strategy=Strategy.SQUASH, pin=PIN
            )
            await world.git.remove_worktree(bare, path)
            return merged

        merged = run(node())
        assert isinstance(merged, Merged) and merged.moved
        assert sh(bare, "rev-parse", "main") == merged.commit


class TestEconomy:
    """Nodes per second are bounded by processes per node, so their number is part of what is promised."""

    @pytest.fixture
    def commands(self, world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        started: list[str] = []

        async def counted(argv: Sequence[str], env: Mapping[str, str], **more: Any) -> Ended:
            started.append(" ".join(argv[3 + len(runner.OPTIONS) :][:1]))
            return await process.run_process(argv, env, **more)

        run(world.git.create_branch(world.repo, "target", world.base))
        # What is asked once per repository is asked here.
        run(squash(world, "target", world.commit(merged_with(FIRST, a="a\n"), world.base), pin=f"{PIN}0"))
        monkeypatch.setattr(runner, "run_process", counted)
        return started

    def test_a_node_takes_nine_processes_from_worktree_to_removal(self, world: RealWorld, commands: list[str]) -> None:
        async def node() -> None:
            path = f"{world.trees}/plan/node/1"
            await world.git.add_worktree(world.repo, path, world.base)
            world.write(path, "new.txt", "n\n")
            made = await commit_all(world, path)
            assert isinstance(made, Committed)
            await world.git.pin(world.repo, f"{PIN}1", made.commit)
            assert isinstance(await squash(world, "target", made.commit), Merged)
            assert await world.git.rescue(world.repo, path, RESCUE, "m", kept=made.commit) is None
            await world.git.remove_worktree(world.repo, path)

        run(node())
        once_per_repository = ["config"]
        assert [command for command in commands if command not in once_per_repository] == [
            "worktree",
            *("add", "commit"),
            "update-ref",
            *("merge-tree", "commit-tree", "update-ref"),
            "status",
            "worktree",
        ]

    def test_leaves_that_share_only_the_base_are_merged_without_a_merge_base_of_our_own(
        self, world: RealWorld, commands: list[str]
    ) -> None:
        leaves = [world.commit(merged_with(FIRST, **{name: f"{name}\n"}), world.base) for name in ("c", "d", "e")]
        run(squash(world, "target", leaves[0], pin=f"{PIN}c"))
        run(squash(world, "target", leaves[1], pin=f"{PIN}d", already_merged=leaves[:1]))
        commands.clear()
        run(squash(world, "target", leaves[2], pin=f"{PIN}e", already_merged=leaves[:2]))
        assert commands == ["merge-tree", "commit-tree", "update-ref"]

    def test_a_branch_that_others_moved_after_our_last_merge_is_looked_at_again(
        self, world: RealWorld, commands: list[str]
    ) -> None:
        theirs = world.commit(merged_with(FIRST, theirs="t\n"), world.base)
        sh(world.repo, "update-ref", "refs/heads/target", theirs)
        ours = world.commit(merged_with(FIRST, ours="o\n"), world.base)
        assert isinstance(run(squash(world, "target", ours, pin=f"{PIN}o")), Merged)
        assert "for-each-ref" in commands
        assert {"theirs.txt", "ours.txt"} <= set(sh(world.repo, "ls-tree", "--name-only", "target").split())


class TestWorktrees:
    def test_twelve_at_once_with_the_same_last_name(self, world: RealWorld) -> None:
        paths = [f"{world.trees}/plan/n{n}/1" for n in range(12)]

        async def all_at_once() -> None:
            await asyncio.gather(*(world.git.add_worktree(world.repo, path, world.base) for path in paths))
            await asyncio.gather(*(world.git.remove_worktree(world.repo, path) for path in paths[:6]))

        run(all_at_once())
        listed = sh(world.repo, "worktree", "list", "--porcelain")
        assert [f"worktree {path}\n" in listed for path in paths] == [False] * 6 + [True] * 6
        assert not Path(world.trees, "plan/n0").exists()

    def test_adding_and_removing_at_once_disturb_nobody(self, world: RealWorld) -> None:
        async def comes_and_goes(n: int) -> None:
            for attempt in range(4):
                path = f"{world.trees}/plan/n{n}/{attempt}"
                await world.git.add_worktree(world.repo, path, world.base)
                await world.git.remove_worktree(world.repo, path)

        async def all_at_once() -> None:
            async with asyncio.TaskGroup() as group:
                for n in range(6):
                    group.create_task(comes_and_goes(n))

        run(all_at_once())
        assert sh(world.repo, "worktree", "list", "--porcelain").count("worktree ") == 1

    def test_a_registration_without_directory_is_replaced(self, world: RealWorld, path: str) -> None:
        sh(world.trees, "-C", world.trees, "version")
        Path(path).rename(f"{world.trees}/moved")
        run(world.git.add_worktree(world.repo, path, world.base))
        assert world.worktree_files(path) == FIRST

    def test_a_half_made_one_is_replaced(self, world: RealWorld, path: str) -> None:
        admin = Path(sh(path, "rev-parse", "--absolute-git-dir"))
        (admin / "locked").write_text("initializing\n")
        (admin / "index").unlink()
        Path(path, "README.md").unlink()
        run(world.git.add_worktree(world.repo, path, world.base))
        assert world.worktree_files(path) == FIRST
        assert sh(path, "status", "--porcelain") == ""

    def test_a_repository_of_its_own_is_not_replaced(self, world: RealWorld) -> None:
        own = f"{world.trees}/plan/node/1"
        Path(own).mkdir(parents=True)
        sh(own, "init", "--quiet")
        with pytest.raises(GitFailed):
            run(world.git.add_worktree(world.repo, own, world.base))
        assert Path(own, ".git/HEAD").exists()

    def test_links_in_a_removed_worktree_are_not_followed(self, world: RealWorld, path: str, tmp_path: Path) -> None:
        precious = tmp_path / "precious"
        precious.mkdir()
        (precious / "file").write_text("keep\n")
        Path(path, "link").symlink_to(precious)
        run(world.git.remove_worktree(world.repo, path))
        assert not os.path.lexists(path)
        assert (precious / "file").read_text() == "keep\n"

    def test_a_worktree_that_became_a_link_is_unlinked_only(self, world: RealWorld, path: str, tmp_path: Path) -> None:
        other = f"{world.trees}/plan/other/1"
        run(world.git.add_worktree(world.repo, other, world.base))
        Path(path).rename(tmp_path / "aside")
        Path(path).symlink_to(other)
        run(world.git.remove_worktree(world.repo, path))
        assert not os.path.lexists(path)
        assert world.worktree_files(other) == FIRST
        assert run(world.git.worktree_head(other)) == world.base

    def test_read_only_directories_are_removed_too(self, world: RealWorld, path: str) -> None:
        module = Path(path, "cache/module")
        module.mkdir(parents=True)
        (module / "file").touch()
        (module / "file").chmod(0o400)
        module.chmod(0o500)
        run(world.git.remove_worktree(world.repo, path))
        assert not os.path.lexists(path)

    def test_a_branch_somebody_checked_out_there_is_not_moved_by_our_commit(self, world: RealWorld, path: str) -> None:
        world.set_ref("refs/heads/feature", world.base)
        sh(path, "checkout", "--quiet", "feature")
        world.write(path, "new.txt", "n\n")
        commit = committed(world, path)
        assert commit != world.base
        assert world.ref("refs/heads/feature") == world.base

    def test_a_head_that_is_a_link_is_not_taken_for_detached_whatever_lies_where_it_leads(
        self, world: RealWorld, path: str
    ) -> None:
        before = world.ref("refs/heads/main")
        admin = Path(sh(path, "rev-parse", "--absolute-git-dir"))
        (admin / "refs/heads").mkdir(parents=True, exist_ok=True)
        (admin / "refs/heads/main").write_text(f"{world.base}\n")
        (admin / "HEAD").unlink()
        (admin / "HEAD").symlink_to("refs/heads/main")
        world.write(path, "new.txt", "n\n")
        commit = committed(world, path)
        assert commit != world.base
        assert world.ref("refs/heads/main") == before

    def test_a_submodule_is_checked_out(self, world: RealWorld, tmp_path: Path) -> None:
        library = RealWorld(tmp_path / "library")
        allow = {"GIT_ALLOW_PROTOCOL": "file"}
        sh(world.repo, "submodule", "add", "--quiet", library.repo, "lib", env=allow)
        sh(world.repo, "commit", "--quiet", "--message=with a submodule")
        git = GitAdapter({**ENVIRONMENT, **allow})
        path = f"{world.trees}/plan/sub/1"
        run(git.add_worktree(world.repo, path, sh(world.repo, "rev-parse", "HEAD")))
        assert Path(path, "lib/README.md").read_text() == "hello\n"
        run(git.remove_worktree(world.repo, path))
        assert not os.path.lexists(path)
        assert Path(world.repo, "lib/README.md").exists()


class TestCommitAll:
    NAMES = ("a\nb.txt", 'quote".txt', "ünï.txt", " leading", "tab\there", "-n", ":(top)x")

    def test_any_file_name_will_do(self, world: RealWorld, path: str) -> None:
        for name in self.NAMES:
            world.write(path, name, "x\n")
        commit = committed(world, path)
        assert set(world.files(commit)) == {*FIRST, *self.NAMES}
        found = run(world.git.summary(world.repo, world.base, commit))
        assert {change.path for change in found.changes} == set(self.NAMES)

    def test_conflicts_name_odd_files_as_they_are(self, world: RealWorld) -> None:
        sides = [world.commit({**FIRST, **dict.fromkeys(self.NAMES, f"{side}\n")}, world.base) for side in "ab"]
        found = run(world.git.merge_forward(world.repo, sides, "m"))
        assert isinstance(found, Conflict)
        assert set(found.files) == set(self.NAMES)

    @pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock"])
    def test_a_stale_lock_is_waited_for_and_removed(
        self, world: RealWorld, path: str, lock: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pilothouse.adapters.git.locks._UNHELD_SECONDS", 0.1)
        world.write(path, "new.txt", "n\n")
        Path(sh(path, "rev-parse", "--absolute-git-dir"), lock).touch()
        assert "new.txt" in world.files(committed(world, path))

    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
    def test_a_lock_is_left_to_a_process_that_has_it_open_until_that_ends(
        self, world: RealWorld, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pilothouse.adapters.git.locks._UNHELD_SECONDS", 0.05)
        monkeypatch.setattr("pilothouse.adapters.git.locks._HELD_SECONDS", 0.2)
        world.write(path, "new.txt", "n\n")
        lock = Path(sh(path, "rev-parse", "--absolute-git-dir"), "index.lock")
        program = "import sys; held = open(sys.argv[1], 'w'); print(flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as slow:
            assert slow.stdout is not None and slow.stdout.readline()
            with pytest.raises(GitFailed, match=str(slow.pid)):
                run(commit_all(world, path))
            assert lock.exists()
        assert "new.txt" in world.files(committed(world, path))

    def test_hooks_do_not_run(self, world: RealWorld) -> None:
        hooks = Path(world.repo, ".git/hooks")
        hooks.mkdir(exist_ok=True)
        names = (
            "pre-commit",
            "commit-msg",
            "post-commit",
            "post-checkout",
            "reference-transaction",
            "post-index-change",
        )
        for name in names:
            hook = hooks / name
            hook.write_text(f"#!/bin/sh\ntouch {world.repo}/../hook-ran\nexit 1\n")
            hook.chmod(0o755)
        path = f"{world.trees}/plan/node/1"
        run(world.git.add_worktree(world.repo, path, world.base))
        world.write(path, "new.txt", "n\n")
        commit = committed(world, path)
        run(world.git.create_branch(world.repo, "target", world.base))
        assert isinstance(run(squash(world, "target", commit)), Merged)
        run(world.git.remove_worktree(world.repo, path))
        assert not Path(world.repo, "../hook-ran").exists()

    def test_a_checkout_of_the_users_that_is_under_way_is_seen_through(self, world: RealWorld, tmp_path: Path) -> None:
        begun, go = tmp_path / "begun", tmp_path / "go"
        script = f"touch {begun}; i=0; while [ ! -e {go} ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; cat"
        sh(world.repo, "config", "filter.slow.smudge", script)
        newer = world.commit({**FIRST, ".gitattributes": "*.slow filter=slow\n", "b.slow": "b\n"}, world.base)

        async def cancelled_in_the_middle() -> None:
            moving = asyncio.create_task(world.git.fast_forward_checkout(world.repo, "main", newer))
            while not begun.exists():
                await asyncio.sleep(0.005)
            moving.cancel()
            await asyncio.sleep(0)
            go.touch()
            with pytest.raises(asyncio.CancelledError):
                await moving

        run(cancelled_in_the_middle())
        assert world.ref("refs/heads/main") == newer
        assert sh(world.repo, "status", "--porcelain") == ""

    def test_filters_of_the_repository_are_honoured(self, world: RealWorld) -> None:
        sh(world.repo, "config", "filter.upper.clean", "tr a-z A-Z")
        sh(world.repo, "config", "filter.upper.smudge", "tr A-Z a-z")
        base = world.commit({**FIRST, ".gitattributes": "*.up filter=upper\n", "x.up": "LOUD\n"}, world.base)
        path = f"{world.trees}/plan/node/1"
        run(world.git.add_worktree(world.repo, path, base))
        assert Path(path, "x.up").read_text() == "loud\n"
        world.write(path, "y.up", "more\n")
        assert world.files(committed(world, path))["y.up"] == "MORE\n"

    def test_ignored_files_stay_out(self, world: RealWorld, path: str) -> None:
        world.write(path, ".gitignore", "build/\n.pilothouse/\n.orchestrator/\n")
        world.write(path, "build/out.o", "o\n")
        world.write(path, ".pilothouse/x", "x\n")
        world.write(path, ".orchestrator/evidence/n1.json", "{}")
        assert set(world.files(committed(world, path))) == {*FIRST, ".gitignore"}

    def test_an_embedded_repository_is_recorded_and_warned_about(
        self, world: RealWorld, path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        RealWorld(Path(path, "inner"))
        committed(world, path)
        assert "embedded_repository" in caplog.text

    def test_going_back_behind_the_baseline_is_no_work(self, world: RealWorld) -> None:
        base = world.commit(merged_with(FIRST, dependency="d\n"), world.base)
        path = f"{world.trees}/plan/node/1"
        run(world.git.add_worktree(world.repo, path, base))
        sh(path, "reset", "--quiet", "--hard", "HEAD~1")
        made = run(world.git.commit_all(path, baseline=base, message="m", expects_no_changes=False, evidence_id="n1"))
        assert made == NoEvidence()

    def test_without_a_git_file_the_surrounding_repository_is_not_committed_to(self, world: RealWorld) -> None:
        inside = f"{world.repo}/trees/plan/node/1"
        run(world.git.add_worktree(world.repo, inside, world.base))
        Path(inside, ".git").unlink()
        with pytest.raises(GitFailed):
            run(commit_all(world, inside))
        with pytest.raises(GitFailed):
            run(world.git.worktree_head(inside))
        assert world.ref("refs/heads/main") == world.base

    def test_the_committer_is_pilothouse_only_where_nobody_is_configured(self, world: RealWorld, path: str) -> None:
        nobody = {
            name: value for name, value in ENVIRONMENT.items() if "AUTHOR" not in name and "COMMITTER" not in name
        }
        sh(world.repo, "config", "user.name", "Configured")
        git = GitAdapter(nobody)
        world.write(path, "new.txt", "n\n")
        made = run(git.commit_all(path, baseline=world.base, message="m", expects_no_changes=False, evidence_id="n1"))
        assert isinstance(made, Committed)
        who = sh(world.repo, "log", "-1", "--format=%an %cn %ae", made.commit)
        assert who == "Configured Configured pilothouse@localhost.invalid"

    def test_a_name_that_is_configured_later_counts_from_then_on(self, world: RealWorld, path: str) -> None:
        git = GitAdapter({"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"})
        work: dict[str, Any] = {"baseline": world.base, "message": "m", "expects_no_changes": False}
        for name in ("Pilothouse", "Configured"):
            world.write(path, "new.txt", f"{name}\n")
            made = run(git.commit_all(path, **work, evidence_id="n1"))
            assert isinstance(made, Committed)
            assert sh(world.repo, "log", "-1", "--format=%an", made.commit) == name
            sh(world.repo, "config", "user.name", "Configured")

    def test_the_address_in_email_is_the_users(self, world: RealWorld, path: str) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "EMAIL": "me@example.invalid"}
        git = GitAdapter({**environ, "GIT_CONFIG_NOSYSTEM": "1"})
        world.write(path, "new.txt", "n\n")
        made = run(git.commit_all(path, baseline=world.base, message="m", expects_no_changes=False, evidence_id="n1"))
        assert isinstance(made, Committed)
        assert sh(world.repo, "log", "-1", "--format=%an %ae", made.commit) == "Pilothouse me@example.invalid"


class TestRescue:
    def save(self, world: RealWorld, path: str) -> str:
        saved = run(world.git.rescue(world.repo, path, RESCUE, "rescued"))
        assert saved is not None
        return saved.commit

    def test_index_and_head_stay_byte_for_byte(self, world: RealWorld, path: str) -> None:
        world.write(path, "staged.txt", "s\n")
        sh(path, "add", "staged.txt")
        world.write(path, "new.txt", "n\n")
        admin = Path(sh(path, "rev-parse", "--absolute-git-dir"))
        before = [((admin / name).read_bytes(), (admin / name).stat().st_mtime_ns) for name in ("index", "HEAD")]
        commit = self.save(world, path)
        assert set(world.files(commit)) == {*FIRST, "staged.txt", "new.txt"}
        assert [
            ((admin / name).read_bytes(), (admin / name).stat().st_mtime_ns) for name in ("index", "HEAD")
        ] == before

    def test_it_works_under_an_index_lock_and_in_the_middle_of_a_merge(self, world: RealWorld, path: str) -> None:
        world.write(path, "README.md", "ours\n")
        sh(path, "commit", "--quiet", "--all", "--message=ours")
        other = world.commit({**FIRST, "README.md": "theirs\n"}, world.base)
        with pytest.raises(Exception, match="merge"):
            sh(path, "merge", "--quiet", other)
        Path(sh(path, "rev-parse", "--absolute-git-dir"), "index.lock").touch()
        assert "<<<<<<<" in world.files(self.save(world, path))["README.md"]

    @pytest.mark.parametrize("replaced", [False, True])
    def test_it_works_when_the_git_file_is_gone_or_replaced(self, world: RealWorld, path: str, replaced: bool) -> None:
        world.write(path, "new.txt", "n\n")
        Path(path, ".git").unlink()
        if replaced:
            sh(path, "init", "--quiet")
        assert set(world.files(self.save(world, path))) == {*FIRST, "new.txt"}

    def test_what_cannot_be_read_does_not_keep_the_rest_from_being_saved(self, world: RealWorld, path: str) -> None:
        Path(path, "aaa").mkdir()
        sh(Path(path, "aaa"), "init", "--quiet")
        world.write(path, "aaa/x.txt", "x\n")
        world.write(path, "new.txt", "n\n")
        assert "new.txt" in world.files(self.save(world, path))

    def test_a_directory_that_is_no_worktree_is_said(self, world: RealWorld) -> None:
        other = f"{world.trees}/plan/other/1"
        Path(other).mkdir(parents=True)
        with pytest.raises(GitFailed):
            run(world.git.rescue(world.repo, other, RESCUE, "m"))


class TestTraps:
    """What ran in a worktree leaves named pipes where git keeps files. Opening one waits for ever for a writer."""

    @pytest.mark.parametrize("name", ["HEAD", "commondir", "gitdir", "index"])
    def test_a_pipe_in_place_of_a_file_of_gits_own_fails_the_commit_at_once_and_nobody_else(
        self, world: RealWorld, path: str, name: str
    ) -> None:
        world.write(path, "new.txt", "n\n")
        place = Path(sh(path, "rev-parse", "--absolute-git-dir"), name)
        place.unlink()
        os.mkfifo(place)
        with pytest.raises(GitFailed, match="no longer a worktree"):
            run(commit_all(world, path))
        other = f"{world.trees}/plan/other/1"
        run(world.git.add_worktree(world.repo, other, world.base))
        world.write(other, "new.txt", "n\n")
        assert committed(world, other) != world.base

    def test_a_worktree_that_nothing_leads_to_any_more_keeps_no_other_from_being_added(
        self, world: RealWorld, path: str
    ) -> None:
        place = Path(sh(path, "rev-parse", "--absolute-git-dir"), "gitdir")
        for gone in (Path(path, ".git"), place):
            gone.unlink()
        os.mkfifo(place)
        with pytest.raises(GitFailed, match="not a worktree"):
            run(world.git.rescue(world.repo, path, RESCUE, "rescued"))
        run(world.git.add_worktree(world.repo, f"{world.trees}/plan/other/1", world.base))

    def test_with_a_pipe_in_place_of_head_nothing_is_saved_and_that_is_said(self, world: RealWorld, path: str) -> None:
        head = Path(sh(path, "rev-parse", "--absolute-git-dir"), "HEAD")
        head.unlink()
        os.mkfifo(head)
        with pytest.raises(GitFailed, match="nothing could be saved"):
            run(world.git.rescue(world.repo, path, RESCUE, "rescued"))

    def test_a_pipe_in_place_of_the_pointer_keeps_nothing_from_being_saved(self, world: RealWorld, path: str) -> None:
        world.write(path, "new.txt", "n\n")
        pointer = Path(path, ".git")
        pointer.unlink()
        os.mkfifo(pointer)
        with pytest.raises(GitFailed, match="no longer a worktree"):
            run(commit_all(world, path))
        saved = run(world.git.rescue(world.repo, path, RESCUE, "rescued"))
        assert saved is not None and world.files(saved.commit)["new.txt"] == "n\n"


class TestSweep:
    def orphan(self, world: RealWorld, name: str) -> Path:
        made = Path(world.trees, "plan", name, "1")
        made.mkdir(parents=True)
        (made / "file").touch()
        return made

    def test_links_are_unlinked_or_left_but_never_followed(self, world: RealWorld, tmp_path: Path) -> None:
        outside = tmp_path / "outside/node/1"
        outside.mkdir(parents=True)
        (outside / "file").touch()
        self.orphan(world, "a")
        attempt, plan = Path(world.trees, "plan/a/2"), Path(world.trees, "elsewhere")
        attempt.symlink_to(outside)
        plan.symlink_to(tmp_path / "outside")
        swept = run(world.git.sweep(world.repo, world.trees, frozenset()))
        assert swept == {f"{world.trees}/plan/a/1": "removed", f"{world.trees}/plan/a/2": "removed"}
        assert (outside / "file").exists()
        assert plan.is_symlink() and not os.path.lexists(attempt)

    def test_a_worktree_of_another_repository_is_kept(self, world: RealWorld, tmp_path: Path) -> None:
        other = RealWorld(tmp_path / "other")
        path = f"{world.trees}/plan/other/1"
        run(other.git.add_worktree(other.repo, path, other.base))
        assert run(world.git.sweep(world.repo, world.trees, frozenset())) == {}
        assert Path(path, "README.md").exists()

    def test_a_registered_worktree_that_lost_its_git_file_is_kept(self, world: RealWorld, path: str) -> None:
        Path(path, ".git").unlink()
        assert run(world.git.sweep(world.repo, world.trees, frozenset())) == {}

    def test_a_failure_is_reported_and_the_rest_goes_on(
        self, world: RealWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from pilothouse.adapters.git import removal, sweep

        stuck, fine = self.orphan(world, "a"), self.orphan(world, "b")

        def remove(path: Path) -> None:
            if path == stuck:
                raise PermissionError(13, "Permission denied")
            removal.remove_tree(path)

        monkeypatch.setattr(sweep, "remove_tree", remove)
        swept = run(world.git.sweep(world.repo, world.trees, frozenset()))
        assert swept == {str(stuck): "Permission denied", str(fine): "removed"}
        assert stuck.exists() and not fine.parent.exists()
