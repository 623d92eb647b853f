"""The price table as a file that people edit."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pilothouse.adapters.agents.prices import PriceFile, read_prices
from pilothouse.adapters.agents.pricing import Price
from pilothouse.errors import BadInput

ROOT = Path(__file__).parents[3]


def write(place: Path, text: str, *, age: int = 0) -> Path:
    place.write_text(text, encoding="utf-8")
    os.utime(place, (1_000_000 + age, 1_000_000 + age))
    return place


def test_a_table_is_read_with_whole_numbers_and_fractions(tmp_path: Path) -> None:
    text = '[models."gpt-5"]\ninput = 1.25\noutput = 10\ncached = 0.125\ncacheWrite = 2\n'
    text += '[models."free-*"]\ninput = 0\noutput = 0'
    assert read_prices(write(tmp_path / "p.toml", text)) == {
        "gpt-5": Price(input=1.25, output=10, cached=0.125, cache_write=2),
        "free-*": Price(input=0, output=0),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.a]\ninput = 1", "missing required field `output` - at `$.models[...]`"),
        ("[models.a]\ninput = 1\noutput = 1\nprice = 1", "unknown field `price`"),
        ("[models.a]\ninput = '1'\noutput = 1", "Expected `float`, got `str`"),
        ("[models.a]\ninput = -1\noutput = 1", "models.a.input: "),
        ("[models.a]\ninput = nan\noutput = 1", "nan is not a price"),
        ("[models.a]\ninput = inf\noutput = 1", "inf is not a price"),
        ("[models.a]\ninput = 1e308\noutput = 1", "1e+308 is not a price"),
        (f"[models.a]\ninput = {'9' * 5000}\noutput = 1", "4300 digits"),
        (f"a = {'[' * 20_000}", "recursion"),
        ("[model.a]\ninput = 1\noutput = 1", "unknown field `model`"),
        ("[models.a\n", "Expected ']'"),
    ],
)
def test_a_table_that_is_wrong_is_an_error_that_names_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    place = write(tmp_path / "prices.toml", text)
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        PriceFile(place)
    assert str(place) in str(caught.value)


def test_a_table_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.toml cannot be read: No such file"):
        PriceFile(tmp_path / "none.toml")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match=r"p\.toml"):
        read_prices(tmp_path / "p.toml")


def test_without_a_file_nothing_has_a_price() -> None:
    assert PriceFile(None).table == {}


def test_a_table_that_is_changed_is_read_again(tmp_path: Path) -> None:
    place = write(tmp_path / "p.toml", "[models.a]\ninput = 1\noutput = 1")
    prices = PriceFile(place)
    assert prices.table["a"].input == 1
    write(place, "[models.a]\ninput = 2\noutput = 1", age=1)
    assert prices.table["a"].input == 2


def test_a_table_that_becomes_wrong_leaves_the_prices_as_they_were_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = write(tmp_path / "p.toml", "[models.a]\ninput = 1\noutput = 1")
    prices = PriceFile(place)
    write(place, "[models.a]\ninput = x", age=1)
    for _ in range(3):
        assert prices.table["a"].input == 1
    place.unlink()
    assert prices.table["a"].input == 1
    assert [record.message.partition(":")[0] for record in caplog.records] == ["prices.wrong"] * 2


def test_the_example_is_a_table_of_models_that_do_not_exist() -> None:
    table = read_prices(ROOT / "examples/prices.toml")
    assert table
    assert all("example" in model for model in table)
