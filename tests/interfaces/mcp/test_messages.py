"""Lines, messages and headers, as a bridge reads and writes them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.interfaces.mcp import messages
from pilothouse.interfaces.mcp.messages import INVALID_REQUEST, PARSE_ERROR, Unreadable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
META = "io.modelcontextprotocol/protocolVersion"


def refused(line: bytes) -> dict[str, Any]:
    with pytest.raises(Unreadable) as caught:
        messages.read(line)
    error: dict[str, Any] = caught.value.answer["error"]
    return error


@given(line=st.binary())
def test_whatever_stands_in_a_line_is_a_message_or_an_error(line: bytes) -> None:
    try:
        assert isinstance(messages.read(line), dict)
    except Unreadable as unreadable:
        assert unreadable.answer["jsonrpc"] == "2.0"
        assert unreadable.answer["error"]["code"] in {PARSE_ERROR, INVALID_REQUEST}


@given(value=JSON)
def test_a_message_that_is_json_but_none_of_ours_is_refused_as_such(value: Any) -> None:
    if not isinstance(value, dict):
        assert refused(json.dumps(value).encode())["code"] == INVALID_REQUEST


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000, b"NaN}"])
def test_what_is_no_json_is_a_parse_error(line: bytes) -> None:
    assert refused(line)["code"] == PARSE_ERROR


@pytest.mark.parametrize(
    "message",
    [{"id": None}, {"id": 1.5}, {"id": True}, {"id": [1]}, {"id": 1, "method": 2}, {"method": "m", "params": []}],
)
def test_what_is_no_message_is_an_invalid_request(message: dict[str, Any]) -> None:
    assert refused(json.dumps({"jsonrpc": "2.0", **message}).encode())["code"] == INVALID_REQUEST


@given(message=st.dictionaries(st.text(), JSON))
def test_a_message_is_one_line_whatever_is_in_it(message: dict[str, Any]) -> None:
    line = messages.line(message)
    assert line.count(b"\n") == 1
    assert line.splitlines() == [line[:-1]]
    assert json.loads(line) == message


@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_header_carries_any_text(value: str) -> None:
    header = messages.encoded(value)
    assert header.isascii()
    assert header.isprintable()
    assert header == header.strip()
    if header != value:
        assert base64.b64decode(header.removeprefix("=?base64?").removesuffix("?=")).decode() == value


@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_the_sdk_reads_our_headers(value: str) -> None:
    from mcp.shared.inbound import decode_header_value

    assert decode_header_value(messages.encoded(value)) == value


def test_the_revision_that_was_agreed_on_goes_with_all_that_follows() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}}
    assert messages.revision(answer) == "2025-06-18"
    assert messages.headers({"method": "tools/list"}, "2025-06-18") == {"MCP-Protocol-Version": "2025-06-18"}
    assert messages.headers({"method": "initialize"}, "2025-06-18") == {}
    assert messages.headers({"method": "tools/list"}, "") == {}


@pytest.mark.parametrize("answer", [{}, {"result": None}, {"result": {"protocolVersion": 1}}, {"error": {}}])
def test_what_agrees_on_nothing_is_no_revision(answer: dict[str, Any]) -> None:
    assert messages.revision(answer) == ""


def test_a_request_that_says_its_revision_is_routed_by_headers() -> None:
    params = {"name": "läuft", "_meta": {META: "2026-07-28"}}
    found = messages.headers({"method": "tools/call", "params": params}, "")
    assert found["MCP-Protocol-Version"] == "2026-07-28"
    assert found["Mcp-Method"] == "tools/call"
    assert found["Mcp-Name"].startswith("=?base64?")
    listing = messages.headers({"method": "tools/list", "params": {"_meta": {META: "2026-07-28"}}}, "")
    assert listing == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


@pytest.mark.parametrize("meta", [None, 3, {META: 5}, {META: "a\r\nX-Evil: 1"}, {META: ""}])
def test_a_revision_that_is_none_is_no_header(meta: Any) -> None:
    assert messages.headers({"method": "tools/list", "params": {"_meta": meta}}, "") == {}
