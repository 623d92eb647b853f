"""Which process to start for a warden. Starts nothing, and can be imported where no warden can run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pilothouse

READY = b"ready\n"
"""What the process writes once a warden serves; anything else says why none does."""

_START = "import sys; sys.path.append(sys.argv.pop(1)); from pilothouse.adapters.work.daemon import main; main()"
_NEEDED_TO_START = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def command(data_dir: Path, orphan_grace: float) -> tuple[list[str], dict[str, str]]:
    """The argv and the environment to start a warden with.

    Without ``site`` and with nothing of the environment: it starts in a few hundredths of a second, finds this very
    copy of the package (a wheel or an editable install), and the server's secrets are not in ``/proc/<warden>``.
    """
    root = Path(pilothouse.__file__).resolve().parent.parent
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, str(root), str(data_dir), str(orphan_grace)]
    return argv, {name: os.environ[name] for name in _NEEDED_TO_START if name in os.environ}
