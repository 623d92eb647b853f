"""Every event this program can meet in a log. A new kind of run adds its events here, its driver in ``assembly.py``."""

from __future__ import annotations

from pilothouse.core.chat.events import CHAT_EVENTS
from pilothouse.core.plan.agent_events import AGENT_EVENTS
from pilothouse.core.plan.events import PLAN_EVENTS
from pilothouse.core.run.events import RUN_EVENTS
from pilothouse.core.run.registry import Registry

REGISTRY = Registry(RUN_EVENTS, PLAN_EVENTS, AGENT_EVENTS, CHAT_EVENTS)
