"""What a request is: over which wire it asks, for which script, or that it asks no model at all. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.models.anthropic import Anthropic
from tests.support.models.asked import Asked, Json
from tests.support.models.chat import Chat
from tests.support.models.gemini import Gemini
from tests.support.models.http import Request
from tests.support.models.responses import Responses
from tests.support.models.wire import Wire

WIRES: tuple[tuple[str, Wire], ...] = (
    (r"/chat/completions$", Chat()),
    (r"/responses$", Responses()),
    (r"/messages$", Anthropic()),
    (r":(generateContent|streamGenerateContent)$", Gemini()),
)
"""How the path of a question ends → the wire it is asked over."""

ONLY = "default"
"""Name of the script when there is but one, and of the one for whoever names none."""

KEYS = ("authorization", "x-api-key", "x-goog-api-key")
"""The headers that bear an API key."""


@dataclass(frozen=True)
class Received:
    """One request, as it came."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Json
    wire: str | None
    """``chat``, ``responses``, ``anthropic`` or ``gemini`` for questions to a model; None for whatever else."""
    script: str
    asked: Asked | None

    @property
    def model(self) -> str:
        return self.asked.model if self.asked else ""

    @property
    def aside(self) -> bool:
        """Whether it offered no tools: clients ask for titles and summaries that way."""
        return self.asked is not None and not self.asked.tools


def read(request: Request, scripts: Collection[str]) -> tuple[Received, Wire | None]:
    """Raises LookupError for a question whose script is not among ``scripts``."""
    path = urlsplit(request.path).path
    body = json.loads(request.body) if request.body else None
    wire = next((wire for end, wire in WIRES if request.method == "POST" and re.search(end, path)), None)
    asked = wire.read(path, body) if wire else None
    script = _script_of(path, request.headers, asked, scripts) if asked else ONLY
    named = wire.name if wire else None
    return Received(request.method, request.path, request.headers, body, named, script, asked), wire


def _script_of(path: str, headers: Mapping[str, str], asked: Asked, scripts: Collection[str]) -> str:
    named = re.match(r"/s/([^/]+)/", path)
    key = "".join(headers.get(name, "") for name in KEYS)
    prompts = "\n".join(asked.prompts)

    def meant(name: str) -> bool:
        if named:
            return named[1] == name
        return key.endswith(name) or re.search(rf"\b{re.escape(name)}\b", prompts) is not None

    found = next(filter(meant, scripts), None if named else ONLY)
    if found not in scripts:
        raise LookupError(f"{path} asks for a script that is none of {sorted(scripts)}")
    return str(found)
