"""Transcripts of real agents: whole lines of JSON that name no machine and no key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.agent_clis import AGENTS
from tests.support.agent_commands import KEY, Job
from tests.support.record_transcripts import CASES, TRANSCRIPTS, cleaner

RECORDED = [TRANSCRIPTS / agent / name for agent in AGENTS for name in CASES]


@pytest.mark.parametrize("stem", RECORDED, ids=lambda stem: f"{stem.parent.name}-{stem.name}")
def test_a_transcript_is_whole_and_could_be_of_any_machine(stem: Path) -> None:
    out = stem.with_suffix(".jsonl").read_text(encoding="utf-8")
    end = json.loads(stem.with_suffix(".end.json").read_text(encoding="utf-8"))
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    assert (end["exit_code"] is None) == (stem.parts[-2:] == ("codex", "refused"))
    for text in (out, end["stderr"]):
        assert KEY not in text
        assert str(Path(__file__).parents[2]) not in text
        assert "pilothouse-tests" not in text


def test_a_cleaned_text_has_the_same_places_on_every_machine(tmp_path: Path) -> None:
    job = Job("", tmp_path / "work_tree", tmp_path / "home", "http://127.0.0.1:39999")
    clean = cleaner(job, Path("/x/node_modules/.bin"))
    text = f"{job.worktree}/a {job.home}/b {job.url}/v1 /x/node_modules/c {tmp_path}/d"
    assert clean(text) == "/work-tree/a /agent-home/b http://127.0.0.1:4000/v1 /agents/c /somewhere/d"
