"""Records what real agent CLIs print: ``python -m tests.support.record_transcripts [AGENT…] [CASE…]``.

To be run by hand after the pins of ``agent_clis`` have changed. A case that fails for good takes minutes, as that is
how long some CLIs try. ``tests/adapters/agents/transcripts/README.md`` says what is in the files.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support import agent_clis, stdio_tools
from tests.support.agent_commands import Job, conversation_of, usage_file
from tests.support.agent_processes import Finished, run
from tests.support.models.parts import (
    FOREVER,
    Part,
    Turn,
    call,
    drop,
    fail,
    hang,
    run_shell,
    say,
    think,
    usage,
    use_tool,
    write_file,
)
from tests.support.models.server import ModelServer, refusing

TRANSCRIPTS = Path(__file__).parents[1] / "adapters" / "agents" / "transcripts"
PATIENCE_S = 400.0

WRITE: Turn = (
    think("The file is missing, so I write it."),
    write_file("hello.txt", "hello from the model\n"),
    usage(1200, 60, 200, 20),
)
WORK: tuple[Turn, ...] = (
    WRITE,
    (run_shell("wc -l hello.txt"), usage(1300, 40, 1000)),
    (say("hello.txt is written."), usage(1400, 20, 1200)),
)
AGAIN: tuple[Turn, ...] = (
    (think("Once more."), write_file("again.txt", "again\n"), usage(1500, 50, 1200, 10)),
    (say("again.txt is written."), usage(1600, 10, 1400)),
)
GEMINI_WRITE: Turn = (
    WRITE[0],
    call("write_file", {"file_path": "hello.txt", "content": "hello from the model\n"}),
    WRITE[2],
)
"""For when it does not offer the tool at all."""


@dataclass(frozen=True)
class Case:
    turns: tuple[Turn | Part, ...] = ()
    allowed: bool = True
    refused: bool = False
    canceled: bool = False
    resumed: bool = False
    served: bool = False
    """With ``stdio_tools`` beside its own tools."""


CASES = {
    "success": Case(WORK),
    "resume": Case((*WORK, *AGAIN), resumed=True),
    "denied": Case((WRITE, (say("I was not allowed to write."), usage(1300, 20, 1000))), allowed=False),
    "tool-failed": Case(
        (
            (run_shell("echo oops >&2; exit 3"), usage(1200, 20)),
            (say("The command failed."), usage(1300, 10, 1200)),
        )
    ),
    "served": Case(
        (
            (use_tool("echo", {"text": "one"}), usage(1200, 20)),
            (use_tool("refuse", {"text": "two"}), write_file("hello.txt", "hello\n"), usage(1300, 30, 1200)),
            (say("It was refused."), usage(1400, 10, 1300)),
        ),
        served=True,
    ),
    "canceled": Case((WRITE, (say("Working on it"), hang())), canceled=True),
    "rate-limited": Case((fail(429, "Rate limit reached, slow down.", retry_after=1, times=2), *WORK)),
    "rate-limited-for-good": Case((fail(429, "Rate limit reached, slow down.", times=FOREVER),)),
    "server-error": Case((fail(500, "The server had an error.", times=FOREVER),)),
    "unauthorized": Case((fail(401, "Incorrect API key provided.", times=FOREVER),)),
    "refused": Case(refused=True),
    "dropped": Case((WRITE, (say("This will be cut"), drop(FOREVER)))),
}


def record(agent: str, name: str, programs: Path) -> None:
    case = CASES[name]
    turns = [GEMINI_WRITE if agent == "gemini" and not case.allowed and turn is WRITE else turn for turn in case.turns]
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        server = stack.enter_context(ModelServer(turns))
        url = stack.enter_context(refusing()) if case.refused else server.url
        worktree, home = base / "work-tree", base / "home"
        subprocess.run(["git", "init", "--quiet", str(worktree)], check=True)
        home.mkdir()
        server_of_tools = (sys.executable, stdio_tools.__file__, str(base / "heard")) if case.served else ()
        job = Job("Write hello.txt", worktree, home, url, allowed=case.allowed, server=server_of_tools)
        if case.resumed:
            first = run(agent, programs, job, patience=PATIENCE_S)
            job = replace(job, prompt="Write again.txt", conversation=conversation_of(first.out), resumed=True)
        stop = (lambda: _half_said(server)) if case.canceled else None
        finished = run(agent, programs, job, patience=PATIENCE_S, stop_when=stop)
        write(TRANSCRIPTS / agent / name, finished, server, job, cleaner(job, programs))


def _half_said(server: ModelServer) -> None:
    """In the middle of the sentence. Nothing tells when the CLI has printed the half: it is given a second."""
    server.wait_for(lambda requests: server.holding == 1, PATIENCE_S)
    time.sleep(1)


def cleaner(job: Job, programs: Path) -> Callable[[str], str]:
    """Takes out of a text what belongs to the machine it was recorded on."""
    base = job.worktree.parent
    places = {
        str(job.worktree): "/work-tree",
        str(job.home): "/agent-home",
        str(base): "/somewhere",
        str(programs.parent): "/agents",
        job.url.partition("//")[2]: "127.0.0.1:4000",
        re.sub(r"[/_]", "-", str(job.worktree)): "-work-tree",
    }

    def clean(text: str) -> str:
        for place, name in places.items():
            text = text.replace(place, name)
        return re.sub(r"gemini-client-error-[\w.:-]+\.json", "gemini-client-error.json", text)

    return clean


def write(stem: Path, finished: Finished, server: ModelServer, job: Job, clean: Callable[[str], str]) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".jsonl").write_text(clean(finished.out), encoding="utf-8")
    end = {
        "exit_code": finished.code,
        "seconds": finished.seconds,
        "requests": sum(one.asked is not None for one in server.requests),
        "files": sorted(path.name for path in job.worktree.iterdir() if path.is_file()),
        "stderr": clean(finished.err)[-3000:],
    }
    written = {".end.json": end}
    if usage_file(job).exists():
        written[".usage.json"] = json.loads(clean(usage_file(job).read_text(encoding="utf-8")))
    for suffix, value in written.items():
        text = json.dumps(value, indent=2, ensure_ascii=False)
        stem.with_suffix(suffix).write_text(f"{text}\n", encoding="utf-8")


def main(words: list[str]) -> None:
    programs = agent_clis.programs()
    for agent in [word for word in words if word in agent_clis.AGENTS] or agent_clis.AGENTS:
        for name in [word for word in words if word in CASES] or CASES:
            record(agent, name, programs)
            sys.stderr.write(f"{agent} {name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
