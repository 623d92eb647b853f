"""Folders in a worktree that are ours and never committed, whatever the user's ignore rules say."""

from __future__ import annotations

EVIDENCE = ".orchestrator/evidence"
OURS = (EVIDENCE, ".pilothouse")
