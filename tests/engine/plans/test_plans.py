"""Plans whose work is done by agents: what is checked first, what a key is for, what can be read afterwards."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import pytest
from tests.support.services import World, ended, plan, submit

from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.adapters.agents.memory import MemoryAgent
from pilothouse.core.plan.agent_events import AgentEvent, AgentText
from pilothouse.core.plan.spec_parse import plan_from_data
from pilothouse.core.run.agents import News, Reasoning, SessionStarted, Text, Used
from pilothouse.core.run.segments import Segment
from pilothouse.core.run.usage import Usage
from pilothouse.engine.driving.hub import Batch
from pilothouse.engine.plans.plans import Origin
from pilothouse.engine.services import Services
from pilothouse.errors import BadInput, Gone, NotFound, Unavailable

LOCAL = Origin("local", "test")


def agent(*told: News, **more: object) -> str:
    """Work for an agent that tells this and then has finished."""
    spec = {"type": "agent", "agent": "scripted", "instructions": encode(*told, Finished()).decode(), **more}
    return json.dumps(spec)


async def accepted(services: Services, key: str | None, *work: str, owner: str = "local") -> str:
    spec = plan_from_data(plan(*work))
    return await services.plans.submit(spec, Origin(owner, "test"), repo="/repo", key=key)


# Checked before anything exists.


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"work": {"type": "agent", "agent": "skripted"}}, "jobs[1].work.agent"),
        ({"postchecks": {"type": "agent", "agent": "scripted", "model": "nonsense"}}, "jobs[1].postchecks.model"),
        ({"work": {"type": "agent", "agent": "mute", "permissions": "ask"}}, "jobs[1].work.permissions"),
    ],
)
def test_an_agent_that_cannot_do_what_is_asked_is_refused_by_the_field(job: dict[str, object], field: str) -> None:
    async def test() -> None:
        world = World()
        world.agents.agents = {"scripted": MemoryAgent(models=("m",)), "mute": MemoryAgent(asks=False)}
        async with world.engine() as services:
            document = plan("write a", "write b")
            document["jobs"][1].update(job)
            with pytest.raises(BadInput) as refusal:
                await services.plans.submit(plan_from_data(document), LOCAL, repo="/repo")
            assert refusal.value.field == field
            assert await services.queries.runs() == []

    asyncio.run(test())


def test_of_several_wrong_agents_the_first_is_told() -> None:
    async def test() -> None:
        async with World().engine() as services:
            work = [json.dumps({"type": "agent", "agent": name, "instructions": "x"}) for name in ("a", "b")]
            with pytest.raises(BadInput) as refusal:
                await submit(services, *work)
            assert refusal.value.field == "jobs[0].work.agent"

    asyncio.run(test())


def test_an_agent_that_is_not_installed_is_told_with_what_installs_it() -> None:
    async def test() -> None:
        world = World()
        world.agents.agents["absent"] = MemoryAgent(installed=False)
        async with world.engine() as services:
            with pytest.raises(Unavailable, match=r"jobs\[0\].work: .*install-absent"):
                await submit(services, agent(agent="absent"))
            assert await services.queries.runs() == []

    asyncio.run(test())


# Under a key.


def test_the_same_key_answers_the_same_plan() -> None:
    async def test() -> None:
        async with World().engine() as services:
            first = await accepted(services, "k", "write a")
            assert await accepted(services, "k", "write a") == first
            assert UUID(first).version == 8
            assert len(await services.queries.runs()) == 1
            assert await accepted(services, "another", "write a") != first
            assert await accepted(services, "k", "write a", owner="somebody") != first
            assert await accepted(services, None, "write a") != first

    asyncio.run(test())


def test_of_two_at_once_under_one_key_one_is_made() -> None:
    async def test() -> None:
        async with World().engine() as services:
            found = await asyncio.gather(*(accepted(services, "k", "write a") for _ in range(5)))
            assert len(set(found)) == 1
            assert len(await services.queries.runs()) == 1

    asyncio.run(test())


def test_a_key_outlives_the_owner_and_is_not_used_up_by_a_refusal() -> None:
    async def test() -> None:
        world = World()
        async with world.engine() as services:
            with pytest.raises(BadInput):
                await accepted(services, "k", agent(agent="unknown"))
            first = await accepted(services, "k", "write a")
        async with world.engine() as services:
            assert await accepted(services, "k", "write a") == first

    asyncio.run(test())


def test_the_key_of_a_deleted_plan_is_gone() -> None:
    async def test() -> None:
        async with World().engine() as services:
            first = await accepted(services, "k", "write a")
            await ended(services, first)
            await services.plans.delete(first)
            with pytest.raises(Gone):
                await accepted(services, "k", "write a")

    asyncio.run(test())


# What an agent told.


def test_an_agent_does_the_work_of_a_node_and_what_it_told_can_be_read() -> None:
    async def test() -> None:
        world = World()
        async with world.engine() as services:
            usage = Used(usage=Usage(input_tokens=3, output_tokens=4), model="m")
            plan_id = await submit(
                services, agent(SessionStarted(session_id="s"), Reasoning(text="hm"), Text(text="done"), usage)
            )
            assert await ended(services, plan_id) == "succeeded"
            told = await services.queries.transcript(plan_id, "job1")
            types = [r.event.type_name() for r in told]
            assert types[:4] == ["AGENT_SESSION_STARTED", "AGENT_REASONING", "AGENT_TEXT", "AGENT_USED"]
            assert [r.event.text for r in told if isinstance(r.event, AgentText)] == ["done"]
            view = await services.queries.plan(plan_id)
            assert view["usage"]["totalTokens"] == 7
            raw = await services.queries.node_logs(plan_id, "job1", raw=True)
            assert '"finished"' in raw["text"]

    asyncio.run(test())


def test_a_transcript_is_of_one_phase_of_one_attempt() -> None:
    async def test() -> None:
        async with World().engine() as services:
            plan_id = await submit(services, agent(Text(text="one")), agent(Text(text="two")))
            await ended(services, plan_id)
            recorded = await services.queries.transcript(plan_id, "job2")
            told = [r.event.text for r in recorded if isinstance(r.event, AgentText)]
            assert told == ["two"]
            assert await services.queries.transcript(plan_id, "job2", phase="postchecks") == []
            with pytest.raises(NotFound):
                await services.queries.transcript(plan_id, "job2", attempt=2)
            with pytest.raises(BadInput):
                await services.queries.transcript(plan_id, "job2", phase="all")

    asyncio.run(test())


def test_a_deleted_plan_leaves_nothing_of_its_agents() -> None:
    async def test() -> None:
        world = World()
        async with world.engine() as services:
            plan_id = await submit(services, agent(Text(text="x")))
            await ended(services, plan_id)
            assert plan_id in world.agents.private
            await services.plans.delete(plan_id)
            assert plan_id not in world.agents.private

    asyncio.run(test())


def test_the_catalogue_lists_agents_and_their_models() -> None:
    async def test() -> None:
        world = World()
        world.agents.agents = {"a": MemoryAgent(models=("m", "n")), "b": MemoryAgent(installed=False)}
        async with world.engine() as services:
            assert [(info.name, info.installed) for info in await services.agents.agents()] == [
                ("a", True),
                ("b", False),
            ]
            assert [info.id for info in await services.agents.models("a")] == ["m", "n"]
            with pytest.raises(NotFound):
                await services.agents.models("c")

    asyncio.run(test())


def test_what_other_nodes_told_is_not_decoded_for_the_transcript_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with World().engine() as services:
            jobs = [agent(Text(text="one")), agent(Text(text="two"))]
            plan_id = await submit(services, *jobs, maxParallel=1)
            await ended(services, plan_id)
            node = (await services.queries.transcript(plan_id, "job2"))[0].event
            assert isinstance(node, AgentEvent)
            hub, decoded = services.supervisor.hub, list[bytes]()
            batch = hub.batch

            def noted(segment: Segment) -> Batch:
                decoded.append(segment.body)
                return batch(segment)

            monkeypatch.setattr(hub, "batch", noted)
            assert await services.queries.transcript(plan_id, "job2")
            assert decoded and all(node.node_id.encode() in body for body in decoded)

    asyncio.run(test())
