"""The events of a run arrive once each and in order, whatever happens to the connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interfaces.cli.fake_owner import FakeOwner
from tests.interfaces.cli.story import PLAN_ID, Story, job

from pilothouse.client import owners as starting
from pilothouse.client.sse import Message
from pilothouse.errors import Gone, PilothouseError, Unavailable
from pilothouse.interfaces.cli import feed as feeds
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.feed import Ended, Feed, Interrupted, Item, Reconnected

BOUND = 20.0


@pytest.fixture
def story(owner: FakeOwner) -> Story:
    owner.stories[PLAN_ID] = Story([job("api"), job("web", "api")]).start().begin("api").succeed("api")
    return owner.stories[PLAN_ID]


def until_end(feed: Feed) -> Iterator[Item]:
    deadline = time.monotonic() + BOUND
    while time.monotonic() < deadline:
        item = feed.next(0.1)
        if isinstance(item, Ended | PilothouseError):
            yield item
            return
        if item is not None:
            yield item
    pytest.fail("the feed did not end")


def seqs(items: list[Item]) -> list[int]:
    return [int(item.id) for item in items if isinstance(item, Message)]


def read_all(owner: FakeOwner, after: int = 0) -> list[Item]:
    with Feed(Client(owner.socket), owner.data_dir, PLAN_ID, after) as feed:
        return list(until_end(feed))


def test_a_feed_ends_with_its_run(owner: FakeOwner, story: Story) -> None:
    story.begin("web").succeed("web").finish()
    items = read_all(owner)
    assert seqs(items) == [recorded.seq for recorded in story.recorded]
    assert isinstance(items[-1], Ended)


def test_a_feed_may_begin_in_the_middle(owner: FakeOwner, story: Story) -> None:
    story.finish()
    assert seqs(read_all(owner, after=5))[0] == 6


def test_a_connection_that_breaks_is_continued_without_gap_or_duplicate(owner: FakeOwner, story: Story) -> None:
    story.finish()
    owner.cut = 6
    items = read_all(owner)
    assert seqs(items) == [recorded.seq for recorded in story.recorded]
    assert any(isinstance(item, Reconnected) for item in items)


def test_what_a_server_sends_twice_is_taken_once(owner: FakeOwner, story: Story) -> None:
    story.finish()
    owner.repeat_from = 0
    assert seqs(read_all(owner, after=3)) == list(range(4, len(story.recorded) + 1))


def test_a_gap_is_a_broken_connection(owner: FakeOwner, story: Story) -> None:
    story.finish()
    owner.repeat_from = 4
    assert seqs(read_all(owner)) == [recorded.seq for recorded in story.recorded]


def test_another_owner_goes_on_where_the_first_one_ended(data_dir: Path) -> None:
    told = Story([job("api")]).start().begin("api")
    first = FakeOwner(data_dir)
    first.stories[PLAN_ID] = told
    items: list[Item] = []
    with first.serving():
        feed = Feed(Client(first.socket), data_dir, PLAN_ID)
        feed.__enter__()
        while len(seqs(items)) < len(told.recorded):
            item = feed.next(BOUND)
            assert item is not None
            items.append(item)
    second = FakeOwner(data_dir, mode="serve")
    second.stories[PLAN_ID] = told.succeed("api").finish()
    with second.serving():
        items += until_end(feed)
        feed.__exit__()
    assert seqs(items) == [recorded.seq for recorded in told.recorded]


def test_a_feed_gives_up_when_no_owner_can_be_had(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "GIVE_UP", 0.0)
    monkeypatch.setattr(feeds, "SUCCESSOR_PATIENCE", 0.05)
    monkeypatch.setattr(starting, "OWNER_COMMAND", ("false",))
    with Feed(Client(str(data_dir / "nobody")), data_dir, PLAN_ID) as feed:
        items = list(until_end(feed))
    assert isinstance(items[-1], Unavailable)


def test_a_run_that_was_deleted_ends_its_feed_with_the_reason(owner: FakeOwner, story: Story) -> None:
    path = f"/api/runs/{PLAN_ID}/events"
    owner.answers[("GET", path)] = (410, {"detail": "it was deleted", "code": "gone"})
    items = read_all(owner)
    assert isinstance(items[-1], Gone)
    assert str(items[-1]) == "it was deleted"


def test_leaving_ends_the_thread_also_while_nothing_happens(owner: FakeOwner, story: Story) -> None:
    with Feed(Client(owner.socket), owner.data_dir, PLAN_ID) as feed:
        while feed.next(BOUND) is None:
            pass
        feed.interrupt()
        items = [feed.next(BOUND) for _ in range(len(story.recorded))]
        assert any(isinstance(item, Interrupted) for item in items)
        thread = feed._thread
    assert not thread.is_alive()
