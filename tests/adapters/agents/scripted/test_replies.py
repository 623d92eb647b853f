"""What a replies file may hold."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.scripted.replies import (
    Append,
    Ask,
    Call,
    Commit,
    Delete,
    Exit,
    Expect,
    Fail,
    Limit,
    Linger,
    Print,
    Replies,
    Run,
    Say,
    Sleep,
    Think,
    Tool,
    Use,
    Write,
)
from pilothouse.adapters.agents.scripted.script import replies_for
from pilothouse.errors import BadInput


def texts(replies: Replies) -> list[str]:
    return [reply.text for reply in replies if isinstance(reply, Say)]


def test_every_reply_is_read() -> None:
    assert replies_for(
        """
        - say: hello
        - write: { path: a/b, content: no }
        - append: { path: a, content: "" }
        - delete: a
        - expect: { path: a, contains: 1.10 }
        - run: make test
        - sleep: 200
        - commit: done
        - fail: enough
        - think: hm
        - tool: { name: search }
        - tool: { name: search, input: "", output: 7 }
        - call: list_plans
        - call: { tool: get_plan, arguments: { id: p-1, deep: [ 1 ] }, mayFail: true }
        - call: { tool: get_plan, arguments: '{"n": 1}', mayFail: false }
        - ask: deploy
        - ask: { tool: deploy, input: now }
        - use: { model: gpt-5, input: 10, output: 2, cached: 3, reasoning: 1 }
        - limit: 1500
        - print: ""
        - print: { text: x, times: 3 }
        - linger: 5
        - exit: 0
        """,
        "api",
        1,
    ) == (
        Say("hello"),
        Write("a/b", "no"),
        Append("a", ""),
        Delete("a"),
        Expect("a", "1.10"),
        Run("make test"),
        Sleep(200),
        Commit("done"),
        Fail("enough"),
        Think("hm"),
        Tool("search"),
        Tool("search", "", "7"),
        Call("list_plans"),
        Call("get_plan", {"id": "p-1", "deep": ["1"]}, True),
        Call("get_plan", {"n": 1}),
        Ask("deploy"),
        Ask("deploy", "now"),
        Use("gpt-5", 10, 2, 3, 1),
        Limit(1500),
        Print(""),
        Print("x", 3),
        Linger(5),
        Exit(0),
    )


def test_json_is_fine_too() -> None:
    assert replies_for('{"replies": [{"say": "hi"}, {"sleep": 5}]}', "api", 1) == (Say("hi"), Sleep(5))


SCRIPT = """
replies: [ say: everyone ]
nodes:
  api: [ say: api ]
  front/end:
    attempts:
      1: [ say: first ]
      3: [ say: third ]
  late:
    replies: [ say: at first ]
    attempts: { 2: [ say: later ] }
"""


@pytest.mark.parametrize(
    ("node", "attempt", "said"),
    [
        ("other", 1, "everyone"),
        ("api", 7, "api"),
        ("front/end", 1, "first"),
        ("front/end", 2, "first"),
        ("front/end", 4, "third"),
        ("late", 1, "at first"),
        ("late", 2, "later"),
    ],
)
def test_the_nearest_entry_counts(node: str, attempt: int, said: str) -> None:
    assert texts(replies_for(SCRIPT, node, attempt)) == [said]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is neither a list of replies nor a mapping"),
        ("just text", "is neither a list of replies nor a mapping"),
        ("{}", "says nothing"),
        ("reply: []", "unknown 'reply' .*'replies', 'attempts' or 'nodes'"),
        ("replies: hello", "replies: is not a list"),
        ("- hello", r"replies\[0\]: is not one reply"),
        ("- {say: a, run: b}", r"replies\[0\]: is not one reply"),
        ("- shout: a", r"replies\[0\]: unknown reply 'shout' \(use one of say, "),
        ("- say: [a]", r"replies\[0\]\.say: is not text"),
        ("- run:", r"replies\[0\]\.run: is empty"),
        ("- write: {path: a}", r"replies\[0\]\.write\.content: is missing"),
        ("- write: {path: a, content: b, mode: c}", r"replies\[0\]\.write: unknown field 'mode'"),
        ("- write: {path: ../a, content: b}", r"replies\[0\]\.write\.path: '\.\./a' leads outside"),
        ("- delete: /etc/passwd", r"replies\[0\]\.delete: '/etc/passwd' leads outside"),
        ("- write: {path: .git/config, content: b}", r"replies\[0\]\.write\.path: git's own files"),
        ("- sleep: soon", r"replies\[0\]\.sleep: 'soon' is not a whole number"),
        ("- sleep: -1", r"replies\[0\]\.sleep: '-1' is not a whole number"),
        (f"- sleep: {'9' * 5000}", r"replies\[0\]\.sleep: .* is not a whole number"),
        ("attempts: {0: []}", "attempts: '0' is not a whole number from 1"),
        ("nodes: {api: {replies: [say: 1], nodes: {}}}", "nodes.api: unknown 'nodes'"),
        ("nodes: {web: [], api: {attempts: {1: [{fail: []}]}}}", r"nodes\.api\.attempts\.1\[0\]\.fail: is not text"),
        ("nodes: {web: []}", "no replies for attempt 1 of node 'api'"),
        ("attempts: {2: []}", "no replies for attempt 1 of node 'api'"),
        ("nodes: {api: [], api: []}", "'api' is given twice, line 1, column 18"),
        ("- say: [", "is not valid YAML: .*line 1"),
        ("- !!python/object:os.system x", r"replies\[0\]: is not one reply"),
        ("[" * 5000, "is not valid YAML"),
        ("x" * (1 << 21), "is larger than"),
        ('- say: "a\\0b"', "NUL"),
    ],
)
def test_a_mistake_names_its_field(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replies_for(text, "api", 1)


def test_mistakes_in_the_replies_of_others_are_told_too() -> None:
    with pytest.raises(BadInput, match=r"nodes\.web"):
        replies_for("nodes: {api: [], web: [x]}", "api", 1)
