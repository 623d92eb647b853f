"""The command lines by which a test runs a real agent CLI by hand, without any driver of ours.

So that the test bed can be proved, and transcripts recorded, independently of what is tested with them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SERVER = "pilothouse"
KEY = "fake-key-0123456789"
"""Long, because one CLI blanks out its key wherever it occurs in its output."""


@dataclass(frozen=True)
class Job:
    """What one agent is to do. ``url``: of the model server, without a path. ``home``: private to it, exists."""

    prompt: str
    worktree: Path
    home: Path
    url: str
    conversation: str = "11111111-2222-4333-8444-555555555555"
    resumed: bool = False
    allowed: bool = True
    """Whether it may use its tools without asking."""
    server: tuple[str, ...] = ()
    """The command of a server of tools that it is given, by the name ``SERVER``; its tools are always allowed."""


@dataclass(frozen=True)
class Command:
    """``env`` is the whole environment. To be run in the worktree, with an empty stdin."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


Builder = Callable[[Path, Job], Command]
"""Makes the command of one agent from its executable."""


def _environment(job: Job, **more: str) -> dict[str, str]:
    temporary = job.home / "tmp"
    temporary.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(job.home), "TMPDIR": str(temporary), "LANG": "C.UTF-8", **more}


def copilot(program: Path, job: Job) -> Command:
    env = _environment(
        job,
        COPILOT_HOME=str(job.home / "copilot"),
        COPILOT_OFFLINE="true",
        COPILOT_AUTO_UPDATE="false",
        COPILOT_PROVIDER_BASE_URL=f"{job.url}/v1",
        COPILOT_PROVIDER_API_KEY=KEY,
        COPILOT_MODEL="fake-1",
    )
    argv = [str(program), "-C", str(job.worktree), "-p", job.prompt, "--no-ask-user", "--output-format", "json"]
    argv += ["--usage-output-file", str(usage_file(job))]
    argv += ["--allow-all-tools"] if job.allowed else []
    if job.server:
        command, *arguments = job.server
        server = {"type": "local", "command": command, "args": arguments, "tools": ["*"]}
        argv += ["--additional-mcp-config", json.dumps({"mcpServers": {SERVER: server}}), f"--allow-tool={SERVER}"]
    argv += [f"--resume={job.conversation}"] if job.resumed else ["--session-id", job.conversation]
    return Command(tuple(argv), env)


def usage_file(job: Job) -> Path:
    """Where Copilot leaves its count of tokens."""
    return job.home / "usage.json"


def claude(program: Path, job: Job) -> Command:
    env = _environment(
        job,
        CLAUDE_CONFIG_DIR=str(job.home / "claude"),
        ANTHROPIC_BASE_URL=job.url,
        ANTHROPIC_API_KEY=KEY,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_TELEMETRY="1",
        DISABLE_AUTOUPDATER="1",
        DISABLE_ERROR_REPORTING="1",
    )
    argv = [str(program), "-p", job.prompt, "--output-format", "stream-json", "--verbose", "--model", "fake-1"]
    allowed = [*(("Write", "Bash") if job.allowed else ()), *((f"mcp__{SERVER}",) if job.server else ())]
    argv += ["--permission-mode", "acceptEdits"] if job.allowed else []
    argv += ["--allowedTools", ",".join(allowed)] if allowed else []
    if job.server:
        command, *arguments = job.server
        server = {"type": "stdio", "command": command, "args": arguments}
        argv += ["--mcp-config", json.dumps({"mcpServers": {SERVER: server}})]
    argv += ["--resume" if job.resumed else "--session-id", job.conversation]
    return Command(tuple(argv), env)


CODEX_CONFIG = """\
model = "fake-1"
model_provider = "fake"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
"""


def codex(program: Path, job: Job) -> Command:
    home = job.home / "codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CODEX_CONFIG.format(url=job.url), encoding="utf-8")
    argv = [str(program), "exec", "-C", str(job.worktree), "--json"]
    argv += ["--dangerously-bypass-approvals-and-sandbox"] if job.allowed else ["--sandbox", "read-only"]
    if job.server:
        command, *arguments = job.server
        server = {"command": command, "args": arguments, "default_tools_approval_mode": "approve"}
        for setting, value in server.items():
            argv += ["-c", f"mcp_servers.{SERVER}_tools.{setting}={json.dumps(value)}"]
    argv += ["resume", job.conversation] if job.resumed else []
    return Command((*argv, job.prompt), _environment(job, CODEX_HOME=str(home), FAKE_KEY=KEY))


def opencode(program: Path, job: Job) -> Command:
    allowed = "allow" if job.allowed else "ask"
    config = {
        "provider": {
            "fake": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"{job.url}/v1", "apiKey": KEY},
                "models": {"fake-1": {}},
            }
        },
        "autoupdate": False,
        "share": "disabled",
        "permission": {"edit": allowed, "bash": allowed},
        **({"mcp": {f"{SERVER}_tools": {"type": "local", "command": list(job.server)}}} if job.server else {}),
    }
    env = _environment(
        job,
        OPENCODE_CONFIG_CONTENT=json.dumps(config),
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_DISABLE_LSP_DOWNLOAD="1",
    )
    argv = [str(program), "run", "--dir", str(job.worktree), "--format", "json", "-m", "fake/fake-1"]
    argv += ["-s", job.conversation] if job.resumed else []
    return Command((*argv, job.prompt), env)


def gemini(program: Path, job: Job) -> Command:
    settings: dict[str, object] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    if job.server:
        command, *arguments = job.server
        settings["mcpServers"] = {f"{SERVER}_tools": {"command": command, "args": arguments, "trust": True}}
    (job.home / ".gemini").mkdir(exist_ok=True)
    (job.home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    env = _environment(job, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=job.url, GEMINI_CLI_HOME=str(job.home))
    argv = [str(program), "-p", job.prompt, "--skip-trust", "-o", "stream-json", "-m", "gemini-2.5-flash"]
    argv += ["--yolo"] if job.allowed else []
    argv += ["--resume", job.conversation] if job.resumed else []
    return Command(tuple(argv), env)


COMMANDS: Mapping[str, Builder] = {
    "copilot": copilot,
    "claude": claude,
    "codex": codex,
    "opencode": opencode,
    "gemini": gemini,
}


def conversation_of(output: str) -> str:
    """The id of the conversation in an agent's output, whatever agent it is. Raises StopIteration for none."""
    lines = (json.loads(line) for line in output.splitlines())
    names = ("thread_id", "sessionID", "session_id", "sessionId")
    return next(str(line[name]) for line in lines for name in names if name in line)
