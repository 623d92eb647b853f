"""The wire of Anthropic's messages (``/messages``)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.models.asked import Asked, Json, Tool, count_turns, text_of
from tests.support.models.parts import Fail, Usage
from tests.support.models.wire import Output, Text, Thinking, ToolCall, event, tokens

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error_json(fail: Fail) -> Json:
    return {"type": "error", "error": {"type": ERRORS.get(fail.status, "api_error"), "message": fail.message}}


def usage_json(usage: Usage) -> Json:
    """Here cached tokens are counted beside the input, not in it, and reasoning is not told apart."""
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def blocks_of(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class AnthropicEncoder:
    def __init__(self, asked: Asked, usage: Usage) -> None:
        self._asked = asked
        self._usage = usage
        self._blocks = 0
        self._stop = "end_turn"

    def start(self) -> Iterator[bytes]:
        message: Json = {
            "id": f"msg_{self._asked.turns}",
            "type": "message",
            "role": "assistant",
            "model": self._asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**usage_json(self._usage), "output_tokens": 1},
        }
        yield event({"type": "message_start", "message": message}, "message_start")

    def output(self, output: Output) -> Iterator[bytes]:
        match output:
            case Thinking(text):
                deltas = [{"type": "thinking_delta", "thinking": token} for token in tokens(text)]
                signature = {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}
                yield from self._block({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature])
            case Text(text):
                yield from self._block(
                    {"type": "text", "text": ""}, [{"type": "text_delta", "text": token} for token in tokens(text)]
                )
            case ToolCall():
                self._stop = "tool_use"
                yield from self._block(
                    {"type": "tool_use", "id": output.id, "name": output.name, "input": {}},
                    [{"type": "input_json_delta", "partial_json": token} for token in tokens(output.written)],
                )

    def _block(self, block: Json, deltas: list[Json]) -> Iterator[bytes]:
        index, self._blocks = self._blocks, self._blocks + 1
        yield event({"type": "content_block_start", "index": index, "content_block": block}, "content_block_start")
        for delta in deltas:
            yield event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
        yield event({"type": "content_block_stop", "index": index}, "content_block_stop")

    def finish(self, cut: bool = False) -> Iterator[bytes]:
        self._stop = "max_tokens" if cut else self._stop
        yield event(
            {
                "type": "message_delta",
                "delta": {"stop_reason": self._stop, "stop_sequence": None},
                "usage": usage_json(self._usage),
            },
            "message_delta",
        )
        yield event({"type": "message_stop"}, "message_stop")

    def broken(self, fail: Fail) -> Iterator[bytes]:
        yield event(error_json(fail), "error")


class Anthropic:
    name = "anthropic"

    def read(self, path: str, body: Json) -> Asked:
        messages = body.get("messages", [])
        blocks = [(message["role"], block) for message in messages for block in blocks_of(message["content"])]
        texts = [block["text"] for role, block in blocks if role == "user" and block["type"] == "text"]
        return Asked(
            model=body.get("model", ""),
            system=text_of(body.get("system")),
            prompts=tuple(texts),
            results=tuple(text_of(block.get("content")) for _, block in blocks if block["type"] == "tool_result"),
            turns=count_turns(message["role"] == "assistant" for message in messages),
            tools=tuple(Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or []),
            stream=bool(body.get("stream")),
        )

    def encoder(self, asked: Asked, usage: Usage) -> AnthropicEncoder:
        return AnthropicEncoder(asked, usage)

    def whole(self, asked: Asked, outputs: list[Output], usage: Usage) -> Json:
        content: list[Json] = []
        for output in outputs:
            match output:
                case Thinking(text):
                    content.append({"type": "thinking", "thinking": text, "signature": "c2NyaXB0ZWQ="})
                case Text(text):
                    content.append({"type": "text", "text": text})
                case ToolCall():
                    content.append(
                        {"type": "tool_use", "id": output.id, "name": output.name, "input": dict(output.args)}
                    )
        return {
            "id": f"msg_{asked.turns}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": content,
            "stop_reason": "tool_use" if any(isinstance(one, ToolCall) for one in outputs) else "end_turn",
            "stop_sequence": None,
            "usage": usage_json(usage),
        }

    def error(self, fail: Fail) -> Json:
        return error_json(fail)
