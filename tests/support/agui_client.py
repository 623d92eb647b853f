"""The public AG-UI client from npm, an independent one to test with: which version, where it is, how it gets there.

``python -m tests.support.agui_client`` (part of ``./dev agents``, and so of a whole ``./dev test``) installs it into
``.dev/agui`` in the way of the agent CLIs. Tests never install: they ask ``needs.need_agui_client``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import agent_clis
from tests.support.agent_clis import CannotInstall, install_set, place

MANIFEST: Mapping[str, object] = {"private": True, "type": "module", "dependencies": {"@ag-ui/client": "1.0.0"}}
CACHE = Path(__file__).parents[2] / ".dev" / "agui"
_ENTRY = Path("node_modules", "@ag-ui", "client", "package.json")


def root(cache: Path = CACHE) -> Path:
    """The folder below which a script finds the package."""
    return place(cache, MANIFEST)


def node() -> str | None:
    """A Node to run it: that of the agent CLIs, else the system's own."""
    own = agent_clis.programs() / "node"
    return str(own) if own.exists() else shutil.which("node")


def install(cache: Path = CACHE) -> bool:
    """Install what is missing; False when nothing was. Raises CannotInstall."""
    return install_set(cache, MANIFEST, "the AG-UI client for the tests into .dev/agui (once; 25 MB)", _prove)


def _prove(where: Path) -> None:
    if not (where / _ENTRY).is_file():
        raise CannotInstall("npm install: the package is not where it belongs")


def main() -> int:
    try:
        install()
    except CannotInstall as error:
        sys.stderr.write(f"dev: no AG-UI client: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
