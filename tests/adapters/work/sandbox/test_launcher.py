"""The process that becomes the command: what it needs to start, and how soon it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pilothouse

SOURCE = Path(pilothouse.__file__).resolve().parent.parent


def test_it_starts_on_a_bare_interpreter() -> None:
    asked = (
        f"import sys; sys.path.append({str(SOURCE)!r}); import pilothouse.adapters.work.sandbox.launcher; "
        "print(*(getattr(module, '__file__', None) or '' for module in sys.modules.values()), sep='\\n')"
    )
    said = subprocess.run([sys.executable, "-I", "-S", "-c", asked], capture_output=True, text=True, check=True).stdout
    assert "site-packages" not in said
    ours = [line for line in said.splitlines() if line.startswith(str(SOURCE))]
    assert len(ours) < 20
