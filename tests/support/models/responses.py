"""The wire of OpenAI's responses (``/responses``)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.models.asked import Asked, Json, Tool, count_turns, text_of
from tests.support.models.openai import error_json
from tests.support.models.parts import Fail, Usage
from tests.support.models.wire import Output, Text, Thinking, ToolCall, event, tokens

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})


def item_json(output: Output, number: int, turn: int) -> Json:
    """One finished item of a response's output."""
    match output:
        case Thinking(text):
            summary = [{"type": "summary_text", "text": text}]
            return {"type": "reasoning", "id": f"rs_{turn}_{number}", "summary": summary, "encrypted_content": None}
        case Text(text):
            return {
                "type": "message",
                "id": f"msg_{turn}_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        case ToolCall(freeform=str(text)):
            call = {"type": "custom_tool_call", "id": f"ctc_{turn}_{number}", "call_id": output.id}
            return {**call, "name": output.name, "input": text, "status": "completed"}
        case _:
            call = {"type": "function_call", "id": f"fc_{turn}_{number}", "call_id": output.id}
            within = {"namespace": output.namespace} if output.namespace else {}
            return {**call, **within, "name": output.name, "arguments": output.written, "status": "completed"}


def response_json(asked: Asked, items: list[Json], usage: Usage | None, status: str) -> Json:
    return {
        "id": f"resp_{asked.turns}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "model": asked.model,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage
        and {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
    }


class ResponsesEncoder:
    def __init__(self, asked: Asked, usage: Usage) -> None:
        self._asked = asked
        self._usage = usage
        self._items: list[Json] = []
        self._sequence = 0

    def _event(self, kind: str, **fields: Json) -> bytes:
        self._sequence += 1
        return event({"type": kind, "sequence_number": self._sequence, **fields}, kind)

    def start(self) -> Iterator[bytes]:
        response = response_json(self._asked, [], None, "in_progress")
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def output(self, output: Output) -> Iterator[bytes]:
        number = len(self._items)
        item = item_json(output, number, self._asked.turns)
        self._items.append(item)
        unfilled: Json = {
            "summary": [],
            "content": [],
            "arguments": "",
            "input": "",
            "status": "in_progress",
        }
        begun = {key: unfilled.get(key, value) for key, value in item.items()}
        yield self._event("response.output_item.added", output_index=number, item=begun)
        at = {"output_index": number, "item_id": item["id"]}
        match output:
            case Thinking(text):
                at = {**at, "summary_index": 0}
                stem = "response.reasoning_summary"
                blank = {"type": "summary_text", "text": ""}
                yield self._event(f"{stem}_part.added", **at, part=blank)
                for token in tokens(text):
                    yield self._event(f"{stem}_text.delta", **at, delta=token)
                yield self._event(f"{stem}_text.done", **at, text=text)
                yield self._event(f"{stem}_part.done", **at, part={**blank, "text": text})
            case Text(text):
                at = {**at, "content_index": 0}
                empty: Json = {"type": "output_text", "text": "", "annotations": []}
                yield self._event("response.content_part.added", **at, part=empty)
                for token in tokens(text):
                    yield self._event("response.output_text.delta", **at, delta=token)
                yield self._event("response.output_text.done", **at, text=text)
                yield self._event("response.content_part.done", **at, part={**empty, "text": text})
            case ToolCall(freeform=None):
                for token in tokens(item["arguments"]):
                    yield self._event("response.function_call_arguments.delta", **at, delta=token)
                yield self._event("response.function_call_arguments.done", **at, arguments=item["arguments"])
            case ToolCall():
                for token in tokens(item["input"]):
                    yield self._event("response.custom_tool_call_input.delta", **at, delta=token)
                yield self._event("response.custom_tool_call_input.done", **at, input=item["input"])
        yield self._event("response.output_item.done", output_index=number, item=item)

    def finish(self, cut: bool = False) -> Iterator[bytes]:
        status = "incomplete" if cut else "completed"
        response = response_json(self._asked, self._items, self._usage, status)
        if cut:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        yield self._event(f"response.{status}", response=response)

    def broken(self, fail: Fail) -> Iterator[bytes]:
        response = response_json(self._asked, self._items, None, "failed")
        error = {"code": error_json(fail)["error"]["code"], "message": fail.message}
        yield self._event("response.failed", response={**response, "error": error})


def _tools(given: list[Json], namespace: str = "") -> Iterator[Tool]:
    for tool in given:
        if tool.get("type") == "namespace":
            yield from _tools(tool["tools"], tool["name"])
        elif tool.get("type") in ("function", "custom"):
            freeform = tool["type"] == "custom"
            yield Tool(tool["name"], tool.get("parameters") or {}, freeform=freeform, namespace=namespace)


class Responses:
    name = "responses"

    def read(self, path: str, body: Json) -> Asked:
        given = body.get("input", [])
        items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given

        def said_by(*roles: str) -> list[str]:
            return [text_of(item.get("content")) for item in items if item.get("role") in roles]

        def from_model(item: Json) -> bool:
            return item.get("role") == "assistant" or item.get("type") in CALLS | {"reasoning"}

        return Asked(
            model=body.get("model", ""),
            system="\n".join([body.get("instructions") or "", *said_by("system", "developer")]),
            prompts=tuple(said_by("user")),
            results=tuple(text_of(item.get("output")) for item in items if item.get("type") in RESULTS),
            turns=count_turns(map(from_model, items)),
            tools=tuple(_tools(body.get("tools") or [])),
            stream=bool(body.get("stream")),
        )

    def encoder(self, asked: Asked, usage: Usage) -> ResponsesEncoder:
        return ResponsesEncoder(asked, usage)

    def whole(self, asked: Asked, outputs: list[Output], usage: Usage) -> Json:
        items = [item_json(output, number, asked.turns) for number, output in enumerate(outputs)]
        return response_json(asked, items, usage, "completed")

    def error(self, fail: Fail) -> Json:
        return error_json(fail)
