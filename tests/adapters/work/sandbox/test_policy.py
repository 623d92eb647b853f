"""A policy is the same on both sides of a command line."""

from __future__ import annotations

from pilothouse.adapters.work.sandbox.policy import Endpoint, Entry, Kind, Policy


def test_a_policy_survives_the_way_to_the_launcher() -> None:
    entries = (Entry(Kind.READ, "/usr", "/usr"), Entry(Kind.WRITE, "/tmp", "/a b/\udcff"), Entry(Kind.EMPTY, "/x", ""))
    policy = Policy(entries, "/scratch", "limited", (Endpoint("host", 443),))
    assert Policy.from_json(policy.to_json()) == policy
    assert list(policy.writable()) == ["/tmp"]
