"""Nested groups: what names inside them mean, and jobs written back into them."""

from __future__ import annotations

import pytest

from pilothouse.core.plan.spec_groups import grouped, name_inside, resolve

KNOWN = frozenset({"a", "b", "g/a", "g/h/c", "g/g/a"})


@pytest.mark.parametrize(
    ("name", "scope", "meant"),
    [
        ("a", "", "a"),
        ("a", "g", "g/a"),
        ("a", "g/h", "g/a"),
        ("b", "g/h", "b"),
        ("g/a", "g/h", "g/g/a"),
        ("h/c", "g", "g/h/c"),
        ("nobody", "g/h", "nobody"),
    ],
)
def test_a_name_means_the_nearest_job_looking_outwards(name: str, scope: str, meant: str) -> None:
    assert resolve(name, scope, KNOWN) == meant


@pytest.mark.parametrize(
    ("scope", "job", "name"),
    [("", "g/a", "g/a"), ("g", "g/a", "a"), ("g/h", "g/a", "a"), ("g/h", "b", "b"), ("g", "g/h/c", "h/c")],
)
def test_a_job_is_called_by_the_shortest_name_that_means_it(scope: str, job: str, name: str) -> None:
    assert name_inside(scope, job, KNOWN) == name


def test_a_job_that_nearer_ones_hide_has_no_name() -> None:
    assert name_inside("g", "a", KNOWN) is None


def test_jobs_are_written_into_their_groups_and_can_be_found_there() -> None:
    found = grouped([("a", {"task": "1"}), ("g/h/c", {"task": "2"}), ("g/a", {"task": "3"}), ("b", {"task": "4"})])
    assert found.fields == {
        "jobs": [{"producerId": "a", "task": "1"}, {"producerId": "b", "task": "4"}],
        "groups": [
            {
                "name": "g",
                "groups": [{"name": "h", "jobs": [{"producerId": "c", "task": "2"}]}],
                "jobs": [{"producerId": "a", "task": "3"}],
            }
        ],
    }
    assert found.places == {
        "jobs[0]": 0,
        "groups[0]": 1,
        "groups[0].groups[0]": 1,
        "groups[0].groups[0].jobs[0]": 1,
        "groups[0].jobs[0]": 2,
        "jobs[1]": 3,
    }
