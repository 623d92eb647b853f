"""What ``doctor`` says of the vault."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pilothouse.adapters.vault.opening import open_vault
from pilothouse.core.auth.principals import LOCAL
from pilothouse.doctor import Check, doctor


def of_the_vault(data_dir: Path) -> Check:
    (check,) = [check for check in doctor(data_dir) if check.name == "vault"]
    return check


def test_a_vault_that_does_not_open_is_told_with_a_way_out_and_no_server_needs_it(tmp_path: Path) -> None:
    assert of_the_vault(tmp_path).ok
    assert not (tmp_path / "vault").exists()
    asyncio.run(open_vault(tmp_path, "file").put(LOCAL, "value/A", {"value": "planted-secret", "createdAt": 0}))
    check = of_the_vault(tmp_path)
    assert (check.ok, "1 " in check.detail, "planted" in check.detail) == (True, True, False)
    (tmp_path / "vault.key").unlink()
    check = of_the_vault(tmp_path)
    assert (check.ok, check.needed) == (False, False)
    assert "is gone" in check.detail
