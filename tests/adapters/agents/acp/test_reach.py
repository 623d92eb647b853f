"""How far an agent may reach with its tools when nobody is asked."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.acp.news import Wanted
from pilothouse.adapters.agents.acp.reach import covers, too_far


def wanted(kind: str, *paths: str, url: str = "") -> Wanted:
    return Wanted("tool", kind, "title", "input", paths, url)


def within(path: str) -> bool:
    return path.startswith("/w/")


@pytest.mark.parametrize("kind", ["edit", "delete", "move"])
def test_changes_belong_into_the_worktree_and_the_folders(kind: str) -> None:
    assert not too_far(wanted(kind, "/w/a"), within, ())
    assert not too_far(wanted(kind), within, ())
    assert too_far(wanted(kind, "/w/a", "/etc/passwd"), within, ())


@pytest.mark.parametrize("kind", ["read", "execute", "other", ""])
def test_what_changes_nothing_may_look_anywhere(kind: str) -> None:
    assert not too_far(wanted(kind, "/etc/passwd"), within, ())


def test_only_what_was_named_is_fetched_where_anything_was() -> None:
    page = wanted("fetch", url="https://example.com/docs/x")

    assert not too_far(page, within, ())
    assert not too_far(page, within, ("other.org", "https://example.com/docs"))
    assert too_far(page, within, ("https://example.com/other",))
    assert not too_far(wanted("fetch"), within, ("other.org",))


@pytest.mark.parametrize(
    ("named", "url", "covered"),
    [
        ("example.com", "https://example.com/x", True),
        ("example.com", "https://example.com.evil.org/x", False),
        ("example.com", "https://sub.example.com", False),
        ("*.example.com", "https://sub.example.com:8080/x", True),
        ("*.example.com", "https://badexample.com", False),
        ("https://example.com", "https://example.com", True),
        ("https://example.com", "https://example.com/x", True),
        ("https://example.com", "https://example.com.evil.org", False),
        ("https://example.com/", "http://example.com/", False),
        ("example.com", "EXAMPLE.com/x", True),
        ("example.com", "https://[", False),
    ],
)
def test_an_address_is_covered_by_a_host_or_by_what_it_begins_with(named: str, url: str, covered: bool) -> None:
    assert covers(named, url) is covered
