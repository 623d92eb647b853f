"""The repositories a user has registered: over HTTP, MCP and chat only these can be worked in."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.run.segments import Document
from pilothouse.engine.ports import Clock, EventStore, Git
from pilothouse.errors import BadInput, NotFound, WrongSequence

KIND = "repo"


class Repo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A registered repository. ``path`` is absolute and is its id."""

    path: str
    registered_at: int = 0


class Repos:
    """Registered repositories, by path."""

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
        repo = Repo(path=found.root, registered_at=self._clock.now_ms())
        document = Document(
            kind=KIND,
            id=repo.path,
            version=0,
            owner=owner,
            updated_at=repo.registered_at,
            body=msgspec.json.encode(repo),
        )
        try:
            await self._store.put_document(document)
        except WrongSequence:
            return await self.get(repo.path)  # it is registered already
        return repo

    async def get(self, path: str) -> Repo:
        """Raises ``NotFound``."""
        return _repo(await self._store.document(KIND, path))

    async def list(self) -> list[Repo]:
        return [_repo(document) for document in await self._store.documents(KIND)]

    async def remove(self, path: str) -> None:
        """Plans that run there go on. Raises ``NotFound``."""
        await self._store.document(KIND, path)
        await self._store.delete_document(KIND, path)

    async def require(self, path: str) -> str:
        """The top folder of a registered repository that ``path`` lies in. Raises ``BadInput`` for any other."""
        found = await self._git.inspect(path)
        try:
            await self._store.document(KIND, found.root)
        except NotFound:
            fix = f"run: pilothouse repo add {found.root}"
            raise BadInput(f"{found.root} is not a registered repository", field="repoPath", fix=fix) from None
        return found.root


def _repo(document: Document) -> Repo:
    body: Any = document.body
    return msgspec.json.decode(body, type=Repo)
