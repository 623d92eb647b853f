"""Settings: read once, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.errors import BadInput
from pilothouse.settings import read_settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PILOTHOUSE_LOG_LEVEL", "loud"),
        ("PILOTHOUSE_MAX_PARALLEL", "0"),
        ("PILOTHOUSE_PORT", "http"),
        ("PILOTHOUSE_ORPHAN_GRACE", "-1"),
    ],
)
def test_a_setting_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert refused.value.field == variable


@pytest.mark.parametrize(
    "content", [b"port = [", b"a = \xff", b"a = " + b"[" * 20_000, b"port = " + b"9" * 5_000], ids=range(4)
)
def test_a_file_that_is_no_toml_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "config.toml"
    place.write_bytes(content)
    monkeypatch.setenv("PILOTHOUSE_CONFIG", str(place))
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert (refused.value.field, str(place) in str(refused.value)) == ("PILOTHOUSE_CONFIG", True)


def test_a_log_level_may_be_written_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_LOG_LEVEL", "debug")
    assert read_settings().log_level == "DEBUG"


def test_a_flag_goes_before_the_environment_and_none_means_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_PORT", "1234")
    assert (read_settings(port=None).port, read_settings(port=4321).port) == (1234, 4321)
