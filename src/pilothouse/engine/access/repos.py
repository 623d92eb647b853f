"""The repositories that were registered: over HTTP, MCP and chat only these can be worked in.

Each user has their own; those of the local user are there for everybody who may run plans.
"""

from __future__ import annotations

import builtins

import msgspec

from pilothouse.core.auth.policy import Action, reaches
from pilothouse.core.auth.principals import LOCAL, THE_LOCAL_USER, Principal
from pilothouse.core.run.segments import Document
from pilothouse.engine.ports import Clock, EventStore, Git
from pilothouse.errors import BadInput, Denied, NotFound, WrongSequence

KIND = "repo"


class Repo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A registered repository. ``path`` is absolute; ``owner`` is who registered it."""

    path: str
    owner: str = LOCAL
    registered_at: int = 0


class Repos:
    """Registered repositories, by path. Whoever asks is the local user unless it is said who."""

    def __init__(self, store: EventStore, git: Git, clock: Clock) -> None:
        self._store = store
        self._git = git
        self._clock = clock

    async def add(self, path: str, owner: str) -> Repo:
        """Register a repository (its top folder, whatever folder of it was given). Idempotent.

        Raises ``BadInput`` when it is none, or a bare one."""
        found = await self._git.inspect(path)
        if found.bare:
            raise BadInput("is a bare repository", field="path", fix="give one with a working tree")
        repo = Repo(path=found.root, owner=owner, registered_at=self._clock.now_ms())
        document = Document(
            kind=KIND,
            id=_id(repo.path, owner),
            version=0,
            owner=owner,
            updated_at=repo.registered_at,
            body=msgspec.json.encode(repo),
        )
        try:
            await self._store.put_document(document)
        except WrongSequence:  # it is registered already
            return _repo(await self._store.document(KIND, document.id))
        return repo

    async def list(self, principal: Principal = THE_LOCAL_USER) -> builtins.list[Repo]:
        """Those a principal may work in, by path."""
        found = [_repo(document) for document in await self._store.documents(KIND)]
        seen = [repo for repo in found if reaches(principal, Action.READ_REPOS, repo.owner)]
        return sorted(seen, key=lambda repo: (repo.path, repo.owner))

    async def remove(self, path: str, principal: Principal = THE_LOCAL_USER) -> None:
        """Plans that run there go on. Raises ``NotFound``, or ``Denied`` for one that is there for everybody."""
        seen = [repo for repo in await self.list(principal) if repo.path == path]
        if not seen:
            raise NotFound(f"{path} is not a registered repository")
        removed = [repo for repo in seen if reaches(principal, Action.REMOVE_REPOS, repo.owner)]
        if not removed:
            raise Denied("this repository was registered for everybody, by the owner of the server")
        for repo in removed:
            await self._store.delete_document(KIND, _id(repo.path, repo.owner))

    async def require(self, path: str, principal: Principal = THE_LOCAL_USER) -> str:
        """The top folder of a repository that ``path`` lies in, and a principal may work in. Raises ``BadInput`` for
        any other."""
        found = await self._git.inspect(path)
        if all(repo.path != found.root for repo in await self.list(principal)):
            fix = f"run: pilothouse repo add {found.root}"
            raise BadInput(f"{found.root} is not a registered repository", field="repoPath", fix=fix)
        return found.root


def _id(path: str, owner: str) -> str:
    return path if owner == LOCAL else f"{owner}:{path}"


def _repo(document: Document) -> Repo:
    return msgspec.structs.replace(msgspec.json.decode(document.body, type=Repo), owner=document.owner)
