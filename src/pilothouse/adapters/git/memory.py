"""The in-memory twin of ``GitAdapter``: same contract, no process, no disk, nothing left to chance.

The client only; what must survive a crash of the client is in :class:`MemoryWorld`. Every method is one step:
it either happened or did not, as the real one promises for whatever is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilothouse.adapters.git import evidence, memory_history, names
from pilothouse.adapters.git.memory_merge import merge_commits
from pilothouse.adapters.git.memory_world import Files, MemoryRepository, MemoryWorktree, MemoryWorld
from pilothouse.adapters.git.owned import EVIDENCE, OURS
from pilothouse.adapters.git.refs import OURS as OUR_REFS
from pilothouse.adapters.git.refs import check_ref
from pilothouse.core.plan.integration import (
    CheckedOut,
    Committed,
    Conflict,
    Merged,
    NoEvidence,
    Repository,
    Rescued,
    Strategy,
    WorkSummary,
)
from pilothouse.errors import BadInput, GitFailed

_SHORTEST_NAME = 7


class MemoryGit:
    """The ``Git`` port over a :class:`MemoryWorld`."""

    def __init__(self, world: MemoryWorld) -> None:
        self.world = world

    async def version(self) -> tuple[int, int, int]:
        return (2, 39, 5)

    async def inspect(self, path: str) -> Repository:
        try:
            found = self.world.owner(path)
        except KeyError:
            raise BadInput(f"{path!r} is not a git repository", fix="give the path of one") from None
        here = found.worktrees.get(path)
        branch = "main" if here is None else here.branch
        return Repository(
            root=path,
            common_dir=found.root if found.bare else f"{found.root}/.git",
            bare=found.bare,
            head_branch=branch,
            head_commit=found.refs.get("refs/heads/main") if here is None else found.head(here),
            checked_out={tree.branch: where for where, tree in found.worktrees.items() if tree.branch},
        )

    async def resolve(self, repo: str, revision: str) -> str:
        found = self._repository(repo)
        for ref in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if ref in found.refs:
                return found.refs[ref]
        tree = found.worktrees.get(repo)
        if revision == "HEAD" and tree is not None:
            return found.head(tree)
        commits = [name for name in found.commits if name.startswith(revision) and len(revision) >= _SHORTEST_NAME]
        if len(commits) == 1:
            return commits[0]
        raise BadInput(f"{revision!r} is not a branch, tag or commit of this repository", fix="name one that exists")

    async def check_branch_name(self, name: str, repo: str | None = None) -> None:
        problem = names.branch_problem(name)
        if problem is not None:
            raise BadInput(problem, fix=names.FIX)
        if repo is not None:
            self._check_room(repo, name)

    def _check_room(self, repo: str, branch: str) -> None:
        if any(names.excludes(f"refs/heads/{branch}", other) for other in self._repository(repo).refs):
            raise names.no_room(branch)

    async def create_branch(self, repo: str, branch: str, commit: str) -> bool:
        refs = self._repository(repo).refs
        name = f"refs/heads/{branch}"
        if name in refs:
            return False
        self._check_room(repo, branch)
        refs[name] = commit
        return True

    async def branch_head(self, repo: str, branch: str) -> str | None:
        return self._repository(repo).refs.get(f"refs/heads/{branch}")

    async def merge_forward(self, repo: str, commits: Sequence[str], message: str) -> Merged | Conflict:
        found = self._repository(repo)
        current = commits[0]
        for source in commits[1:]:
            if found.is_ancestor(source, current):
                continue
            if found.is_ancestor(current, source):
                current = source
                continue
            merged = self._merge(found, current, source)
            if isinstance(merged, Conflict):
                return merged
            current = found.commit(merged, (current, source), message)
        return Merged(commit=current, moved=current != commits[0])

    async def add_worktree(self, repo: str, path: str, commit: str) -> None:
        found = self._repository(repo)
        present = found.worktrees.get(path)
        if present is None:
            self.world.leftovers.pop(path, None)
            found.checkout(path, commit)
        elif not found.is_ancestor(commit, found.head(present)):
            raise GitFailed(["worktree", "add", path], 1, f"another worktree lies there, with HEAD at {present.head}")

    async def worktree_head(self, path: str) -> str:
        found, tree = self._worktree(path)
        return found.head(tree)

    async def commit_all(
        self, path: str, *, baseline: str, message: str, expects_no_changes: bool, evidence_id: str
    ) -> Committed | NoEvidence:
        found, tree = self._worktree(path)
        head = tree.head = found.head(tree)
        tree.branch = None
        before = found.commits[head].files
        kept = {name: text for name, text in before.items() if _is_ours(name)}
        files = kept | {name: text for name, text in tree.files.items() if not _is_ours(name)}
        if files != before:
            tree.head = found.commit(files, (head,), message)
            return Committed(commit=tree.head)
        if head != baseline and not found.is_ancestor(head, baseline):
            return Committed(commit=head)
        text = tree.files.get(f"{EVIDENCE}/{evidence_id}.json")
        said = None if text is None else evidence.summary(text.encode(), evidence_id)
        if said is None and not expects_no_changes:
            return NoEvidence()
        return Committed(commit=baseline, changed=False, evidence=said or "")

    async def pin(self, repo: str, ref: str, commit: str) -> None:
        check_ref(ref)
        found = self._repository(repo)
        present = found.refs.get(ref)
        if present is not None and not found.is_ancestor(present, commit):
            raise GitFailed(["update-ref", ref, commit], 128, f"already pins {present}")
        found.refs[ref] = commit

    async def merge_into(
        self,
        repo: str,
        branch: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str] = (),
        pin: str,
    ) -> Merged | Conflict | CheckedOut:
        check_ref(pin)
        found = self._repository(repo)
        head = found.refs.get(f"refs/heads/{branch}")
        if pin in found.refs:
            return Merged(commit=found.refs[pin])
        if head is None:
            raise BadInput(f"there is no branch {branch!r} to merge into", fix="create it first")
        for where, tree in found.worktrees.items():
            if tree.branch == branch:
                return CheckedOut(path=where)
        merged = self._merge_onto(found, head, source, message, strategy, already_merged)
        if isinstance(merged, Merged):
            found.refs[f"refs/heads/{branch}"] = found.refs[pin] = merged.commit
        return merged

    async def fast_forward_checkout(self, path: str, branch: str, commit: str) -> bool:
        found, tree = self._worktree(path)
        head = found.head(tree)
        before = found.commits[head].files
        touched = {name: text for name, text in tree.files.items() if name in before}
        arriving = set(found.commits[commit].files) - set(before)
        if (
            tree.branch != branch
            or touched != dict(before)
            or not found.is_ancestor(head, commit)
            or arriving & set(tree.files)
        ):
            return False
        untracked = {name: text for name, text in tree.files.items() if name not in before}
        tree.files = untracked | dict(found.commits[commit].files)
        found.refs[f"refs/heads/{branch}"] = commit
        return True

    async def merge_commits(
        self,
        repo: str,
        target: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str] = (),
    ) -> Merged | Conflict:
        found = self._repository(repo)
        head = await self.resolve(repo, target)
        return self._merge_onto(found, head, source, message, strategy, already_merged)

    async def rescue(self, repo: str, path: str, ref: str, message: str, *, kept: str = "") -> Rescued | None:
        check_ref(ref)
        found = self._repository(repo)
        tree = found.worktrees.get(path)
        if tree is None:
            if path in self.world.leftovers:
                raise GitFailed(["rescue", path], 1, "not a worktree of this repository, so nothing could be saved")
            return None
        head, saved = found.head(tree), found.refs.get(ref)
        if tree.files == found.commits[head].files:
            if any(found.is_ancestor(head, kept) for kept in found.refs.values()):
                return None
            commit = head if saved is None or found.is_ancestor(saved, head) else None
        elif saved and found.commits[saved].files == tree.files and found.is_ancestor(head, saved):
            commit = saved
        else:
            commit = None
        if commit is None:
            commit = found.commit(tree.files, (head, saved) if saved else (head,), message)
        found.refs[ref] = commit
        return Rescued(ref=ref, commit=commit)

    async def remove_worktree(self, repo: str, path: str) -> None:
        found = self._repository(repo)
        if found.root == path or found.root.startswith(f"{path}/"):
            raise GitFailed(["worktree", "remove", path], 1, "the repository itself lies inside; nothing was removed")
        found.worktrees.pop(path, None)
        self.world.leftovers.pop(path, None)

    async def sweep(self, repo: str, root: str, tracked: frozenset[str]) -> Mapping[str, str]:
        self._repository(repo)
        top = root.rstrip("/")
        orphans = [
            path
            for path in sorted(self.world.leftovers)
            if path.startswith(f"{top}/")
            and path.removeprefix(f"{top}/").count("/") == 2
            and not {path, path.removeprefix(f"{top}/")} & tracked
        ]
        for path in orphans:
            del self.world.leftovers[path]
        return dict.fromkeys(orphans, "removed")

    async def summary(self, repo: str, base: str, commit: str) -> WorkSummary:
        found = self._repository(repo)
        return memory_history.summary(found, await self.resolve(repo, base), await self.resolve(repo, commit))

    async def diff(self, repo: str, base: str, commit: str, limit: int = 1 << 20) -> str:
        found = self._repository(repo)
        return memory_history.diff(found, await self.resolve(repo, base), await self.resolve(repo, commit), limit)

    async def delete_refs(self, repo: str, prefix: str) -> None:
        below = OUR_REFS + prefix.strip("/")
        check_ref(below)
        refs = self._repository(repo).refs
        for name in [name for name in refs if name == below or name.startswith(f"{below}/")]:
            del refs[name]

    def _repository(self, repo: str) -> MemoryRepository:
        try:
            return self.world.owner(repo)
        except KeyError:
            raise BadInput(f"{repo!r} is not a git repository", fix="give the path of one") from None

    def _worktree(self, path: str) -> tuple[MemoryRepository, MemoryWorktree]:
        try:
            found = self.world.owner(path)
            return found, found.worktrees[path]
        except KeyError:
            raise GitFailed(["-C", path], 128, "not a worktree") from None

    def _merge(self, found: MemoryRepository, ours: str, source: str, blame: str = "") -> Files | Conflict:
        merged = merge_commits(found, ours, source)
        if merged is None:
            raise GitFailed(["merge-tree", ours, source], 128, "refusing to merge unrelated histories")
        if merged.conflicts:
            return Conflict(files=merged.conflicts, source=blame or source)
        return merged.files

    def _merge_onto(
        self,
        found: MemoryRepository,
        head: str,
        source: str,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str],
    ) -> Merged | Conflict:
        files = found.commits[head].files
        ours = found.commit(files, (head, *already_merged), "merge base") if already_merged else head
        merged = self._merge(found, ours, source)
        if isinstance(merged, Conflict):
            return merged
        if merged == files:
            return Merged(commit=head, moved=False)
        parents = (head, source) if strategy is Strategy.MERGE else (head,)
        return Merged(commit=found.commit(merged, parents, message))


def _is_ours(path: str) -> bool:
    return any(path.startswith(f"{folder}/") for folder in OURS)
