"""The smallest client of each wire: it asks one question and reads the answer back, streamed or whole.

Written against the public descriptions of the APIs, not against our server, so that each checks the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = Any
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def connect() -> httpx.Client:
    """Without proxies, and without certificates, whose loading takes longer than most tests here."""
    return httpx.Client(trust_env=False, verify=False, timeout=30)


@dataclass
class Heard:
    """One answer of a model. Tokens as (input, cached, output), the way the wire counts them."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    tokens: tuple[int, int, int] | None = None
    ended: bool = False
    """Whether the wire's own sign of a complete answer came."""


@dataclass(frozen=True)
class Client:
    """``question``: builds the body from the prompt and how many calls were made and answered before it."""

    name: str
    path: str
    question: Callable[[str, int, bool, bool], Json]
    """``(prompt, rounds, tools, stream)``."""
    events: Callable[[Sequence[Json]], Heard]
    whole: Callable[[Json], Heard]
    whole_path: str | None = None

    def ask(
        self, url: str, prompt: str = "hello", rounds: int = 0, *, tools: bool = True, key: str = "k" * 20
    ) -> Heard:
        """Streamed. Raises httpx.HTTPStatusError for an error, httpx.TransportError for a connection that breaks."""
        headers = {"authorization": f"Bearer {key}"}
        body = self.question(prompt, rounds, tools, True)
        with connect() as http, http.stream("POST", url + self.path, json=body, headers=headers) as response:
            response.raise_for_status()
            data = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
        heard = self.events([json.loads(one) for one in data if one != "[DONE]"])
        heard.ended = heard.ended or "[DONE]" in data
        return heard

    def ask_whole(self, url: str, prompt: str = "hello", rounds: int = 0) -> Heard:
        body = self.question(prompt, rounds, True, False)
        with connect() as http:
            response = http.post(url + (self.whole_path or self.path), json=body)
        return self.whole(response.raise_for_status().json())


# --- chat completions ------------------------------------------------------------------------------------------


def chat_question(prompt: str, rounds: int, tools: bool, stream: bool) -> Json:
    messages: list[Json] = [{"role": "system", "content": "be good"}, {"role": "user", "content": prompt}]
    for number in range(rounds):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "done"},
        ]
    offered = [{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}]
    return {"model": "fake-1", "messages": messages, "stream": stream} | ({"tools": offered} if tools else {})


def chat_usage(usage: Json) -> tuple[int, int, int]:
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]


def chat_events(events: Sequence[Json]) -> Heard:
    heard, calls = Heard(), dict[int, list[str]]()
    for event in events:
        if event.get("usage"):
            heard.tokens = chat_usage(event["usage"])
        for choice in event["choices"]:
            delta = choice["delta"]
            heard.text += delta.get("content") or ""
            heard.thought += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", ()):
                name, arguments = calls.setdefault(call["index"], ["", ""])
                function = call["function"]
                calls[call["index"]] = [name + function.get("name", ""), arguments + function["arguments"]]
    heard.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return heard


def chat_whole(body: Json) -> Heard:
    message = body["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return Heard(
        message["content"] or "",
        message.get("reasoning_content", ""),
        [(function["name"], json.loads(function["arguments"])) for function in functions],
        chat_usage(body["usage"]),
        ended=body["choices"][0]["finish_reason"] in ("stop", "tool_calls"),
    )


# --- responses -------------------------------------------------------------------------------------------------


def responses_question(prompt: str, rounds: int, tools: bool, stream: bool) -> Json:
    items: list[Json] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}]
    for number in range(rounds):
        items += [
            {"type": "reasoning", "id": f"r{number}", "summary": []},
            {"type": "function_call", "call_id": f"c{number}", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "done"},
        ]
    offered = [{"type": "function", "name": "bash", "parameters": PARAMETERS}]
    return {"model": "fake-1", "input": items, "stream": stream} | ({"tools": offered} if tools else {})


