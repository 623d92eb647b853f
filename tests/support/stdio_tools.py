"""A small server of tools that speaks MCP over its standard input and output, for agents that are given one.

``python stdio_tools.py FILE``: what it is asked goes to FILE, a JSON line each. Its tools: ``echo`` answers its
``text`` with its secret behind it, ``refuse`` an error, ``die`` nothing at all; ``wait`` answers once FILE.go is there;
``same``, which is not listed, answers its text.
Standard library only: agents start it in environments of their own.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SECRET = "TOOLS_SECRET"
"""The variable that it is to be given, and its agent's command lines are not to show."""
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_LOOK_S = 0.05
_writing = threading.Lock()


def main() -> None:
    heard = Path(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        with heard.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**request, "secret": os.environ.get(SECRET, "")}) + "\n")
        if "id" in request:
            # Beside each other, as requests come.
            threading.Thread(target=_answer, args=(request, heard), daemon=True).start()


def _answer(request: dict[str, Any], heard: Path) -> None:
    params = request.get("params") or {}
    result: dict[str, Any]
    match request["method"]:
        case "initialize":
            version = params["protocolVersion"]
            result = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tests", "version": "1"},
            }
        case "tools/list":
            names = ("echo", "refuse", "die", "wait")
            result = {"tools": [{"name": name, "description": f"To {name}", "inputSchema": _TEXT} for name in names]}
        case "tools/call":
            result = _call(params["name"], params.get("arguments") or {}, heard)
        case "ping":
            result = {}
        case method:
            _say({"id": request["id"], "error": {"code": -32601, "message": f"no {method}"}})
            return
    _say({"id": request["id"], "result": result})


def _call(name: str, arguments: dict[str, Any], heard: Path) -> dict[str, Any]:
    text = arguments.get("text", "")
    if name == "die":
        os._exit(3)
    while name == "wait" and not heard.with_name(f"{heard.name}.go").exists():
        time.sleep(_LOOK_S)
    if name == "refuse":
        return {"content": [{"type": "text", "text": f"refused: {text}"}], "isError": True}
    if name == "same":
        return {"content": [{"type": "text", "text": text}]}
    return {"content": [{"type": "text", "text": f"{name}: {text} {os.environ.get(SECRET, '')}"}]}


def _say(message: dict[str, Any]) -> None:
    with _writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
