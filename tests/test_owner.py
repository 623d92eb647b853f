"""Who serves a data directory, as it says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilothouse.errors import Unavailable
from pilothouse.owner import Owner, private_dir, read_owner, settings_mark, write_owner


def test_an_owner_is_read_as_it_was_written(tmp_path: Path) -> None:
    owner = Owner(1, "0.1.0", "/s", "serve", "http://127.0.0.1:8484")
    write_owner(tmp_path, owner)
    assert read_owner(tmp_path) == owner


def test_what_a_newer_owner_says_beside_is_no_obstacle(tmp_path: Path) -> None:
    said = {"pid": 1, "version": "9", "socket": "/s", "mode": "serve", "later": True}
    (tmp_path / "owner.json").write_text(json.dumps(said), "utf-8")
    assert read_owner(tmp_path) == Owner(1, "9", "/s", "serve")


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", "null", '"x"', "{}"])
def test_what_is_no_owner_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "owner.json").write_text(text, "utf-8")
    assert read_owner(tmp_path) is None


@pytest.mark.parametrize("wrong", [{"pid": "1"}, {"pid": True}, {"socket": 5}, {"version": None}, {"url": []}])
def test_what_says_something_of_another_type_is_no_owner(tmp_path: Path, wrong: dict[str, object]) -> None:
    said = {"pid": 1, "version": "9", "socket": "/s", "mode": "serve"} | wrong
    (tmp_path / "owner.json").write_text(json.dumps(said), "utf-8")
    assert read_owner(tmp_path) is None


def test_a_directory_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        assert read_owner(place) is None
        with pytest.raises(Unavailable):
            private_dir(place)


def test_other_replies_of_a_script_mean_another_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = tmp_path / "replies.yaml"
    monkeypatch.setenv("PILOTHOUSE_SCRIPT", str(replies))
    missing = settings_mark()
    replies.write_text("otherwise: []", encoding="utf-8")
    there = settings_mark()
    assert there == settings_mark() != missing
