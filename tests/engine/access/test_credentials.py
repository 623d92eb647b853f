"""Credentials by owner: what is kept, what is told, which account is meant."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.adapters.system.clock import SystemClock
from pilothouse.adapters.vault.memory import MemoryVault
from pilothouse.core.auth.principals import THE_LOCAL_USER, Kind, Principal, Scope
from pilothouse.core.credentials.refusals import NotConnected
from pilothouse.core.credentials.services import services
from pilothouse.engine.access.credentials import Credentials
from pilothouse.errors import BadInput, NotFound

ANN = Principal("ann", Kind.KEY, frozenset({Scope.RUN}))


def fresh(vault: MemoryVault | None = None) -> Credentials:
    return Credentials(vault or MemoryVault(), SystemClock(), services({}))


def test_values_are_for_their_owner_alone_and_replace_each_other() -> None:
    async def story() -> None:
        credentials = fresh()
        await credentials.set_value(ANN, "API_KEY", "one")
        await credentials.set_value(ANN, "API_KEY", "two\n")
        await credentials.set_value(THE_LOCAL_USER, "API_KEY", "other")
        assert await credentials.values("ann") == {"API_KEY": "two\n"}
        assert await credentials.values("nobody") == {}
        (info,) = await credentials.list(ANN)
        assert (info.id, info.kind, info.state) == ("env:API_KEY", "value", "ok")

    asyncio.run(story())


def test_the_first_account_of_a_service_is_the_default_and_another_follows_it() -> None:
    async def story() -> None:
        credentials = fresh()
        for name in ("b", "a", "c"):
            await credentials.add_key(ANN, "slack", f"key-{name}", name)
        assert [(one.name, one.default) for one in await credentials.list(ANN)] == [
            ("a", False),
            ("b", True),
            ("c", False),
        ]
        assert (await credentials.account("ann", "slack"))[1].token == "key-b"
        await credentials.remove(ANN, "slack:b")
        assert (await credentials.account("ann", "slack"))[0] == "a"
        await credentials.make_default(ANN, "slack:c")
        assert (await credentials.account("ann", "slack"))[0] == "c"
        assert (await credentials.account("ann", "slack", "a"))[1].token == "key-a"
        for name in ("a", "c"):
            await credentials.remove(ANN, f"slack:{name}")
        with pytest.raises(NotConnected, match="No Slack account is connected"):
            await credentials.account("ann", "slack")

    asyncio.run(story())


def test_a_default_that_was_lost_harms_nothing() -> None:
    async def story() -> None:
        vault = MemoryVault()
        await fresh(vault).add_key(ANN, "slack", "key", "a")
        await vault.delete("ann", "default/slack")
        assert (await fresh(vault).account("ann", "slack"))[0] == "a"
        await vault.put("ann", "default/slack", {"account": "gone"})
        assert (await fresh(vault).account("ann", "slack"))[0] == "a"

    asyncio.run(story())


def test_names_and_values_are_checked() -> None:
    async def story() -> None:
        credentials = fresh()
        for name in ("", "A B", "1A", "a-b", "A" * 200):
            with pytest.raises(BadInput):
                await credentials.set_value(ANN, name, "x")
        for value in ("", "a\0b", "x" * 65_537):
            with pytest.raises(BadInput):
                await credentials.set_value(ANN, "A", value)
        for key in ("", " \n", "a b\nc", "schlüssel"):
            with pytest.raises(BadInput):
                await credentials.add_key(ANN, "slack", key)
        with pytest.raises(BadInput):
            await credentials.add_key(ANN, "nonsense", "key")
        with pytest.raises(BadInput):
            await credentials.add_key(ANN, "slack", "key", "a/b")
        for id in ("env:A", "slack:a", "nonsense", "a:b:c"):
            with pytest.raises(NotFound):
                await credentials.remove(ANN, id)
            with pytest.raises(NotFound):
                await credentials.make_default(ANN, id)
        await credentials.set_value(ANN, "A", "x")
        with pytest.raises(BadInput):
            await credentials.make_default(ANN, "env:A")

    asyncio.run(story())


def test_one_principal_cannot_fill_the_vault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.engine.access.credentials.MOST", 3)

    async def story() -> None:
        credentials = fresh()
        for n in range(3):
            await credentials.set_value(ANN, f"A{n}", "x")
        with pytest.raises(BadInput):
            await credentials.set_value(ANN, "A3", "x")
        await credentials.set_value(ANN, "A2", "replaced")
        await credentials.set_value(THE_LOCAL_USER, "A3", "x")

    asyncio.run(story())
