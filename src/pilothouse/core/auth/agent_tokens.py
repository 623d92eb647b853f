"""What an agent shows that answers a turn: ``pa_<turn>_<request>_<proof>``.

The proof is derived from a secret that the server keeps, so nothing is stored of a token, and a server that is started
again knows it still. It says which request of which turn its agent was started for; whether that goes on is for others
to know.
"""

from __future__ import annotations

import hashlib
import hmac
import re

from pilothouse.core.auth.principals import Answering
from pilothouse.core.auth.refusals import InvalidKey

PREFIX = "pa_"
SECRET_BYTES = 32
"""What proofs are derived from: random bits, as many as a proof has."""

_PATTERN = re.compile(r"pa_([0-9A-Za-z-]{1,64})_([1-9][0-9]{0,8})_([0-9a-f]{64})", re.ASCII)


def make_token(secret: bytes, answering: Answering) -> str:
    """The token of a request's agent: the same each time."""
    return f"{PREFIX}{answering.turn_id}_{answering.call}_{_proof(secret, answering)}"


def read_token(secret: bytes, text: str) -> Answering:
    """What whoever shows ``text`` was started for. Raises ``InvalidKey`` for what was not made with ``secret``."""
    found = _PATTERN.fullmatch(text)
    if found is not None:
        answering = Answering(found[1], int(found[2]))
        if hmac.compare_digest(_proof(secret, answering), found[3]):
            return answering
    raise InvalidKey("this is no token that an agent was given")


def _proof(secret: bytes, answering: Answering) -> str:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the secret has {SECRET_BYTES} bytes, not {len(secret)}")
    said = f"pilothouse agent\0{answering.turn_id}\0{answering.call}"
    return hmac.new(secret, said.encode("ascii"), hashlib.sha256).hexdigest()
