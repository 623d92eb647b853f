"""The calls as methods, for either client: one line each. What they do and take stands where they are written."""

from __future__ import annotations

from pilothouse.client import chats, plans, runs
from pilothouse.client.flows import AsyncGroup, Group, in_async, in_sync


class Chats(Group):
    """Conversations: ``client.chats``."""

    list = in_sync(chats.list_chats)
    get = in_sync(chats.show)
    messages = in_sync(chats.messages)
    update = in_sync(chats.update)
    fork = in_sync(chats.fork)
    delete = in_sync(chats.delete)
    models = in_sync(chats.list_models)
    abort = in_sync(chats.abort)
    steer = in_sync(chats.steer)
    confirm = in_sync(chats.confirm)


class AsyncChats(AsyncGroup):
    """Conversations: ``client.chats``."""

    list = in_async(chats.list_chats)
    get = in_async(chats.show)
    messages = in_async(chats.messages)
    update = in_async(chats.update)
    fork = in_async(chats.fork)
    delete = in_async(chats.delete)
    models = in_async(chats.list_models)
    abort = in_async(chats.abort)
    steer = in_async(chats.steer)
    confirm = in_async(chats.confirm)


class Plans(Group):
    """Plans: ``client.plans``."""

    submit = in_sync(plans.submit)
    list = in_sync(plans.list_plans)
    show = in_sync(plans.show)
    wait = in_sync(plans.wait)
    node = in_sync(plans.node)
    logs = in_sync(plans.logs)
    diff = in_sync(plans.diff)
    retry = in_sync(plans.retry)
    cancel_node = in_sync(plans.cancel_node)
    delete = in_sync(plans.delete)


class AsyncPlans(AsyncGroup):
    """Plans: ``client.plans``."""

    submit = in_async(plans.submit)
    list = in_async(plans.list_plans)
    show = in_async(plans.show)
    wait = in_async(plans.wait)
    node = in_async(plans.node)
    logs = in_async(plans.logs)
    diff = in_async(plans.diff)
    retry = in_async(plans.retry)
    cancel_node = in_async(plans.cancel_node)
    delete = in_async(plans.delete)


class Workflows(Group):
    """Workflows: ``client.workflows``."""

    list = in_sync(plans.list_workflows)
    create = in_sync(plans.create_workflow)
    show = in_sync(plans.show_workflow)
    replace = in_sync(plans.replace_workflow)
    edit = in_sync(plans.edit_workflow)
    versions = in_sync(plans.workflow_versions)
    revert = in_sync(plans.revert_workflow)
    run = in_sync(plans.run_workflow)
    plan = in_sync(plans.workflow_plan)
    delete = in_sync(plans.delete_workflow)


class AsyncWorkflows(AsyncGroup):
    """Workflows: ``client.workflows``."""

    list = in_async(plans.list_workflows)
    create = in_async(plans.create_workflow)
    show = in_async(plans.show_workflow)
    replace = in_async(plans.replace_workflow)
    edit = in_async(plans.edit_workflow)
    versions = in_async(plans.workflow_versions)
    revert = in_async(plans.revert_workflow)
    run = in_async(plans.run_workflow)
    plan = in_async(plans.workflow_plan)
    delete = in_async(plans.delete_workflow)


class Runs(Group):
    """Runs of every kind: ``client.runs``."""

    list = in_sync(runs.list_runs)
    show = in_sync(runs.show)
    stop = in_sync(runs.stop)
    cancel = in_sync(runs.cancel)
    pause = in_sync(runs.pause)
    resume = in_sync(runs.resume)
    retry = in_sync(runs.retry)
    discard = in_sync(runs.discard)
    delete = in_sync(runs.delete)
    stop_everything = in_sync(runs.stop_everything)


class AsyncRuns(AsyncGroup):
    """Runs of every kind: ``client.runs``."""

    list = in_async(runs.list_runs)
    show = in_async(runs.show)
    stop = in_async(runs.stop)
    cancel = in_async(runs.cancel)
    pause = in_async(runs.pause)
    resume = in_async(runs.resume)
    retry = in_async(runs.retry)
    discard = in_async(runs.discard)
    delete = in_async(runs.delete)
    stop_everything = in_async(runs.stop_everything)


class Approvals(Group):
    """What waits for a person: ``client.approvals``."""

    list = in_sync(runs.list_approvals)
    answer = in_sync(runs.answer)


class AsyncApprovals(AsyncGroup):
    """What waits for a person: ``client.approvals``."""

    list = in_async(runs.list_approvals)
    answer = in_async(runs.answer)