def responses_events(events: Sequence[Json]) -> Heard:
    heard = Heard()
    for event in events:
        match event["type"]:
            case "response.output_text.delta":
                heard.text += event["delta"]
            case "response.reasoning_summary_text.delta":
                heard.thought += event["delta"]
            case "response.completed":
                whole = responses_whole(event["response"])
                assert (whole.text, whole.thought) == (heard.text, heard.thought)
                heard = whole
    return heard


def responses_whole(body: Json) -> Heard:
    heard = Heard(ended=body["status"] == "completed")
    for item in body["output"]:
        match item["type"]:
            case "message":
                heard.text += item["content"][0]["text"]
            case "reasoning":
                heard.thought += item["summary"][0]["text"]
            case "function_call":
                heard.calls.append((item["name"], json.loads(item["arguments"])))
    usage = body["usage"]
    heard.tokens = (
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens"],
    )
    return heard


# --- Anthropic -------------------------------------------------------------------------------------------------


def anthropic_question(prompt: str, rounds: int, tools: bool, stream: bool) -> Json:
    messages: list[Json] = [{"role": "user", "content": prompt}]
    for number in range(rounds):
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": "done"}]},
        ]
    offered = [{"name": "bash", "input_schema": PARAMETERS}]
    body = {"model": "fake-1", "max_tokens": 100, "system": "be good", "messages": messages, "stream": stream}
    return body | ({"tools": offered} if tools else {})


def anthropic_usage(usage: Json) -> tuple[int, int, int]:
    return usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]


def anthropic_events(events: Sequence[Json]) -> Heard:
    heard, name, arguments = Heard(), "", ""
    for event in events:
        match event["type"]:
            case "content_block_start":
                name, arguments = event["content_block"].get("name", ""), ""
            case "content_block_delta":
                heard.text += event["delta"].get("text", "")
                heard.thought += event["delta"].get("thinking", "")
                arguments += event["delta"].get("partial_json", "")
            case "content_block_stop" if name:
                heard.calls.append((name, json.loads(arguments)))
            case "message_delta":
                heard.tokens = anthropic_usage(event["usage"])
            case "message_stop":
                heard.ended = True
    return heard


def anthropic_whole(body: Json) -> Heard:
    heard = Heard(tokens=anthropic_usage(body["usage"]), ended=body["stop_reason"] in ("end_turn", "tool_use"))
    for block in body["content"]:
        match block["type"]:
            case "text":
                heard.text += block["text"]
            case "thinking":
                heard.thought += block["thinking"]
            case "tool_use":
                heard.calls.append((block["name"], block["input"]))
    return heard


# --- Gemini ----------------------------------------------------------------------------------------------------


def gemini_question(prompt: str, rounds: int, tools: bool, stream: bool) -> Json:
    contents: list[Json] = [{"role": "user", "parts": [{"text": prompt}]}]
    for _ in range(rounds):
        contents += [
            {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": "done"}}}]},
        ]
    offered = [{"functionDeclarations": [{"name": "bash", "parametersJsonSchema": PARAMETERS}]}]
    return {"contents": contents} | ({"tools": offered} if tools else {})


def gemini_events(events: Sequence[Json]) -> Heard:
    heard = Heard()
    for event in events:
        candidate = event["candidates"][0]
        for part in candidate["content"]["parts"]:
            if "functionCall" in part:
                heard.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
            elif part.get("thought"):
                heard.thought += part["text"]
            else:
                heard.text += part["text"]
        heard.ended = candidate.get("finishReason") == "STOP"
        if usage := event.get("usageMetadata"):
            output = usage["candidatesTokenCount"] + usage["thoughtsTokenCount"]
            heard.tokens = usage["promptTokenCount"], usage["cachedContentTokenCount"], output
    return heard


CLIENTS = (
    Client("chat", "/v1/chat/completions", chat_question, chat_events, chat_whole),
    Client("responses", "/v1/responses", responses_question, responses_events, responses_whole),
    Client("anthropic", "/v1/messages", anthropic_question, anthropic_events, anthropic_whole),
    Client(
        "gemini",
        "/v1beta/models/fake-1:streamGenerateContent?alt=sse",
        gemini_question,
        gemini_events,
        lambda body: gemini_events([body]),
        "/v1beta/models/fake-1:generateContent",
    ),
)
