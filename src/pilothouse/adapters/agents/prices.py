"""The price table as a file of the user's: TOML, read again whenever it changes.

::

    [models."some-model"]
    input = 1.25          # US dollars per million tokens
    output = 10.0
    cached = 0.125        # of the input, read from a cache; as `input` when it is not given
    cacheWrite = 1.25     # of the input, written to one; as `input` when it is not given

No prices are shipped. A table that is wrong is never ignored: it is an error when the server starts; one that is made
wrong later leaves the prices as they were, and says so.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.pricing import Price, PriceTable
from pilothouse.errors import BadInput

log = logging.getLogger("pilothouse.agents")

MAX_BYTES = 1 << 20
MAX_PRICE = 1e9
"""US dollars per million tokens; costs stay finite, whatever an agent says that it used."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    models: dict[str, Price] = {}


def read_prices(path: Path) -> PriceTable:
    """Raises ``BadInput`` naming the file and the field."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", field="prices") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{path} has more than {MAX_BYTES:,} bytes", field="prices")
    try:
        table = msgspec.toml.decode(data, type=_File).models
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}", field="prices", fix="see docs/agents.md#prices") from None
    for model, price in table.items():
        for name, value in msgspec.structs.asdict(price).items():
            if value is not None and not 0 <= value <= MAX_PRICE:
                raise BadInput(f"{path}: {value} is not a price", field=f"models.{model}.{name}")
    return table


class PriceFile:
    """A price table that follows its file. ``path`` None: there is none, and nothing has a price."""

    def __init__(self, path: Path | None) -> None:
        """Raises ``BadInput``: a table that is asked for must be there, and right."""
        self._path = path
        self._seen = self._fingerprint()
        self._table: PriceTable = read_prices(path) if path is not None else {}

    @property
    def table(self) -> PriceTable:
        """As the file is now; as it was when it cannot be read any more."""
        seen = self._fingerprint()
        if self._path is not None and seen != self._seen:
            self._seen = seen
            try:
                self._table = read_prices(self._path)
            except BadInput as error:
                log.error("prices.wrong: the prices stay as they were: %s", error)
        return self._table

    def _fingerprint(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino) if status is not None else None
