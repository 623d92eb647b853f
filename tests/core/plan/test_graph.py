from __future__ import annotations

import graphlib

from hypothesis import given
from tests.core.plan.plans import acyclic_edges, any_edges, from_edges, job

from pilothouse.core.plan.graph import check_graph, find_cycle


def has_cycle(edges: list[list[int]]) -> bool:
    try:
        graphlib.TopologicalSorter(dict(enumerate(edges))).prepare()
    except graphlib.CycleError:
        return True
    return False


@given(any_edges())
def test_a_cycle_is_found_exactly_when_there_is_one_and_is_really_a_cycle(edges: list[list[int]]) -> None:
    cycle = find_cycle(edges)
    assert (cycle is not None) == has_cycle(edges)
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        assert cycle[0] == min(cycle)
        assert all(after in edges[here] for here, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


@given(acyclic_edges())
def test_a_dag_has_no_problem(edges: list[list[int]]) -> None:
    assert check_graph(from_edges(edges).jobs) == []


def test_a_cycle_is_named_with_its_path_and_the_field_that_closes_it() -> None:
    jobs = [job("start"), job("a", "start", "b"), job("b", "c"), job("c", "a")]
    [problem] = check_graph(jobs)
    assert str(problem) == (
        "jobs[1].dependencies[1]: jobs depend on each other in a cycle: a → b → c → a "
        "(remove one of these dependencies)"
    )


def test_a_plan_without_any_root_says_so() -> None:
    [problem] = check_graph([job("a", "b"), job("b", "a")])
    assert problem.message == "jobs depend on each other in a cycle: a → b → a, and no job can start first"


def test_a_long_cycle_is_named_in_part() -> None:
    [problem] = check_graph(from_edges([[(index + 1) % 10_000] for index in range(10_000)]).jobs)
    assert "j0 → j1 → j2 → j3 → j4 → j5 → … (9989 more) → j9995" in problem.message
    assert problem.message.endswith("j9999 → j0, and no job can start first")


def test_every_bad_name_is_reported_with_its_field() -> None:
    jobs = [job("build"), job("build"), job("test", "test"), job("ship", "biuld"), job("last", "build", "build")]
    assert [str(problem) for problem in check_graph(jobs)] == [
        "jobs[1].producerId: 'build' is used already by jobs[0] (give every job its own producerId)",
        "jobs[2].dependencies[0]: 'test' depends on itself (remove it)",
        "jobs[3].dependencies[0]: there is no job 'biuld' (valid ids: 'build', 'test', 'ship', 'last')",
        "jobs[4].dependencies[1]: 'build' is listed twice (remove one)",
    ]


def test_the_valid_ids_are_nearest_first_and_bounded() -> None:
    jobs = [*(job(f"job-{index}") for index in range(50)), job("web", "apl"), job("api")]
    [problem] = check_graph(jobs)
    assert problem.fix.startswith("valid ids: 'api', 'job-0', 'job-1'")
    assert problem.fix.endswith("… (42 more)")


def test_fields_are_named_as_the_author_wrote_them() -> None:
    [problem] = check_graph([job("a"), job("b", "x")], ["jobs[0]", "groups[0].jobs[0]"])
    assert problem.field == "groups[0].jobs[0].dependencies[0]"


def test_only_a_few_unknown_names_get_a_guess() -> None:
    problems = check_graph([job(f"j{index}", f"x{index}") for index in range(10_000)])
    assert len(problems) == 10_000
    assert sum(bool(problem.fix) for problem in problems) == 5
