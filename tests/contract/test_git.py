"""What every implementation of the ``Git`` port does: the same tests over real repositories and the twin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.adapters.git.worlds import FIRST, RealWorld, TwinWorld, World, merged_with

from pilothouse.core.plan.integration import (
    CheckedOut,
    Committed,
    Conflict,
    Merged,
    NoEvidence,
    Rescued,
    Strategy,
)
from pilothouse.errors import BadInput, GitFailed

T = TypeVar("T")
PIN = "refs/pilothouse/plan/node/1"


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


@pytest.fixture(params=["real", "twin"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return RealWorld(tmp_path) if request.param == "real" else TwinWorld()


def place(world: World, node: str = "node", attempt: int = 1) -> str:
    return f"{world.trees}/plan/{node}/{attempt}"


def evidence(evidence_id: str = "n1", **changes: object) -> str:
    good = {"version": 1, "nodeId": evidence_id, "timestamp": "2026-02-09T10:00:00Z", "summary": "looked at it"}
    return json.dumps(good | changes)


async def commit_all(world: World, path: str, **changes: Any) -> Committed | NoEvidence:
    given: dict[str, Any] = {
        "baseline": world.base,
        "message": "work",
        "expects_no_changes": False,
        "evidence_id": "n1",
    }
    return await world.git.commit_all(path, **(given | changes))


async def squash(world: World, source: str, pin: str = PIN, **more: Any) -> Merged | Conflict | CheckedOut:
    given: dict[str, Any] = {"message": "squashed", "strategy": Strategy.SQUASH, "pin": pin}
    return await world.git.merge_into(world.repo, "target", source, **(given | more))


class TestLooking:
    def test_version_is_three_numbers(self, world: World) -> None:
        assert run(world.git.version()) >= (2, 38, 0)

    def test_inspect_tells_head_and_what_is_checked_out(self, world: World) -> None:
        found = run(world.git.inspect(world.repo))
        assert (found.root, found.head_branch, found.head_commit) == (world.repo, "main", world.base)
        assert found.checked_out == {"main": world.repo}
        assert not found.bare

    def test_inspect_refuses_a_path_that_is_not_there(self, world: World) -> None:
        with pytest.raises(BadInput):
            run(world.git.inspect(f"{world.trees}/nowhere"))

    def test_resolve_reads_branches_tags_and_commits(self, world: World) -> None:
        world.set_ref("refs/tags/v1", world.base)
        for name in ("main", "v1", "HEAD", world.base, world.base[:10]):
            assert run(world.git.resolve(world.repo, name)) == world.base

    def test_resolve_prefers_the_branch_to_a_tag_of_its_name(self, world: World) -> None:
        other = world.commit(merged_with(FIRST, a="a\n"), world.base)
        world.set_ref("refs/tags/main", other)
        assert run(world.git.resolve(world.repo, "main")) == world.base

    @pytest.mark.parametrize(
        "name", ["", "nope", "-n", "--all", "^main", "a b", "main\nmain", "f" * 40, "main:README.md"]
    )
    def test_resolve_refuses_what_names_no_commit(self, world: World, name: str) -> None:
        with pytest.raises(BadInput):
            run(world.git.resolve(world.repo, name))

    @pytest.mark.parametrize("name", ["main", "feature/search", "a.b", "ünïcode", "x@y", "a-b_c"])
    def test_good_branch_names_pass(self, world: World, name: str) -> None:
        run(world.git.check_branch_name(name))

    @pytest.mark.parametrize(
        "name",
        ["", "-x", "a..b", "a b", "a~1", "@{-1}", "@", "HEAD", "refs/heads/x", "a.lock", ".a", "a/.b", "a/", "/a",
         "a//b", "a\nb", "a\x00b", "a\\b", "a.", "x" * 300],
    )  # fmt: skip
    def test_bad_branch_names_are_refused(self, world: World, name: str) -> None:
        with pytest.raises(BadInput):
            run(world.git.check_branch_name(name))

    def test_a_name_is_good_only_beside_the_branches_there_are(self, world: World) -> None:
        run(world.git.create_branch(world.repo, "feature/one", world.base))
        for name in ("main", "feature/two", "feature/one", "feature/on", "features", "mai"):
            run(world.git.check_branch_name(name, world.repo))
        for name in ("feature", "feature/one/more", "main/below", "main/far/below"):
            with pytest.raises(BadInput):
                run(world.git.check_branch_name(name, world.repo))


class TestRefs:
    def test_a_branch_is_created_once(self, world: World) -> None:
        other = world.commit(merged_with(FIRST, a="a\n"), world.base)
        assert run(world.git.create_branch(world.repo, "target", world.base)) is True
        assert run(world.git.create_branch(world.repo, "target", other)) is False
        assert run(world.git.branch_head(world.repo, "target")) == world.base

    def test_a_missing_branch_has_no_head(self, world: World) -> None:
        assert run(world.git.branch_head(world.repo, "nope")) is None

    def test_a_branch_below_another_is_refused(self, world: World) -> None:
        with pytest.raises(BadInput):
            run(world.git.create_branch(world.repo, "main/below", world.base))

    def test_pinning_twice_is_pinning_once(self, world: World) -> None:
        run(world.git.pin(world.repo, PIN, world.base))
        run(world.git.pin(world.repo, PIN, world.base))
        assert world.ref(PIN) == world.base

    def test_a_pin_moves_forward_and_never_loses_a_commit(self, world: World) -> None:
        newer = world.commit(merged_with(FIRST, a="a\n"), world.base)
        beside = world.commit(merged_with(FIRST, b="b\n"), world.base)
        run(world.git.pin(world.repo, PIN, world.base))
        run(world.git.pin(world.repo, PIN, newer))
        with pytest.raises(GitFailed):
            run(world.git.pin(world.repo, PIN, beside))
        assert world.ref(PIN) == newer

    @pytest.mark.parametrize("ref", ["refs/heads/main", "main", "refs/pilothouse/../heads/x", "refs/pilothouse/a b"])
    def test_only_our_own_refs_are_pinned(self, world: World, ref: str) -> None:
        with pytest.raises(BadInput):
            run(world.git.pin(world.repo, ref, world.base))

    def test_refs_below_a_prefix_go_and_others_stay(self, world: World) -> None:
        for ref in ("plan/a/1", "plan/b/1", "plan2/a/1"):
            run(world.git.pin(world.repo, f"refs/pilothouse/{ref}", world.base))
        for _ in range(2):
            run(world.git.delete_refs(world.repo, "plan"))
        assert [world.ref(f"refs/pilothouse/{ref}") for ref in ("plan/a/1", "plan/b/1")] == [None, None]
        assert world.ref("refs/pilothouse/plan2/a/1") == world.base
        assert world.ref("refs/heads/main") == world.base

    def test_deleting_everything_by_an_empty_prefix_is_refused(self, world: World) -> None:
        with pytest.raises(BadInput):
            run(world.git.delete_refs(world.repo, ""))


class TestMergeForward:
    def test_one_commit_stays_as_it_is(self, world: World) -> None:
        assert run(world.git.merge_forward(world.repo, [world.base], "m")) == Merged(commit=world.base, moved=False)

    def test_a_diamond_holds_both_sides(self, world: World) -> None:
        left = world.commit(merged_with(FIRST, left="l\n"), world.base)
        right = world.commit(merged_with(FIRST, right="r\n"), world.base)
        merged = run(world.git.merge_forward(world.repo, [left, right], "join"))
        assert isinstance(merged, Merged)
        assert world.files(merged.commit) == merged_with(FIRST, left="l\n", right="r\n")
        assert world.parents(merged.commit) == [left, right]
        assert world.message(merged.commit) == "join"

    def test_three_dependencies_are_merged_in_their_order(self, world: World) -> None:
        sides = [world.commit(merged_with(FIRST, **{name: "x\n"}), world.base) for name in "abc"]
        merged = run(world.git.merge_forward(world.repo, sides, "join"))
        assert isinstance(merged, Merged)
        first, last = world.parents(merged.commit)
        assert (last, world.parents(first)) == (sides[2], sides[:2])

    def test_where_one_contains_the_other_it_fast_forwards(self, world: World) -> None:
        newer = world.commit(merged_with(FIRST, a="a\n"), world.base)
        assert run(world.git.merge_forward(world.repo, [world.base, newer], "m")) == Merged(commit=newer)
        assert run(world.git.merge_forward(world.repo, [newer, world.base, newer], "m")) == Merged(
            commit=newer, moved=False
        )

    def test_a_conflict_names_the_files_and_the_commit_that_did_not_fit(self, world: World) -> None:
        left = world.commit({**FIRST, "README.md": "left\n"}, world.base)
        fits = world.commit(merged_with(FIRST, a="a\n"), world.base)
        right = world.commit({**FIRST, "README.md": "right\n"}, world.base)
        found = run(world.git.merge_forward(world.repo, [left, fits, right], "m"))
        assert isinstance(found, Conflict)
        assert (found.files, found.source) == (("README.md",), right)

    def test_edit_against_deletion_is_a_conflict(self, world: World) -> None:
        edited = world.commit({**FIRST, "README.md": "edited\n"}, world.base)
        deleted = world.commit({"src/main.txt": FIRST["src/main.txt"]}, world.base)
        found = run(world.git.merge_forward(world.repo, [edited, deleted], "m"))
        assert isinstance(found, Conflict) and found.files == ("README.md",)

    def test_histories_without_a_common_commit_are_not_merged(self, world: World) -> None:
        stranger = world.commit({"other.txt": "x\n"})
        with pytest.raises(GitFailed):
            run(world.git.merge_forward(world.repo, [world.base, stranger], "m"))


class TestMergeInto:
    @pytest.fixture(autouse=True)
    def target(self, world: World) -> None:
        world.set_ref("refs/heads/target", world.base)

    def test_a_squash_has_one_parent_and_moves_branch_and_pin(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        merged = run(squash(world, source))
        assert isinstance(merged, Merged) and merged.moved
        assert world.parents(merged.commit) == [world.base]
        assert world.ref("refs/heads/target") == world.ref(PIN) == merged.commit
        assert world.message(merged.commit) == "squashed"

    def test_a_merge_has_two_parents_also_where_it_could_fast_forward(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        merged = run(squash(world, source, strategy=Strategy.MERGE))
        assert isinstance(merged, Merged)
        assert world.parents(merged.commit) == [world.base, source]

    def test_the_pin_makes_it_idempotent(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        first = run(squash(world, source))
        later = world.commit(merged_with(FIRST, a="a\n", z="z\n"), world.base)
        world.set_ref("refs/heads/target", later)
        assert run(squash(world, source)) == first
        assert world.ref("refs/heads/target") == later

    def test_a_branch_that_moved_without_its_pin_is_found_merged(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        first = run(squash(world, source))
        assert isinstance(first, Merged)
        run(world.git.delete_refs(world.repo, "plan"))
        assert run(squash(world, source)) == Merged(commit=first.commit, moved=False)
        assert world.ref("refs/heads/target") == world.ref(PIN) == first.commit

    def test_nothing_to_merge_moves_nothing_and_still_pins(self, world: World) -> None:
        assert run(squash(world, world.base)) == Merged(commit=world.base, moved=False)
        assert world.ref("refs/heads/target") == world.ref(PIN) == world.base

    def test_a_target_that_moved_since_keeps_what_moved_it(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        world.set_ref("refs/heads/target", world.commit(merged_with(FIRST, other="o\n"), world.base))
        merged = run(squash(world, source))
        assert isinstance(merged, Merged)
        assert world.files(merged.commit) == merged_with(FIRST, a="a\n", other="o\n")

    def test_concurrent_merges_into_one_target_all_land(self, world: World) -> None:
        sources = {name: world.commit(merged_with(FIRST, **{name: "x\n"}), world.base) for name in "abcdef"}

        async def all_at_once() -> list[Merged | Conflict | CheckedOut]:
            return await asyncio.gather(
                *(squash(world, source, f"refs/pilothouse/plan/{name}") for name, source in sources.items())
            )

        assert all(isinstance(found, Merged) and found.moved for found in run(all_at_once()))
        head = world.ref("refs/heads/target")
        assert head is not None
        assert world.files(head) == merged_with(FIRST, **dict.fromkeys(sources, "x\n"))

    def test_a_conflict_moves_nothing_and_names_files_and_source(self, world: World) -> None:
        head = world.commit({**FIRST, "README.md": "theirs\n"}, world.base)
        world.set_ref("refs/heads/target", head)
        source = world.commit({**FIRST, "README.md": "ours\n"}, world.base)
        found = run(squash(world, source))
        assert isinstance(found, Conflict)
        assert (found.files, found.source) == (("README.md",), source)
        assert (world.ref("refs/heads/target"), world.ref(PIN)) == (head, None)

    def test_a_missing_target_is_said(self, world: World) -> None:
        with pytest.raises(BadInput):
            run(world.git.merge_into(world.repo, "nope", world.base, message="m", strategy=Strategy.SQUASH, pin=PIN))

    def test_a_target_in_the_users_checkout_is_not_moved(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        found = run(world.git.merge_into(world.repo, "main", source, message="m", strategy=Strategy.SQUASH, pin=PIN))
        assert found == CheckedOut(path=world.repo)
        assert (world.ref("refs/heads/main"), world.ref(PIN)) == (world.base, None)

    def test_a_target_in_another_worktree_is_not_moved(self, world: World) -> None:
        where = f"{world.trees}/mine"
        world.checkout(where, "target")
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        assert run(squash(world, source)) == CheckedOut(path=where)
        assert world.ref("refs/heads/target") == world.base

    def test_leaves_with_a_common_ancestor_do_not_conflict_with_themselves(self, world: World) -> None:
        shared = world.commit(merged_with(FIRST, shared="v1\n"), world.base)
        first = world.commit(merged_with(FIRST, shared="v1\n", first="x\n"), shared)
        second = world.commit(merged_with(FIRST, shared="v2\n"), shared)
        assert isinstance(run(squash(world, first, "refs/pilothouse/plan/first")), Merged)
        alone = run(squash(world, second, "refs/pilothouse/plan/second"))
        assert isinstance(alone, Conflict) and alone.source == second
        merged = run(squash(world, second, "refs/pilothouse/plan/second", already_merged=[first]))
        assert isinstance(merged, Merged)
        assert world.files(merged.commit) == merged_with(FIRST, shared="v2\n", first="x\n")
        assert len(world.parents(merged.commit)) == 1

    def test_what_is_already_merged_lands_no_second_time(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        first = run(squash(world, source))
        assert isinstance(first, Merged)
        again = run(squash(world, source, "refs/pilothouse/plan/again", already_merged=[source]))
        assert again == Merged(commit=first.commit, moved=False)

    def test_merge_commits_takes_a_branch_by_name_whatever_tags_there_are(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        world.set_ref("refs/tags/target", source)
        merged = run(world.git.merge_commits(world.repo, "target", source, message="m", strategy=Strategy.SQUASH))
        assert isinstance(merged, Merged) and world.parents(merged.commit) == [world.base]

    def test_merge_commits_computes_the_same_and_moves_nothing(self, world: World) -> None:
        source = world.commit(merged_with(FIRST, a="a\n"), world.base)
        merged = run(world.git.merge_commits(world.repo, world.base, source, message="m", strategy=Strategy.SQUASH))
        assert isinstance(merged, Merged)
        assert world.files(merged.commit) == merged_with(FIRST, a="a\n")
        assert world.ref("refs/heads/target") == world.base


class TestFastForwardCheckout:
    def test_a_clean_checkout_follows_its_branch(self, world: World) -> None:
        newer = world.commit(merged_with(FIRST, a="a\n"), world.base)
        for _ in range(2):
            assert run(world.git.fast_forward_checkout(world.repo, "main", newer)) is True
        assert world.ref("refs/heads/main") == newer
        assert world.worktree_files(world.repo) == merged_with(FIRST, a="a\n")

    def test_a_dirty_checkout_is_left_alone(self, world: World) -> None:
        newer = world.commit(merged_with(FIRST, a="a\n"), world.base)
        world.write(world.repo, "README.md", "mine\n")
        assert run(world.git.fast_forward_checkout(world.repo, "main", newer)) is False
        assert world.ref("refs/heads/main") == world.base
        assert world.worktree_files(world.repo) == {**FIRST, "README.md": "mine\n"}

    def test_an_untracked_file_is_never_overwritten(self, world: World) -> None:
        newer = world.commit(merged_with(FIRST, a="a\n"), world.base)
        world.write(world.repo, "a.txt", "mine\n")
        assert run(world.git.fast_forward_checkout(world.repo, "main", newer)) is False
        assert world.worktree_files(world.repo) == merged_with(FIRST, a="mine\n")

    def test_only_a_descendant_will_do(self, world: World) -> None:
        stranger = world.commit(merged_with(FIRST, a="a\n"))
        assert run(world.git.fast_forward_checkout(world.repo, "main", stranger)) is False
        assert world.ref("refs/heads/main") == world.base

    def test_a_checkout_of_another_branch_is_left_alone(self, world: World) -> None:
        newer = world.commit(merged_with(FIRST, a="a\n"), world.base)
        world.set_ref("refs/heads/target", world.base)
        assert run(world.git.fast_forward_checkout(world.repo, "target", newer)) is False
        assert world.ref("refs/heads/target") == world.base


class TestWorktrees:
    def test_a_worktree_holds_the_commit_detached(self, world: World) -> None:
        path = place(world)
        run(world.git.add_worktree(world.repo, path, world.base))
        assert world.worktree_files(path) == FIRST
        assert run(world.git.worktree_head(path)) == world.base
        assert run(world.git.inspect(world.repo)).checked_out == {"main": world.repo}

    def test_adding_again_keeps_what_is_there(self, world: World) -> None:
        path = place(world)
        run(world.git.add_worktree(world.repo, path, world.base))
        world.write(path, "new.txt", "n\n")
        run(world.git.add_worktree(world.repo, path, world.base))
        run(commit_all(world, path))
        run(world.git.add_worktree(world.repo, path, world.base))
        assert "new.txt" in world.worktree_files(path)

    def test_a_leftover_is_replaced(self, world: World) -> None:
        path = place(world)
        world.leave(path, "junk.txt", "junk\n")
        run(world.git.add_worktree(world.repo, path, world.base))
        assert world.worktree_files(path) == FIRST

    def test_a_worktree_of_something_else_is_not_replaced(self, world: World) -> None:
        path = place(world)
        run(world.git.add_worktree(world.repo, path, world.base))
        beside = world.commit(merged_with(FIRST, b="b\n"), world.base)
        with pytest.raises(GitFailed):
            run(world.git.add_worktree(world.repo, path, beside))
        assert world.worktree_files(path) == FIRST

    def test_removing_removes_and_may_be_repeated(self, world: World) -> None:
        path = place(world)
        run(world.git.add_worktree(world.repo, path, world.base))
        world.write(path, "dirty.txt", "d\n")
        for _ in range(2):
            run(world.git.remove_worktree(world.repo, path))
        assert not world.exists(path)
        run(world.git.add_worktree(world.repo, path, world.base))
        assert world.worktree_files(path) == FIRST

    def test_the_repository_itself_is_never_removed(self, world: World) -> None:
        with pytest.raises(GitFailed):
            run(world.git.remove_worktree(world.repo, world.repo))
        assert world.worktree_files(world.repo) == FIRST


class TestSweep:
    def test_only_orphans_three_levels_down_are_removed(self, world: World) -> None:
        registered, tracked, orphan = (place(world, node) for node in ("kept", "tracked", "orphan"))
        shallow = f"{world.trees}/plan2/file-of-somebody"
        run(world.git.add_worktree(world.repo, registered, world.base))
        for path in (tracked, orphan, shallow):
            world.leave(path, "x.txt", "x\n")
        swept = run(world.git.sweep(world.repo, world.trees, frozenset({tracked})))
        assert dict(swept) == {orphan: "removed"}
        assert [world.exists(path) for path in (registered, tracked, orphan, shallow)] == [True, True, False, True]

    def test_tracked_worktrees_may_be_named_below_the_root(self, world: World) -> None:
        world.leave(place(world), "x.txt", "x\n")
        assert run(world.git.sweep(world.repo, world.trees, frozenset({"plan/node/1"}))) == {}

    def test_a_root_that_is_not_there_has_no_orphans(self, world: World) -> None:
        assert run(world.git.sweep(world.repo, f"{world.trees}/none", frozenset())) == {}


class TestCommitAll:
    @pytest.fixture(autouse=True)
    def worktree(self, world: World) -> None:
        run(world.git.add_worktree(world.repo, place(world), world.base))

    def test_a_dirty_worktree_becomes_one_commit(self, world: World) -> None:
        path = place(world)
        world.write(path, "new.txt", "n\n")
        world.write(path, "README.md", None)
        world.write(path, "src/main.txt", "changed\n")
        made = run(commit_all(world, path, message="# a title\n\nand # a body"))
        assert isinstance(made, Committed) and made.changed
        assert world.files(made.commit) == {"new.txt": "n\n", "src/main.txt": "changed\n"}
        assert world.parents(made.commit) == [world.base]
        assert world.message(made.commit) == "# a title\n\nand # a body"

    def test_repeated_after_a_crash_it_finds_its_own_commit(self, world: World) -> None:
        path = place(world)
        world.write(path, "new.txt", "n\n")
        made = run(commit_all(world, path))
        assert run(commit_all(world, path)) == made

    def test_work_that_committed_itself_counts(self, world: World) -> None:
        path = place(world)
        world.write(path, "new.txt", "n\n")
        own = run(commit_all(world, path, message="own"))
        assert isinstance(own, Committed)
        assert run(commit_all(world, path)) == Committed(commit=own.commit)
        world.write(path, "more.txt", "m\n")
        made = run(commit_all(world, path))
        assert isinstance(made, Committed)
        assert world.parents(made.commit) == [own.commit]

    def test_nothing_done_and_nothing_said_is_no_evidence(self, world: World) -> None:
        assert run(commit_all(world, place(world))) == NoEvidence()

    def test_no_changes_may_be_expected(self, world: World) -> None:
        made = run(commit_all(world, place(world), expects_no_changes=True))
        assert made == Committed(commit=world.base, changed=False)

    def test_an_evidence_file_speaks_for_work_without_changes_and_is_not_committed(self, world: World) -> None:
        path = place(world)
        world.write(path, ".orchestrator/evidence/n1.json", evidence())
        assert run(commit_all(world, path)) == Committed(commit=world.base, changed=False, evidence="looked at it")
        world.write(path, "new.txt", "n\n")
        made = run(commit_all(world, path))
        assert isinstance(made, Committed)
        assert world.files(made.commit) == merged_with(FIRST, new="n\n")

    @pytest.mark.parametrize(
        "text",
        ["", "not json", "[]", "{}", evidence(version=2), evidence(summary=" "), evidence(nodeId="n2"),
         evidence(timestamp="yesterday"), evidence(type="magic")],
    )  # fmt: skip
    def test_an_invalid_evidence_file_counts_as_absent(self, world: World, text: str) -> None:
        world.write(place(world), ".orchestrator/evidence/n1.json", text)
        assert run(commit_all(world, place(world))) == NoEvidence()

    def test_our_own_folder_is_not_committed(self, world: World) -> None:
        world.write(place(world), ".pilothouse/state.json", "{}\n")
        assert run(commit_all(world, place(world))) == NoEvidence()


class TestRescue:
    REF = "refs/pilothouse/plan/rescue/node/1"

    @pytest.fixture(autouse=True)
    def worktree(self, world: World) -> None:
        run(world.git.add_worktree(world.repo, place(world), world.base))

    def save(self, world: World) -> Rescued | None:
        return run(world.git.rescue(world.repo, place(world), self.REF, "rescued"))

    def test_a_clean_worktree_needs_none(self, world: World) -> None:
        assert self.save(world) is None
        assert world.ref(self.REF) is None

    def test_uncommitted_work_is_saved_and_the_worktree_stays_as_it_was(self, world: World) -> None:
        path = place(world)
        world.write(path, "new.txt", "n\n")
        world.write(path, "README.md", "edited\n")
        before = world.worktree_files(path)
        saved = self.save(world)
        assert saved is not None and saved.ref == self.REF
        assert world.ref(self.REF) == saved.commit
        assert world.files(saved.commit) == before == world.worktree_files(path)
        assert world.parents(saved.commit) == [world.base]
        assert run(world.git.worktree_head(path)) == world.base

    def test_saving_again_adds_nothing(self, world: World) -> None:
        world.write(place(world), "new.txt", "n\n")
        assert self.save(world) == self.save(world)

    def test_a_later_rescue_keeps_the_earlier_one(self, world: World) -> None:
        world.write(place(world), "new.txt", "n\n")
        first = self.save(world)
        world.write(place(world), "new.txt", "other\n")
        second = self.save(world)
        assert first is not None and second is not None
        assert world.parents(second.commit) == [world.base, first.commit]

    def test_a_commit_that_nothing_keeps_is_saved(self, world: World) -> None:
        world.write(place(world), "new.txt", "n\n")
        made = run(commit_all(world, place(world)))
        assert isinstance(made, Committed)
        assert self.save(world) == Rescued(ref=self.REF, commit=made.commit)
        assert self.save(world) is None

    def test_a_commit_that_a_pin_keeps_is_not(self, world: World) -> None:
        world.write(place(world), "new.txt", "n\n")
        made = run(commit_all(world, place(world)))
        assert isinstance(made, Committed)
        run(world.git.pin(world.repo, PIN, made.commit))
        assert self.save(world) is None

    def test_a_worktree_that_is_gone_has_nothing_to_save(self, world: World) -> None:
        run(world.git.remove_worktree(world.repo, place(world)))
        assert self.save(world) is None


class TestHistory:
    def test_the_summary_counts_commits_and_files(self, world: World) -> None:
        middle = world.commit(merged_with(FIRST, new="1\n2\n"), world.base)
        last = world.commit({"new.txt": "1\n2\n", "src/main.txt": "one\n2\nthree\n"}, middle)
        found = run(world.git.summary(world.repo, world.base, last))
        assert (found.commits, found.files_added, found.files_modified, found.files_deleted) == (2, 1, 1, 1)
        assert {change.path: (change.status, change.added, change.removed) for change in found.changes} == {
            "README.md": ("D", 0, 1),
            "new.txt": ("A", 2, 0),
            "src/main.txt": ("M", 1, 1),
        }

    def test_nothing_between_a_commit_and_itself(self, world: World) -> None:
        assert run(world.git.summary(world.repo, world.base, world.base)).changes == ()
        assert run(world.git.diff(world.repo, world.base, world.base)) == ""

    def test_the_diff_shows_the_lines(self, world: World) -> None:
        changed = world.commit({**FIRST, "README.md": "goodbye\n"}, world.base)
        text = run(world.git.diff(world.repo, world.base, changed))
        assert "-hello\n+goodbye\n" in text

    def test_a_long_diff_is_cut_and_says_so(self, world: World) -> None:
        long = world.commit(merged_with(FIRST, long="".join(f"{n}\n" for n in range(50_000))), world.base)
        text = run(world.git.diff(world.repo, world.base, long, 1000))
        assert text.endswith("[cut after 1000 bytes]\n")
        assert len(text) < 1100
