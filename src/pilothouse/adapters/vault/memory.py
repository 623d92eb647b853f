"""The twin of the vault: what is put there is gone with the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.errors import NotFound


class MemoryVault:
    """As ``engine.chat_ports.Vault``. Keeps JSON, so that what comes out is nobody's reference."""

    def __init__(self) -> None:
        self._owners: dict[str, dict[str, bytes]] = {}

    async def put(self, owner: str, name: str, secret: Mapping[str, Any]) -> None:
        self._owners.setdefault(owner, {})[name] = msgspec.json.encode(dict(secret))

    async def get(self, owner: str, name: str) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self._owners[owner][name], type=dict[str, Any])
        except KeyError:
            raise NotFound(f"there is no credential {name}") from None

    async def names(self, owner: str) -> list[str]:
        return sorted(self._owners.get(owner, {}))

    async def everything(self, owner: str) -> dict[str, dict[str, Any]]:
        kept = self._owners.get(owner, {})
        return {name: msgspec.json.decode(kept[name], type=dict[str, Any]) for name in sorted(kept)}

    async def delete(self, owner: str, name: str) -> None:
        self._owners.get(owner, {}).pop(name, None)
