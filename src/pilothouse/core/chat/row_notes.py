"""What the row of a turn says of it beyond what all runs share: how much it owes, and what lists show."""

from __future__ import annotations

import msgspec

from pilothouse.core.run.rows import RunRow


def know(row: RunRow, name: str, value: str) -> RunRow:
    """What lists of conversations show of their last turn."""
    return msgspec.structs.replace(row, detail={**row.detail, name: value}) if value else row


def owe(row: RunRow, step: int) -> RunRow:
    if not step:
        return row
    return msgspec.structs.replace(row, detail={**row.detail, "owed": row.detail.get("owed", 0) + step})
