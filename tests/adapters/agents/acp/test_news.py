"""Updates of an agent over its protocol, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import acp
from acp.schema import SessionNotification, ToolCallUpdate

from pilothouse.adapters.agents.acp.news import Updates, Wanted, lines_changed
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    News,
    Noted,
    Reasoning,
    Text,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.usage import Usage

TURN = Used(usage=Usage(turns=1))


def told(updates: Updates, *given: dict[str, Any]) -> list[News]:
    """The news of updates as they are on the wire."""
    notifications = (SessionNotification.model_validate({"sessionId": "s", "update": update}) for update in given)
    return [news for one in notifications for news in updates.news(one.update)]


def call(call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": "a tool", **fields}


def more(call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields}


def diff(path: str, before: str | None, after: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": before, "newText": after}


def without_turns(news: Iterable[News]) -> list[News]:
    return [one for one in news if not isinstance(one, Used)]


def test_what_it_says_and_thinks_is_told_piece_by_piece() -> None:
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hel"}}
    rest = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "lo"}}
    thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}

    assert told(Updates("/w"), thought, said, rest) == [TURN, Reasoning(text="hm"), Text(text="Hel"), Text(text="lo")]


def test_a_long_message_comes_in_pieces_that_are_bounded() -> None:
    long = "x" * (MAX_TEXT + 1)
    news = told(Updates("/w"), {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": long}})

    assert [len(one.text) for one in news if isinstance(one, Text)] == [MAX_TEXT, 1]


def test_what_says_nothing_about_the_work_is_not_told() -> None:
    updates = Updates("/w")
    empty = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}
    picture = {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "", "mimeType": "x/y"}}
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    context = {"sessionUpdate": "usage_update", "used": 100, "size": 1000}

    assert told(updates, empty, picture, commands, context) == []
    assert not updates.acted


def test_a_tool_is_told_of_with_its_input_even_when_that_comes_later() -> None:
    updates = Updates("/w")

    assert told(updates, call(kind="edit", status="pending", rawInput={})) == []
    assert without_turns(told(updates, more(status="in_progress", rawInput={"path": "a"}))) == [
        ToolStarted(call_id="c1", tool="edit", title="a tool", input='{"path":"a"}')
    ]
    assert told(updates, more(title="another title")) == []


def test_a_tool_that_never_names_its_input_is_told_of_when_it_runs() -> None:
    assert without_turns(told(Updates("/w"), call(kind="read", status="in_progress"))) == [
        ToolStarted(call_id="c1", tool="read", title="a tool")
    ]


def test_a_tool_has_the_name_that_its_agent_gives_it_beside_the_protocol() -> None:
    (started,) = without_turns(
        told(Updates("/w"), call(kind="edit", status="in_progress", _meta={"someAgent": {"toolName": "Write"}}))
    )

    assert isinstance(started, ToolStarted)
    assert started.tool == "Write"


def test_the_end_of_a_tool_tells_its_output_and_the_files_it_changed() -> None:
    updates = Updates("/w")
    told(updates, call(kind="edit", rawInput={"path": "a"}, content=[diff("/w/sub/a", "one\ntwo\n", "one\nthree\n")]))
    content = [{"type": "content", "content": {"type": "text", "text": "done"}}]

    assert told(updates, more(status="completed", content=content)) == [
        ToolEnded(call_id="c1", tool="edit", output="done"),
        FileEdited(path="sub/a", change="modified", lines_added=1, lines_removed=1),
    ]
    assert updates.sums == Usage(tool_calls=1, lines_added=1, lines_removed=1)


def test_a_file_that_was_empty_or_not_there_is_created() -> None:
    for before in (None, ""):
        updates = Updates("/w")
        told(updates, call(kind="edit", rawInput={"path": "a"}, content=[diff("/elsewhere/a", before, "one\n")]))
        news = told(updates, more(status="completed"))

        assert FileEdited(path="/elsewhere/a", change="created", lines_added=1) in news


def test_a_file_is_told_of_by_its_place_where_no_difference_is_shown() -> None:
    for output, change, lines in (({"metadata": {"exists": False}}, "created", 2), ({"output": "ok"}, "modified", 0)):
        updates = Updates("/w")
        told(updates, call(kind="edit", rawInput={"content": "1\n2\n"}, locations=[{"path": "/w/a"}]))
        news = told(updates, more(status="completed", rawOutput=output))

        assert news[1:] == [FileEdited(path="a", change=change, lines_added=lines)]


def test_a_file_that_was_deleted_is_told_by_its_place() -> None:
    updates = Updates("/w")
    told(updates, call(kind="delete", status="in_progress", locations=[{"path": "/w/a"}]))

    assert FileEdited(path="a", change="deleted") in told(updates, more(status="completed"))


def test_a_tool_that_failed_changed_nothing() -> None:
    updates = Updates("/w")
    told(updates, call(kind="edit", rawInput={"path": "a"}, content=[diff("/w/a", None, "one\n")]))

    assert told(updates, more(status="failed", rawOutput={"output": "no such place"})) == [
        ToolEnded(call_id="c1", tool="edit", status=ToolStatus.FAILED, output="no such place")
    ]


def test_output_that_has_no_text_for_people_is_told_as_it_is() -> None:
    updates = Updates("/w")
    (_, _, ended) = told(updates, call(kind="execute", status="completed", rawOutput={"code": 3}))

    assert isinstance(ended, ToolEnded)
    assert ended.output == '{"code":3}'


def test_a_command_is_told_as_a_person_would_type_it() -> None:
    for command, shown in (("make all", "make all"), (["sh", "-c", "a b"], "sh -c 'a b'"), ([], '{"command":[]}')):
        (started,) = without_turns(
            told(Updates("/w"), call(kind="execute", status="in_progress", rawInput={"command": command}))
        )
        assert isinstance(started, ToolStarted)
        assert started.input == shown


def test_whoever_asks_names_the_files_and_the_address_that_it_is_about() -> None:
    call = {
        "toolCallId": "c1",
        "kind": "fetch",
        "title": "get",
        "rawInput": {"url": "https://example.com/x"},
        "locations": [{"path": "/w/a"}],
        "content": [diff("/w/b", None, "x")],
    }
    wanted, _ = Updates("/w").asked(ToolCallUpdate.model_validate(call))

    assert (wanted.paths, wanted.url) == (("/w/b", "/w/a"), "https://example.com/x")


def test_what_a_tool_shows_for_a_question_is_not_its_output() -> None:
    updates = Updates("/w")
    content = [{"type": "content", "content": {"type": "text", "text": "Proposed: rm"}}]
    updates.asked(ToolCallUpdate.model_validate({"toolCallId": "c1", "kind": "execute", "content": content}))

    assert told(updates, more(status="completed")) == [ToolEnded(call_id="c1", tool="execute")]


def test_the_end_of_a_tool_is_told_once() -> None:
    updates = Updates("/w")
    told(updates, call(status="completed"))

    assert told(updates, more(status="completed"), more(status="failed")) == []


def test_a_tool_may_be_asked_for_once_more_after_its_end() -> None:
    updates = Updates("/w")
    told(updates, call(status="completed", rawInput="first"))
    _, news = updates.asked(ToolCallUpdate.model_validate({"toolCallId": "c1", "kind": "edit", "rawInput": "again"}))

    assert without_turns(news) == [ToolStarted(call_id="c1", tool="edit", input="again")]


def test_a_tool_that_was_not_permitted_ends_as_denied() -> None:
    updates = Updates("/w")
    wanted = ToolCallUpdate.model_validate({"toolCallId": "c1", "kind": "execute", "title": "rm", "rawInput": "rm -r"})

    asked, news = updates.asked(wanted)
    assert without_turns(news) == [ToolStarted(call_id="c1", tool="execute", title="rm", input="rm -r")]
    assert asked == Wanted("execute", "execute", "rm", "rm -r", (), "")
    updates.denied("c1")
    (ended,) = told(updates, more(status="failed"))
    assert isinstance(ended, ToolEnded)
    assert ended.status is ToolStatus.DENIED


def test_a_file_that_it_wrote_through_us_is_told_once() -> None:
    updates = Updates("/w")
    told(updates, call(kind="edit", rawInput={"path": "a"}, content=[diff("/w/a", "", "one\n")]))

    assert list(updates.written("/w/a", None, "one\n")) == [FileEdited(path="a", change="created", lines_added=1)]
    assert told(updates, more(status="completed")) == [ToolEnded(call_id="c1", tool="edit")]


def test_tools_that_never_ended_have_failed_when_nothing_more_comes() -> None:
    updates = Updates("/w")
    told(updates, call("c1", status="in_progress"), call("c2", status="completed"), call("c3", status="pending"))

    assert list(updates.close()) == [ToolEnded(call_id="c1", tool="other", status=ToolStatus.FAILED)]


def test_what_it_says_and_does_between_two_results_is_one_turn() -> None:
    updates = Updates("/w")
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    first = told(updates, said, said, call("c1", status="in_progress"), call("c2", status="in_progress"))
    between = told(updates, more("c1", status="completed"), more("c2", status="completed"))
    second = told(updates, said)

    assert [news.count(TURN) for news in (first, between, second)] == [1, 0, 1]


def test_its_plan_is_told_as_a_list() -> None:
    entries = [
        acp.plan_entry("look", status="completed"),
        acp.plan_entry("write", status="in_progress"),
        acp.plan_entry("check"),
    ]

    assert list(Updates("/w").news(acp.update_plan(entries))) == [Noted(text="plan:\n[x] look\n[>] write\n[ ] check")]


def test_lines_that_only_moved_are_neither_added_nor_removed() -> None:
    assert lines_changed("a\nb\nc\n", "c\na\nb\nd\n") == (1, 0)
    assert lines_changed("", "a\n\n") == (2, 0)
    assert lines_changed("a\na\n", "a\n") == (0, 1)


def test_calls_of_the_server_it_was_given_are_passed_over_but_counted() -> None:
    updates = Updates("/w", "ours_tools")
    begun = told(
        updates,
        call("c1", title="ours_tools_make", kind="other"),
        more("c1", title="Making", rawInput={"a": 1}, status="in_progress"),
        call("c2", title="ours_tools_make", kind="execute", status="in_progress"),
    )
    ended = told(
        updates,
        more("c1", status="completed", content=[diff("/w/a", None, "x")]),
        more("c2", status="completed"),
        more("c1", status="completed"),
    )

    assert without_turns(begun) == [ToolStarted(call_id="c2", tool="execute", title="ours_tools_make")]
    assert ended == [ToolEnded(call_id="c2", tool="execute")]
    assert updates.sums == Usage(tool_calls=2)
    told(updates, call("c3", title="ours_tools_make", status="in_progress"))
    assert list(updates.close()) == []


def test_a_call_does_not_become_one_of_the_servers_by_a_later_title() -> None:
    updates = Updates("/w", "ours_tools")
    news = told(updates, call("c1", title="Task"), more("c1", title="ours_tools_make", status="in_progress"))

    assert without_turns(news) == [ToolStarted(call_id="c1", tool="other", title="ours_tools_make")]


def test_a_request_says_whether_it_is_certainly_for_what_it_was_given() -> None:
    meta = {"claudeCode": {"mcpServer": {"name": "ours_tools"}}}
    for title, fields, given in (("mcp__ours_tools__make", {"_meta": meta}, True), ("ours_tools_make", {}, False)):
        asked = ToolCallUpdate.model_validate({"toolCallId": title, "title": title, "kind": "other", **fields})
        wanted, news = Updates("/w", "ours_tools").asked(asked)
        assert wanted.given is given
        assert without_turns(news) == []
