"""Which variables of the host reach a command or an agent, and which values are blacked out of what they print.

Reads no global state: the host's environment is given, as it was when the server started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from pilothouse.adapters.agents.driver import Facts
from pilothouse.adapters.work.environment import command_environment
from pilothouse.core.run.agents import AgentConfig
from pilothouse.core.run.secret_names import OWN_PREFIX, is_withheld

MIN_SECRET = 8
"""Characters. Blacking out shorter values would make output unreadable and hide little."""
_FRAME = "-----"
"""Begins the lines around a key that are the same for everybody's."""

# fmt: off
AGENT_VARIABLES = frozenset({
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    # Where certificates are: without them nothing is reached on some systems.
    "SSL_CERT_DIR", "SSL_CERT_FILE",
    # Who commits, and where git's settings are.
    "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME",
})
"""What an agent inherits, beside ``LC_*`` and what its driver lists."""

# A server that was started from a git hook or alias would point every git of every command at another repository.
# The numbered configuration goes as a whole: its keys are withheld for their name, and git refuses a count without.
_OTHER_REPOSITORY = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS",
    "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
})
_OTHER_CONFIGURATION = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
# fmt: on


class HostEnvironment:
    """The host's variables. ``keys`` are the names of those that hold the keys of users' own model endpoints: each
    reaches the agent it is for, and nothing else, whatever it is called."""

    def __init__(self, environ: Mapping[str, str], keys: Iterable[str] = ()) -> None:
        self._host = {
            name: value
            for name, value in environ.items()
            if name not in _OTHER_REPOSITORY and not name.startswith(_OTHER_CONFIGURATION)
        }
        self._keys = frozenset(keys)
        self._secrets = (*_secrets(environ), *(environ[name] for name in self._keys if name in environ))

    def get(self, name: str) -> str:
        return self._host.get(name, "")

    def for_command(self, given: Mapping[str, str], inherit: Iterable[str]) -> dict[str, str]:
        """Of a shell or a process. Raises ``BadInput``."""
        return command_environment(self._host, given, tuple(inherit), vault=self._keys)

    def for_agent(
        self, facts: Facts, config: AgentConfig, given: Mapping[str, str], inherit: Iterable[str] = ()
    ) -> dict[str, str]:
        """What an agent gets before its driver adds to it. ``given`` is what the user and the plan say.

        An agent that is sent to an endpoint of the user's own gets the key for that one, and none of those its usual
        service would want. Raises ``BadInput``.
        """
        own = [name for name in facts.variables if not (config.base_url and is_withheld(name))]
        asked = (*inherit, *own)
        env = command_environment(self._host, given, asked, vault=self._keys.difference(own))
        let_in = AGENT_VARIABLES.union(asked, given)
        found = {name: value for name, value in env.items() if name in let_in or name.startswith("LC_")}
        if config.api_key_env in self._host:
            found[config.api_key_env] = self._host[config.api_key_env]
        return found

    def redact(self, env: Mapping[str, str], inherited: Iterable[str] = ()) -> tuple[str, ...]:
        """The secrets of the host, so that a command that digs them up cannot show them; and those it was given."""
        asked = (env[name] for name in inherited if name in env)
        found = (form for value in (*self._secrets, *_secrets(env), *asked) for form in _forms(value))
        return tuple(dict.fromkeys(form for form in found if len(form) >= MIN_SECRET))


def _secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Values of variables that are named like secrets, and passwords in our own variables (a database's address)."""
    for name, value in environ.items():
        own = name.upper().startswith(OWN_PREFIX)
        if is_withheld(name.upper().removeprefix(OWN_PREFIX)):
            yield value
        elif own and "://" in value:
            yield _password(value)


def _password(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""


def _forms(value: str) -> Iterator[str]:
    """How a value may be printed: as it is, line by line, and in JSON, which agents speak, once or twice quoted."""
    lines = value.splitlines()
    yield value
    if len(lines) > 1:
        yield from (line for line in lines if not line.startswith(_FRAME))
    for text in (value, *lines):
        for in_ascii in (False, True):
            once = _quoted(text, in_ascii)
            if once != text:
                yield from (once, _quoted(once, in_ascii))


def _quoted(text: str, in_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=in_ascii)[1:-1]
