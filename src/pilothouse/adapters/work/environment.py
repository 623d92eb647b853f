"""Which environment a command gets. Pure: mappings in, a mapping out; the caller reads ``os.environ``.

A command inherits what its host has, but for Pilothouse's own variables, the vault's, and those named like secrets;
a plan adds to it by value (``env``) or by name (``inheritEnv``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from pilothouse.core.run.secret_names import OWN_PREFIX, is_withheld
from pilothouse.errors import BadInput

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME = re.compile(r"[^=\0]+")


def command_environment(
    host: Mapping[str, str],
    env: Mapping[str, str] | None = None,
    inherit: Sequence[str] = (),
    *,
    vault: AbstractSet[str] = frozenset(),
) -> dict[str, str]:
    """The whole environment of a command.

    ``env`` values may refer to ``$NAME`` or ``${NAME}`` of the host's environment *after* filtering, so that they
    cannot reach what is withheld; a missing name expands to nothing. ``inherit`` names host variables that are let
    through although they look like secrets; those the host lacks are left out. ``vault`` are names that are withheld
    whatever they look like. Raises ``BadInput``.
    """
    result = {name: value for name, value in host.items() if not (is_withheld(name) or name in vault)}
    for index, name in enumerate(inherit):
        if name.upper().startswith(OWN_PREFIX) or name in vault:
            raise BadInput(f"{name} never reaches a command", field=f"inheritEnv[{index}]", fix="remove it")
        if name in host:
            result[name] = host[name]
    given: dict[str, str] = {}
    for name, value in (env or {}).items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise BadInput("not a name and value of an environment", field=f"env.{name}")
        given[name] = expand(value, result)
    return result | given


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$NAME`` and ``${NAME}``; any other dollar sign stays."""
    return _REFERENCE.sub(lambda match: values.get(match[1] or match[2], ""), text)
