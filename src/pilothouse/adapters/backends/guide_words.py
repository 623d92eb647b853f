"""What the guide says: who it is, how a model is connected, and what came of the tools it ran.

Pure: results of tools in, Markdown out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WELCOME = """\
**No language model is connected yet**, so I cannot hold a conversation: I am a small built-in guide that knows a few \
phrases. The tools I run for you are real.

Connect what should answer, then start the server again:

- **Ollama**, on this machine: `PILOTHOUSE_BACKEND=llm PILOTHOUSE_LLM_PROVIDER=ollama PILOTHOUSE_LLM_MODEL=qwen3`
- **OpenAI**, or whoever speaks its wire (set `PILOTHOUSE_LLM_BASE_URL` then): `PILOTHOUSE_BACKEND=llm \
PILOTHOUSE_LLM_PROVIDER=openai PILOTHOUSE_LLM_API_KEY=… PILOTHOUSE_LLM_MODEL=…`
- **Anthropic**: `PILOTHOUSE_BACKEND=llm PILOTHOUSE_LLM_PROVIDER=anthropic PILOTHOUSE_LLM_API_KEY=… \
PILOTHOUSE_LLM_MODEL=…`
- **An agent** that is installed here: `PILOTHOUSE_BACKEND=agent PILOTHOUSE_AGENT=claude` (`pilothouse agents` lists \
them)
- **A copilot backend**: `PILOTHOUSE_BACKEND=remote PILOTHOUSE_BACKEND_URL=… PILOTHOUSE_BACKEND_API_KEY=…`

They can stand in a file `.env` too. Meanwhile try:

- “create a workflow called demo”, then “run it in /path/of/a/registered/repository”, then “how is it going?”
- “list workflows”, “list plans”, “search patterns for review”
- “search docs for retry”
"""

NOT_OFFERED = "I would use the tool `{tool}` for that, which this mode does not offer. Nothing was done."
_GO_ON = "If that was in another conversation, go on with that one: `pilothouse chat --chat last …`."
NO_WORKFLOW = f"This conversation has no workflow yet: say “create a workflow called demo” first. {_GO_ON}"
NO_RUN = f"Nothing was run in this conversation yet: say “run it” first. {_GO_ON}"
_MOST = 20
_EXCERPT = 300


def failed(tool: str, status: str, error: str) -> str:
    return f"`{tool}` did not work ({status}): {error or 'it gave no reason'}"


def created(result: Mapping[str, Any]) -> str:
    made = f"**{result.get('name')}** (`{result.get('workflowId')}`), version {result.get('version')}"
    return (
        f"I made the workflow {made}: two blocks, `greet` and then `check`. It is always the same example, because "
        "without a model I do not understand descriptions. Say “run it in /path/of/a/repository” in this conversation "
        "to run it as a plan, in worktrees of its own; `pilothouse repo add /path/of/a/repository` registers one."
    )


def started(result: Mapping[str, Any]) -> str:
    return f"It runs as the plan `{result.get('runId')}`. Ask “how is it going?”, or watch it among the plans."


def going(result: Mapping[str, Any]) -> str:
    nodes = [f"- `{node.get('node')}`: {node.get('status')}" for node in _items(result, "nodes")]
    branch = f" The result goes to the branch `{result['targetBranch']}`." if result.get("targetBranch") else ""
    return "\n".join([f"It is **{result.get('status')}**.{branch}", *nodes])


def workflows(result: Mapping[str, Any]) -> str:
    found = [
        f"- **{one.get('name')}** (`{one.get('workflowId')}`), version {one.get('version')}, {one.get('blocks')} blocks"
        for one in _items(result, "workflows")
    ]
    return "\n".join(["Your workflows:", *found]) if found else "There are no workflows yet."


def plans(result: Mapping[str, Any]) -> str:
    found = [f"- **{one.get('name')}** (`{one.get('planId')}`): {one.get('status')}" for one in _items(result, "plans")]
    return "\n".join(["Your plans, newest first:", *found]) if found else "There are no plans yet."


def sections(result: Mapping[str, Any]) -> str:
    found = [
        f"- **{one.get('title')}** ({one.get('path')}): {' '.join(str(one.get('text', '')).split())[:_EXCERPT]}"
        for one in _items(result, "sections")
    ]
    return "\n".join(["I found:", *found]) if found else "The documentation says nothing about that."


def patterns(result: Mapping[str, Any]) -> str:
    found = [f"- **{one.get('title')}**: {one.get('when')}" for one in _items(result, "patterns")]
    others = [f"- {one.get('title')}" for one in _items(result, "others")]
    return "\n".join(["Patterns that fit:", *found, *(["", "Others:", *others] if others else [])])


def _items(result: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = result.get(name)
    return [one for one in found if isinstance(one, Mapping)][:_MOST] if isinstance(found, list | tuple) else []
