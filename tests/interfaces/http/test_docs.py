"""The page about HTTP names every route, and its examples work as they are typed."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

from pydantic import BaseModel
from tests.interfaces.http.doors import inside, run, served
from tests.interfaces.http.test_problems import EXPECTED
from tests.support.needs import need
from tests.support.services import PATIENCE_S, World

from pilothouse.interfaces.http import bodies
from pilothouse.interfaces.http.agui import RunAgentInput

PAGE = (Path(__file__).parents[3] / "docs/http-api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`?]*)`")


def test_the_page_names_every_route_and_no_other() -> None:
    async def routes() -> set[tuple[str, str]]:
        async with inside() as at:
            document = (await at.client.get("/openapi.json")).json()
        return {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}

    there = run(routes())
    assert len(there) > 25
    assert set(ROUTE.findall(PAGE)) - {("GET", "/openapi.json"), ("GET", "/docs")} == there


def test_every_body_has_an_example_in_the_document() -> None:
    async def documented() -> dict[str, bool]:
        async with inside() as at:
            document = (await at.client.get("/openapi.json")).json()
        schemas = document["components"]["schemas"]
        found = {}
        for path, methods in document["paths"].items():
            for method, route in methods.items():
                if "requestBody" in route:
                    (content,) = route["requestBody"]["content"].values()
                    shown = json.dumps(content)
                    shown += "".join(json.dumps(schemas[name]) for name in re.findall(r"schemas/(\w+)", shown))
                    found[f"{method} {path}"] = '"examples": [' in shown
        return found

    there = run(documented())
    assert len(there) > 30
    assert [route for route, shows in there.items() if not shows] == []


def test_every_example_of_a_body_can_be_sent() -> None:
    models: list[type[BaseModel]] = [RunAgentInput]
    models += [each for each in vars(bodies).values() if isinstance(each, type) and issubclass(each, bodies.Body)]
    examples = [(each, example) for each in models for example in each.model_json_schema().get("examples", ())]
    assert len(examples) > 10
    for body, example in examples:
        body.model_validate(example)


def test_the_page_names_every_code_of_an_error() -> None:
    assert {cls.code for cls in EXPECTED if f"`{cls.code}`" not in PAGE} == set()


def test_every_example_works_as_it_is_typed(tmp_path: Path) -> None:
    assert len(EXAMPLES) > 6
    said = typed(EXAMPLES, tmp_path)
    assert "RUN_FINISHED" in said
    assert "+hello.txt" in said


def typed(examples: list[str], tmp_path: Path, world: World | None = None) -> str:
    """What a shell says that is given the examples of a page, one after the other, in a repository."""
    need("curl")
    need("bash")
    script = "set -euo pipefail\n" + "\n".join(examples)

    world = world or World()

    async def journey() -> str:
        project = tmp_path / "project"
        project.mkdir()
        world.git.add_repository(str(project), {"README.md": "hello\n"})
        async with served(tmp_path, world) as at:
            process = await asyncio.create_subprocess_exec(
                "bash",
                "-c",
                script,
                cwd=project,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(tmp_path),
                    "PILOTHOUSE_DATA_DIR": str(tmp_path),
                    "URL": f"http://127.0.0.1:{at.port}",
                    "TOKEN": at.guard.new_token(),
                },
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        text = output.decode()
        assert process.returncode == 0, text
        return text

    return run(journey())
