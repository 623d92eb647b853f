"""The kinds of run this server drives, and every event it can meet. A new kind is one line in each table."""

from __future__ import annotations

from pilothouse.core.plan.events import PLAN_EVENTS
from pilothouse.core.run.events import RUN_EVENTS
from pilothouse.core.run.registry import Registry

REGISTRY = Registry(RUN_EVENTS, PLAN_EVENTS)
