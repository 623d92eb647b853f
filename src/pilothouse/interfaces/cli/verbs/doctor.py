"""``pilothouse doctor``: whether this machine has what is needed. Works without an owner, and starts none."""

from __future__ import annotations

from dataclasses import asdict, replace

import typer

from pilothouse import doctor as wiring
from pilothouse.interfaces.cli.door import ExitCode
from pilothouse.interfaces.cli.options import AsJson, DataDir
from pilothouse.interfaces.cli.owners import live_owner, log_file
from pilothouse.interfaces.cli.printing import colours, print_json
from pilothouse.interfaces.cli.words import has_unicode, paint
from pilothouse.owner import read_owner

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def doctor(as_json: AsJson = False, data_dir: DataDir = None) -> int:
    """Check whether this machine has what Pilothouse needs. Exit code 1 when something needed is missing."""
    assert data_dir is not None, "verbs are always handed a directory"
    checks = wiring.doctor(data_dir)
    if read_owner(data_dir) is not None and live_owner(data_dir) is None:
        fix = f"see {log_file(data_dir)}; the next verb starts one"
        checks = [
            replace(check, ok=False, detail="it does not answer", fix=fix) if check.name == "server" else check
            for check in checks
        ]
    missing = any(check.needed and not check.ok for check in checks)
    if as_json:
        print_json({"ok": not missing, "checks": [asdict(check) for check in checks]})
        return ExitCode.FAILED if missing else ExitCode.SUCCEEDED
    width = max(len(check.name) for check in checks)
    for check in checks:
        word, colour = ("ok", "green") if check.ok else ("missing", "red") if check.needed else ("limited", "yellow")
        mark = paint(word.ljust(7), colour, enabled=colours())
        fix = f" {'→' if has_unicode() else '->'} {check.fix}" if check.fix and not check.ok else ""
        print(f"{mark}  {check.name.ljust(width)}  {check.detail}{fix}")
    return ExitCode.FAILED if missing else ExitCode.SUCCEEDED
