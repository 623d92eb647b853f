"""The tools that work with what the engine itself has: workflows, their runs, plans."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.engine.access.access import Access
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.chat_ports import Tool
from pilothouse.engine.own_tools.plans import plan_tools
from pilothouse.engine.own_tools.workflow_runs import workflow_run_tools
from pilothouse.engine.own_tools.workflows import workflow_tools
from pilothouse.engine.plans.plans import Plans
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.engine.queries import Queries
from pilothouse.engine.runs import Runs


def own_tools(
    *, workflows: Workflows, repos: Repos, plans: Plans, runs: Runs, queries: Queries, access: Access
) -> Iterator[Tool]:
    """All of them."""
    yield from workflow_tools(workflows)
    yield from workflow_run_tools(workflows, repos, queries, access)
    yield from plan_tools(plans, runs, queries, access)
