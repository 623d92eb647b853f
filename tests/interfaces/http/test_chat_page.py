"""The page about conversations names everything that a stream says, and its examples work as they are typed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.interfaces.http.talking import talking
from tests.interfaces.http.test_docs import typed

from pilothouse.interfaces.http import chat_bodies
from pilothouse.interfaces.http.bodies import Body
from pilothouse.interfaces.http.chat_bodies import HeadlessMessage

PAGE = (Path(__file__).parents[3] / "docs/chat.md").read_text(encoding="utf-8")
SOURCES = [Path(__file__).parents[3] / f"src/pilothouse/core/chat/{name}.py" for name in ("shown", "shown_calls")]


def test_every_example_works_as_it_is_typed(tmp_path: Path) -> None:
    said = typed(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL), tmp_path, talking())
    assert said.count('"success":true') >= 3
    assert '"type":"done"' in said
    assert '"rating":"up"' in said


def test_the_page_names_every_type_of_what_is_shown() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    kinds = set(re.findall(r'"type": "(\w+)"', source)) | set(re.findall(r'_of_call\(\s*"(\w+)"', source))
    assert len(kinds) > 20
    assert {kind for kind in kinds if f"`{kind}`" not in PAGE} == set()


def test_the_page_names_every_field_of_a_request() -> None:
    names = {field.alias or name for name, field in HeadlessMessage.model_fields.items()}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_every_example_of_a_body_is_one() -> None:
    bodies = [each for each in vars(chat_bodies).values() if isinstance(each, type) and issubclass(each, Body)]
    examples = [(each, example) for each in bodies for example in _examples(each)]
    assert len(examples) > 12
    for body, example in examples:
        body.model_validate(example)


def _examples(body: type[Body]) -> list[dict[str, Any]]:
    found: dict[str, Any] = body.model_json_schema()
    return list(found.get("examples", ()))
