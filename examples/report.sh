#!/bin/sh
# usage: report.sh MODULE [ARGS…]
# Run a Python module on this worktree and keep what it says in reports/<node>.txt, also when it fails.
# A worktree has no virtual environment of its own: PILOTHOUSE_PYTHON is the Python that Pilothouse runs in.
set -u
mkdir -p reports
report=reports/$PILOTHOUSE_NODE.txt
"$PILOTHOUSE_PYTHON" -m "$@" >"$report" 2>&1
status=$?
printf '%s exited with %s\n' "$1" "$status" >>"$report"
cat "$report"
exit "$status"
