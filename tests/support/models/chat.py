"""The wire of chat completions (``/chat/completions``)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.models.asked import Asked, Json, Tool, count_turns, text_of
from tests.support.models.openai import error_json
from tests.support.models.parts import Fail, Usage
from tests.support.models.wire import Output, Text, Thinking, ToolCall, compact, event, tokens


def usage_json(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


class ChatEncoder:
    def __init__(self, asked: Asked, usage: Usage) -> None:
        self._usage = usage
        self._calls = 0
        self._frame = {
            "id": f"chatcmpl-{asked.turns}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": asked.model,
        }

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        return event({**self._frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def output(self, output: Output) -> Iterator[bytes]:
        match output:
            case Thinking(text):
                for token in tokens(text):
                    yield self._chunk({"reasoning_content": token})
            case Text(text):
                for token in tokens(text):
                    yield self._chunk({"content": token})
            case ToolCall():
                call = {"index": self._calls, "id": output.id, "type": "function"}
                yield self._chunk({"tool_calls": [{**call, "function": {"name": output.name, "arguments": ""}}]})
                for token in tokens(output.written):
                    piece = {"index": self._calls, "function": {"arguments": token}}
                    yield self._chunk({"tool_calls": [piece]})
                self._calls += 1

    def finish(self, cut: bool = False) -> Iterator[bytes]:
        yield self._chunk({}, "length" if cut else "tool_calls" if self._calls else "stop")
        yield event({**self._frame, "choices": [], "usage": usage_json(self._usage)})
        yield b"data: [DONE]\n\n"

    def broken(self, fail: Fail) -> Iterator[bytes]:
        yield event(error_json(fail))


class Chat:
    name = "chat"

    def read(self, path: str, body: Json) -> Asked:
        messages = body.get("messages", [])

        def of(*roles: str) -> list[str]:
            return [text_of(message.get("content")) for message in messages if message["role"] in roles]

        functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
        return Asked(
            model=body.get("model", ""),
            system="\n".join(of("system", "developer")),
            prompts=tuple(of("user")),
            results=tuple(of("tool")),
            turns=count_turns(message["role"] == "assistant" for message in messages),
            tools=tuple(Tool(function["name"], function.get("parameters") or {}) for function in functions),
            stream=bool(body.get("stream")),
        )

    def encoder(self, asked: Asked, usage: Usage) -> ChatEncoder:
        return ChatEncoder(asked, usage)

    def whole(self, asked: Asked, outputs: list[Output], usage: Usage) -> Json:
        calls = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": compact(one.args)}}
            for one in outputs
            if isinstance(one, ToolCall)
        ]
        message = {
            "role": "assistant",
            "content": "".join(one.text for one in outputs if isinstance(one, Text)) or None,
            "reasoning_content": "".join(one.text for one in outputs if isinstance(one, Thinking)) or None,
            "tool_calls": calls or None,
        }
        return {
            "id": f"chatcmpl-{asked.turns}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": asked.model,
            "choices": [
                {
                    "index": 0,
                    "message": {key: value for key, value in message.items() if value or key == "content"},
                    "finish_reason": "tool_calls" if calls else "stop",
                }
            ],
            "usage": usage_json(usage),
        }

    def error(self, fail: Fail) -> Json:
        return error_json(fail)
