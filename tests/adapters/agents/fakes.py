"""Agents whose programs are small shell scripts: what is on a PATH, without what one gets from npm."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch, Login, Program
from pilothouse.adapters.agents.lines import LineReader
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions

SYSTEM_PATH = os.environ["PATH"]


class FakeAgent:
    """Implements ``AgentDriver`` for a program of its name. It tells its models when it is started with ``models``."""

    def __init__(self, name: str, *, tells_models: bool = True, **facts: object) -> None:
        known: dict[str, object] = {
            "title": f"The {name} agent",
            "install": f"install-{name}",
            "programs": (name,),
            "minimum": (1, 2),
        }
        self.facts = Facts(name=name, **(known | facts))  # type: ignore[arg-type]  # any of its fields
        self._tells_models = tells_models

    def native(self, found: str) -> tuple[str, ...]:
        native = Path(f"{found}-native")
        return (str(native) if native.exists() else found,)

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        key = f"{self.facts.name.upper()}_KEY"
        return Login(ok=key in env, how=key)

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        pass

    def models_command(self, program: Program) -> tuple[str, ...]:
        return (*program.argv, "models") if self._tells_models else ()

    def models_from(self, output: str) -> tuple[str, ...]:
        return tuple(output.split())

    def launch(self, work: AgentWork) -> Launch:
        return Launch(argv=(*work.program.argv, work.model), stdin=work.prompt, env={"FAKE_TELEMETRY": "off"})

    def reader(self, work: AgentWork) -> AgentReader:
        return LineReader()


def install(
    directory: Path, name: str, *, version: str = "1.2.3", models: Iterable[str] = (), more: str = "", mode: int = 0o755
) -> Path:
    """A program that says its version and its models; counts in ``<name>.asked`` how often it was asked anything."""
    directory.mkdir(exist_ok=True)
    place = directory / name
    place.write_text(
        "#!/bin/sh\n"
        f'for last; do :; done\necho "$last" >> "{place}.asked"\n{more}\n'
        f'case "$last" in --version) echo "{name} {version} (fake)";; models) echo {" ".join(models)};; esac\n'
    )
    place.chmod(mode)
    return place


def asked(program: Path) -> list[str]:
    """The last argument of each time it was started."""
    place = Path(f"{program}.asked")
    return place.read_text().split() if place.exists() else []
