"""What an API key looks like: ``pk_<id>_<secret><checksum>``, in letters and digits.

The id says which key it is, and is no secret; the secret is 256 random bits; the checksum tells a key from what only
looks like one: a typo is told from a key that is unknown, and a scanner for leaked secrets need not ask anybody.
Where the random bits come from, and where digests are kept, is for others to know.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import string
from typing import NamedTuple

from pilothouse.core.auth.refusals import InvalidKey

RANDOM_BYTES = 40
"""What ``make_key`` needs: 8 for the id, 32 for the secret."""

_ID_BYTES = 8
_ID, _SECRET, _CHECKSUM = 11, 43, 6
"""Characters of each part: as many as the largest number in its bytes takes."""

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase

PATTERN = re.compile(rf"(pk_([0-9A-Za-z]{{{_ID}}})_[0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECKSUM}}})")


class ApiKey(NamedTuple):
    """``text`` is the whole key, which its owner is shown once."""

    id: str
    text: str


def make_key(random: bytes) -> ApiKey:
    """A key from ``RANDOM_BYTES`` random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a key is made of {RANDOM_BYTES} bytes, not {len(random)}")
    key_id = _base62(int.from_bytes(random[:_ID_BYTES], "big"), _ID)
    body = f"pk_{key_id}_{_base62(int.from_bytes(random[_ID_BYTES:], 'big'), _SECRET)}"
    return ApiKey(key_id, body + _checksum(body))


def read_key(text: str) -> ApiKey:
    """A key as it was given. Raises ``InvalidKey`` for what cannot be one."""
    found = PATTERN.fullmatch(text)
    if found is None or _checksum(found[1]) != found[3]:
        raise InvalidKey("this is no API key of Pilothouse: a part of it is missing or mistyped")
    return ApiKey(found[2], text)


def digest(key: ApiKey) -> str:
    """What is kept of a key.

    A plain hash will do, and a slow one would only make requests slow: what it hides is not a password that somebody
    thought of but 256 random bits, which nobody guesses at any speed."""
    return hashlib.sha256(key.text.encode("ascii")).hexdigest()


def _checksum(body: str) -> str:
    return _base62(binascii.crc32(body.encode("ascii")), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
