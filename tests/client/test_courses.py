"""Following a stream over connections that break: when that is gone on with, and when it is given up."""

from __future__ import annotations

import pytest

from pilothouse.client.courses import GIVE_UP_S, RunCourse
from pilothouse.client.failures import Unreachable

BROKEN = Unreachable("it broke off")


def test_a_stream_that_is_silent_for_hours_survives_connections_that_break_now_and_then() -> None:
    course, now = RunCourse("r"), 0.0
    for _ in range(5):
        course.request()
        course.feed(b": keepalive\n\n")
        now += 10 * GIVE_UP_S
        course.broke(BROKEN, now)


def test_connections_that_break_at_once_are_given_up_although_each_is_greeted() -> None:
    course, now = RunCourse("r"), 0.0
    with pytest.raises(Unreachable):
        for _ in range(1000):
            course.request()
            course.feed(b": connected\n\n")
            now += course.broke(BROKEN, now)
    assert GIVE_UP_S <= now <= 2 * GIVE_UP_S
