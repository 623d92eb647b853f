"""The contract of ``Vault``, on the encrypted file and on its twin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pilothouse.adapters.vault.memory import MemoryVault
from pilothouse.adapters.vault.opening import open_vault
from pilothouse.engine.chat_ports import Vault
from pilothouse.errors import NotFound

WITHIN_S = 30


@pytest.fixture(params=["file", "memory"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Vault:
    return open_vault(tmp_path, "file") if request.param == "file" else MemoryVault()


def on(vault: Vault, story: Callable[[Vault], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story(vault)

    asyncio.run(told())


def test_what_is_put_there_comes_back(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        secret = {"value": "s3cret ☃", "expiresAt": 12, "scopes": ["a", "b"], "none": None, "in": {"deep": True}}
        await vault.put("ann", "env/TOKEN", secret)
        assert await vault.get("ann", "env/TOKEN") == secret
        assert await vault.names("ann") == ["env/TOKEN"]

    on(vault, story)


def test_an_empty_vault_has_nothing_and_says_so(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        assert await vault.names("ann") == []
        with pytest.raises(NotFound, match="env/TOKEN"):
            await vault.get("ann", "env/TOKEN")
        await vault.delete("ann", "env/TOKEN")

    on(vault, story)


def test_owners_do_not_know_of_each_others_credentials(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        await vault.put("ann", "env/TOKEN", {"value": "hers"})
        await vault.put("bob", "env/TOKEN", {"value": "his"})
        await vault.put("bob", "env/OTHER", {"value": "his too"})
        assert await vault.names("ann") == ["env/TOKEN"]
        assert await vault.get("ann", "env/TOKEN") == {"value": "hers"}
        with pytest.raises(NotFound):
            await vault.get("ann", "env/OTHER")
        await vault.delete("ann", "env/OTHER")
        assert await vault.names("bob") == ["env/OTHER", "env/TOKEN"]
        await vault.delete("ann", "env/TOKEN")
        assert await vault.get("bob", "env/TOKEN") == {"value": "his"}

    on(vault, story)


def test_everything_of_an_owner_comes_at_once(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        assert await vault.everything("ann") == {}
        await vault.put("ann", "b", {"value": 2})
        await vault.put("ann", "a", {"value": 1})
        await vault.put("bob", "c", {"value": 3})
        found = await vault.everything("ann")
        assert list(found.items()) == [("a", {"value": 1}), ("b", {"value": 2})]
        found["a"]["value"] = 7
        assert await vault.get("ann", "a") == {"value": 1}

    on(vault, story)


def test_putting_again_replaces_all_of_it(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        await vault.put("ann", "a", {"old": 1, "value": 1})
        await vault.put("ann", "a", {"value": 2})
        assert await vault.get("ann", "a") == {"value": 2}
        assert await vault.names("ann") == ["a"]

    on(vault, story)


def test_what_was_deleted_is_gone_and_deleting_again_is_nothing(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        await vault.put("ann", "a", {"value": 1})
        await vault.put("ann", "b", {"value": 2})
        await vault.delete("ann", "a")
        await vault.delete("ann", "a")
        assert await vault.names("ann") == ["b"]
        with pytest.raises(NotFound):
            await vault.get("ann", "a")

    on(vault, story)


def test_what_comes_out_is_a_copy(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        given = {"value": ["a"]}
        await vault.put("ann", "a", given)
        given["value"].append("b")
        (await vault.get("ann", "a"))["value"].append("c")
        assert await vault.get("ann", "a") == {"value": ["a"]}

    on(vault, story)


def test_of_many_writers_at_once_none_loses_what_another_wrote(vault: Vault) -> None:
    async def story(vault: Vault) -> None:
        await asyncio.gather(*(vault.put(f"owner{n % 3}", f"name{n}", {"n": n}) for n in range(30)))
        found = {
            (name, (await vault.get(f"owner{owner}", name))["n"])
            for owner in range(3)
            for name in await vault.names(f"owner{owner}")
        }
        assert found == {(f"name{n}", n) for n in range(30)}

    on(vault, story)
