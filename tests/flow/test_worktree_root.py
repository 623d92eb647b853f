"""A place for worktrees that a person chose: it may hold anything, and orphans are removed from it."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.support.flow import engine, make_repo, run, run_plan

from pilothouse.adapters.git import GitAdapter

FAILS = "name: fails\njobs: [{producerId: a, task: fail, work: exit 1}]"


def test_what_else_lies_in_the_chosen_place_is_neither_swept_nor_closed(tmp_path: Path) -> None:
    chosen = tmp_path / "projects"
    precious = chosen / "mine/src/package"
    precious.mkdir(parents=True)
    chosen.chmod(0o755)

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data", worktree_root=chosen) as services:
            plan = await run_plan(services, repo, FAILS)
        root = Path(plan["nodes"][0]["worktreePath"]).parents[2]
        assert chosen in root.parents
        assert await GitAdapter().sweep(str(repo.path), str(root), frozenset()) == {}

    run(journey())
    assert precious.is_dir()
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o755
