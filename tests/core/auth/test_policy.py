"""One table says who may do what to what; scopes are a ladder, owners are a wall."""

from __future__ import annotations

import itertools

import pytest

from pilothouse.core.auth.policy import POLICY, Action, Reach, reaches, require
from pilothouse.core.auth.principals import (
    DEFAULT_SCOPES,
    LOCAL,
    MEANINGS,
    THE_LOCAL_USER,
    Kind,
    Principal,
    Scope,
    check_name,
    read_scopes,
)
from pilothouse.core.auth.refusals import NeedsScope
from pilothouse.errors import BadInput


def key_of(name: str, *scopes: Scope) -> Principal:
    return Principal(name, Kind.KEY, frozenset(scopes), "k")


def test_every_action_has_a_rule_and_every_scope_a_meaning() -> None:
    assert set(POLICY) == set(Action)
    assert set(MEANINGS) == set(Scope)


def test_each_scope_includes_the_ones_before_it() -> None:
    for lower, higher in itertools.combinations(Scope, 2):
        assert higher.includes(lower)
        assert not lower.includes(higher)


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("scope", Scope)
def test_an_action_needs_its_scope(action: Action, scope: Scope) -> None:
    principal = key_of("ci", scope)
    if scope.includes(POLICY[action].scope):
        require(principal, action)
    else:
        with pytest.raises(NeedsScope, match=POLICY[action].scope) as refused:
            require(principal, action)
        assert refused.value.scope is POLICY[action].scope


def test_who_has_no_scope_may_nothing() -> None:
    for action in Action:
        with pytest.raises(NeedsScope):
            require(key_of("ci"), action)


def test_the_local_user_may_everything_to_everybodys() -> None:
    for action in Action:
        require(THE_LOCAL_USER, action)
        assert reaches(THE_LOCAL_USER, action, "somebody")


def test_a_new_key_works_but_answers_for_nobody() -> None:
    principal = key_of("ci", *DEFAULT_SCOPES)
    require(principal, Action.START_RUNS)
    for action in (Action.ANSWER_APPROVALS, Action.CHANGE_KEYS):
        with pytest.raises(NeedsScope):
            require(principal, action)


@pytest.mark.parametrize("scope", [Scope.READ, Scope.RUN, Scope.APPROVE])
def test_what_belongs_to_others_is_not_there(scope: Scope) -> None:
    bob = key_of("bob", scope)
    assert (bob.sees("bob"), bob.sees("ann"), bob.sees(LOCAL), bob.only) == (True, False, False, "bob")
    for action, rule in POLICY.items():
        assert reaches(bob, action, "bob")
        assert reaches(bob, action, "ann") is (rule.reach is Reach.COMMON)
        assert reaches(bob, action, LOCAL) is (rule.reach is not Reach.OWN)


def test_an_admin_sees_everybodys() -> None:
    admin = key_of("bob", Scope.ADMIN)
    assert admin.only is None
    assert admin.sees("ann")


def test_a_key_of_the_local_user_without_admin_sees_what_is_theirs() -> None:
    key = key_of(LOCAL, Scope.RUN)
    assert (key.sees(LOCAL), key.sees("ann")) == (True, False)


@pytest.mark.parametrize("name", ["ci", "a", "ann@example.org", "A.b_c+d-1", "x" * 64])
def test_names_of_users(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "a/b", "a:b", "é", "x" * 65, "a\n"])
def test_what_is_no_name_of_a_user(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_name(name)
    assert refused.value.field == "user"


def test_scopes_are_read_by_name_once_and_in_order() -> None:
    assert read_scopes(["approve", "read", "approve"]) == (Scope.READ, Scope.APPROVE)
    for odd in (["everything"], [], ["READ"]):
        with pytest.raises(BadInput, match="one of read, run, approve, admin"):
            read_scopes(odd)
