"""What becomes of a tool's calls follows from one table and the rules over it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from pilothouse.core.tools.policy import DEFAULTS, Mode, leaves_files, permit_of, read_mode
from pilothouse.core.tools.spec import Permit, ToolSpec, Touches
from pilothouse.errors import BadInput

ALLOW, ASK, DENY = Permit.ALLOW, Permit.ASK, Permit.DENY
READ_ONLY = (Mode.RESEARCH, Mode.CREATE_PLAN, Mode.REVISE_PLAN)


def tool(touches: Touches = Touches.FILES, name: str = "write_file", permit: Permit | None = None) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={}, touches=touches, permit=permit)


def test_every_mode_has_its_row() -> None:
    assert set(DEFAULTS) == set(Mode)


@pytest.mark.parametrize(("mode", "touches"), list(itertools.product(READ_ONLY, Touches)))
def test_a_mode_that_only_looks_offers_what_touches_nothing_and_drafts_touch_documents(
    mode: Mode, touches: Touches
) -> None:
    offered = touches is Touches.NOTHING or (touches is Touches.DOCUMENTS and mode is not Mode.RESEARCH)
    assert permit_of(tool(touches), mode, {}, {}) is (ALLOW if offered else None)


def test_files_are_left_alone_in_the_modes_that_look_and_draft() -> None:
    assert {mode for mode in Mode if leaves_files(mode)} == {Mode.RESEARCH, Mode.CREATE_PLAN, Mode.REVISE_PLAN}


@pytest.mark.parametrize("mode", READ_ONLY)
@pytest.mark.parametrize("rules", [{"write_file": ALLOW}, {"*": ALLOW}])
def test_no_rule_brings_a_tool_into_a_mode_that_does_not_offer_it(mode: Mode, rules: Mapping[str, Permit]) -> None:
    assert permit_of(tool(permit=ALLOW), mode, rules, rules) is None


@pytest.mark.parametrize("mode", [Mode.CHAT, Mode.IMPLEMENT_SIMPLE, Mode.IMPLEMENT_COMPLEX])
def test_what_cannot_be_taken_back_is_asked_about_and_the_rest_is_allowed(mode: Mode) -> None:
    asked = {touches for touches in Touches if permit_of(tool(touches), mode, {}, {}) is ASK}
    assert asked == {Touches.FILES, Touches.WORLD}


def test_a_tools_own_word_stands_over_the_table_and_under_every_rule() -> None:
    careful = tool(Touches.RUNS, "run_workflow", ASK)
    assert permit_of(careful, "chat", {}, {}) is ASK
    assert permit_of(careful, "chat", {"run_workflow": ALLOW}, {}) is ALLOW
    assert permit_of(careful, "chat", {}, {"run_*": ALLOW}) is ALLOW
    assert permit_of(careful, "research", {}, {}) is None


@pytest.mark.parametrize(
    ("chat", "user", "expected"),
    [
        ({}, {"write_file": ALLOW}, ALLOW),
        ({"write_file": ASK}, {"write_file": ALLOW}, ASK),
        ({"write_file": ALLOW}, {"write_file": DENY}, ALLOW),
        ({"write_*": ALLOW}, {"write_file": DENY}, DENY),
        ({"write_*": DENY}, {"write_file": ALLOW}, DENY),
        ({"*": DENY}, {"write_file": ALLOW}, DENY),
        ({"*": DENY, "write_file": ALLOW}, {}, ALLOW),
        ({"*": ALLOW, "write_*": DENY, "write_file": ASK}, {}, ASK),
        ({"*": ALLOW, "write_*": DENY}, {}, DENY),
        ({"*": ASK}, {"*": ALLOW}, ASK),
        ({"other": DENY, "write": DENY, "file*": DENY}, {}, ASK),
    ],
)
def test_the_most_specific_rule_decides_and_a_chats_denial_is_final(
    chat: Mapping[str, Permit], user: Mapping[str, Permit], expected: Permit
) -> None:
    assert permit_of(tool(), "chat", chat, user) is expected


def test_an_unknown_mode_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="one of chat, research") as refused:
        read_mode("agent")
    assert refused.value.field == "mode"
