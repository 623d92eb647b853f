"""What credentials are called, and where they are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.credentials.names import (
    ENV,
    account_id,
    account_named,
    account_place,
    check_account,
    default_place,
    read_id,
    read_place,
    value_id,
    value_place,
)
from pilothouse.errors import NotFound


def test_ids_and_places_lead_back_to_names() -> None:
    assert read_id(value_id("API_KEY")) == (ENV, "API_KEY")
    assert read_id(account_id("slack", "ann@example.org")) == ("slack", "ann@example.org")
    assert read_place(value_place("API_KEY")) == (ENV, "", "API_KEY")
    assert read_place(account_place("slack", "ann@example.org")) == ("account", "slack", "ann@example.org")
    assert read_place(default_place("slack")) is None


@pytest.mark.parametrize(
    "text", ["", "x", ":", "env:", "env:A B", "env:a/b", "slack:", "slack:a/b", "Slack:a", "a:b:c"]
)
def test_what_can_be_no_credential_is_not_there(text: str) -> None:
    with pytest.raises(NotFound):
        read_id(text)


@given(st.text())
def test_whatever_a_service_calls_an_account_it_has_a_name(text: str) -> None:
    assert check_account(account_named(text))


def test_names_stay_what_they_are_where_they_can() -> None:
    assert account_named("grace@example.org") == "grace@example.org"
    assert account_named("Acme, Inc. 🚀") == "Acme-Inc"
    assert account_named("🚀") == account_named("") == "default"
