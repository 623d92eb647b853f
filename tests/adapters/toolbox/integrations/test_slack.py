"""Slack's tools, against a workspace on the loopback."""

from __future__ import annotations

import asyncio

from tests.support.outside.accounts import accounts
from tests.support.outside.slack import Slack, no


def workspace() -> Slack:
    slack = Slack()
    for n, name in enumerate(("general", "random", "deploys", "private-talk", "deploy-bots")):
        slack.add(f"C{n}", name, member=name != "random")
    return slack


def test_channels_are_listed_over_all_pages_and_found_by_name() -> None:
    async def story() -> None:
        async with accounts("slack", workspace()) as at:
            found = await at.done("slack_list_channels")
            assert [one["name"] for one in found["channels"]] == [
                "general",
                "random",
                "deploys",
                "private-talk",
                "deploy-bots",
            ]
            assert found["more"] is False
            assert found["channels"][0]["purpose"] == "about general"
            deploy = await at.done("slack_list_channels", query="#Deploy")
            assert [one["id"] for one in deploy["channels"]] == ["C2", "C4"]
            some = await at.done("slack_list_channels", limit=3)
            assert (len(some["channels"]), some["more"]) == (3, True)

    asyncio.run(story())


def test_a_message_is_sent_read_and_answered_in_its_thread() -> None:
    async def story() -> None:
        async with accounts("slack", workspace()) as at:
            sent = await at.done("slack_send", channel="#general", text="Deployed & <done>")
            assert sent["channel"] == "C0"
            await at.done("slack_send", channel="C0", text="Thanks", thread=sent["ts"])
            await at.done("slack_send", channel="C0", text="Else")
            read = await at.done("slack_read", channel="general")
            assert [one["text"] for one in read["messages"]] == ["Else", "Thanks", "Deployed & <done>"]
            thread = await at.done("slack_read", channel="#general", thread=sent["ts"])
            assert [one["text"] for one in thread["messages"]] == ["Deployed & <done>", "Thanks"]
            since = await at.done("slack_read", channel="C0", oldest=sent["ts"])
            assert [one["text"] for one in since["messages"]] == ["Else", "Thanks"]

    asyncio.run(story())


def test_a_long_channel_is_read_page_by_page() -> None:
    async def story() -> None:
        slack = workspace()
        async with accounts("slack", slack) as at:
            for n in range(5):
                await at.done("slack_send", channel="general", text=f"{n}")
            first = await at.done("slack_read", channel="C0", limit=3)
            assert [one["text"] for one in first["messages"]] == ["4", "3", "2"]
            rest = await at.done("slack_read", channel="C0", limit=3, cursor=first["nextCursor"])
            assert [one["text"] for one in rest["messages"]] == ["1", "0"]
            assert rest["nextCursor"] == ""

    asyncio.run(story())


def test_what_slack_refuses_is_said_in_words() -> None:
    async def story() -> None:
        slack = workspace()
        async with accounts("slack", slack) as at:
            assert "channel_not_found" in await at.refused("slack_send", channel="#nowhere", text="hi")
            assert "not in that channel" in await at.refused("slack_send", channel="#random", text="hi")
            assert "slack_list_channels" in await at.refused("slack_read", channel="nowhere")
            slack.trouble = [no("missing_scope", needed="channels:history", provided="chat:write")]
            assert "channels:history" in await at.refused("slack_read", channel="C0")
            slack.trouble = [no("something_new")]
            assert await at.refused("slack_read", channel="C0") == "Slack: something_new"

    asyncio.run(story())
