"""What a run over ACP tells of tokens by the agent's own records, which are of the whole conversation."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import some_work
from tests.support import acp_agent
from tests.support.agent_run import AgentRun

from pilothouse.adapters.agents.acp.driver import AcpAgent, Speech
from pilothouse.adapters.agents.driver import AgentWork, Facts, Program
from pilothouse.core.run.agents import Used

RESUMES = {"agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}}}


def speak(work: AgentWork) -> Speech:
    return Speech(argv=work.program.argv, options={"model": work.model} if work.model else {}, meter="codex")


def tokens(root: Path, **changes: Any) -> int:
    """Of a run that goes on with a conversation in which 20 were used before, and that uses none itself."""
    record = root / "codex" / "sessions" / "2026" / "01" / "02" / "rollout-2026-01-02T03-04-05-s-0.jsonl"
    record.parent.mkdir(parents=True)
    total = {"input_tokens": 15, "output_tokens": 5}
    record.write_text(json.dumps({"payload": {"type": "token_count", "info": {"total_token_usage": total}}}))
    part = root / "part.json"
    part.write_text(json.dumps({"heard": str(root / "heard"), "initialize": RESUMES, "steps": [["say", "x"]]}))
    given = some_work(
        worktree=str(root),
        prompt="Go on.",
        session_id="s-0",
        program=Program(argv=(sys.executable, acp_agent.__file__, str(part))),
        run=str(root),
        **changes,
    )
    driver = AcpAgent(Facts(name="metered", title="Metered", acp=True, asks=True, resumes=True), speak)
    with AgentRun(driver, given, {"PATH": os.environ["PATH"], "CODEX_HOME": str(root / "codex")}) as run:
        ended = run.end()
    return sum(one.usage.tokens for one in (*run.of(Used), *ended.news) if isinstance(one, Used))


@pytest.mark.parametrize("model", ["", "huge"], ids=["to its end", "ended before its prompt"])
def test_what_a_conversation_used_before_is_not_told_again(tmp_path: Path, model: str) -> None:
    assert tokens(tmp_path.resolve(), model=model) == 0
