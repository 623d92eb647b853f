"""The wire of Gemini (``/models/MODEL:generateContent`` and ``:streamGenerateContent``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.models.asked import Asked, Json, Tool, count_turns
from tests.support.models.parts import Fail, Usage
from tests.support.models.wire import Output, Text, Thinking, ToolCall, event, tokens

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"} | {
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def usage_json(usage: Usage) -> Json:
    """Here reasoning is counted beside the output, not in it."""
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    }


def error_json(fail: Fail) -> Json:
    details = []
    if fail.retry_after is not None:
        details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{fail.retry_after:g}s"}]
    status = STATUS.get(fail.status, "UNKNOWN")
    return {"error": {"code": fail.status, "message": fail.message, "status": status, "details": details}}


def part_json(output: Output) -> Json:
    match output:
        case Thinking(text):
            return {"text": text, "thought": True}
        case Text(text):
            return {"text": text}
        case ToolCall():
            return {"functionCall": {"id": output.id, "name": output.name, "args": dict(output.args)}}


def chunk_json(asked: Asked, parts: list[Json], usage: Usage | None = None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    chunk = {"candidates": [candidate], "modelVersion": asked.model, "responseId": f"resp-{asked.turns}"}
    if usage:
        candidate["finishReason"] = "STOP"
        chunk["usageMetadata"] = usage_json(usage)
    return chunk


class GeminiEncoder:
    def __init__(self, asked: Asked, usage: Usage) -> None:
        self._asked = asked
        self._usage = usage

    def start(self) -> Iterator[bytes]:
        return iter(())

    def output(self, output: Output) -> Iterator[bytes]:
        """A call comes in one piece here."""
        pieces: list[Output] = [output]
        if not isinstance(output, ToolCall):
            pieces = [type(output)(token) for token in tokens(output.text)]
        for piece in pieces:
            yield event(chunk_json(self._asked, [part_json(piece)]))

    def finish(self, cut: bool = False) -> Iterator[bytes]:
        chunk = chunk_json(self._asked, [{"text": ""}], self._usage)
        if cut:
            chunk["candidates"][0]["finishReason"] = "MAX_TOKENS"
        yield event(chunk)

    def broken(self, fail: Fail) -> Iterator[bytes]:
        yield event(error_json(fail))


class Gemini:
    name = "gemini"

    def read(self, path: str, body: Json) -> Asked:
        contents = body.get("contents", [])
        system = body.get("systemInstruction") or body.get("system_instruction") or {}
        sent = [(content.get("role", "user"), part) for content in contents for part in content.get("parts", [])]
        functions = [
            function
            for tool in body.get("tools") or []
            for function in tool.get("functionDeclarations") or tool.get("function_declarations") or []
        ]
        return Asked(
            model=path.rpartition("/")[2].partition(":")[0],
            system="\n".join(part.get("text", "") for part in system.get("parts", [])),
            prompts=tuple(part["text"] for role, part in sent if role == "user" and "text" in part),
            results=tuple(
                str(part["functionResponse"].get("response")) for _, part in sent if "functionResponse" in part
            ),
            turns=count_turns(content.get("role") == "model" for content in contents),
            tools=tuple(
                Tool(function["name"], function.get("parametersJsonSchema") or function.get("parameters") or {})
                for function in functions
            ),
            stream=re.search(r":streamGenerateContent\b", path) is not None,
        )

    def encoder(self, asked: Asked, usage: Usage) -> GeminiEncoder:
        return GeminiEncoder(asked, usage)

    def whole(self, asked: Asked, outputs: list[Output], usage: Usage) -> Json:
        return chunk_json(asked, [part_json(output) for output in outputs], usage)

    def error(self, fail: Fail) -> Json:
        return error_json(fail)
