"""Slack: its channels, reading and writing in them. Over its Web API, which answers 200 and says ``ok``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api, Reply, retry_after, words_of
from pilothouse.adapters.toolbox.integrations.tool import Makes, OfAccount, ServiceTool
from pilothouse.errors import NotFound

PAGE = 200
MOST_PAGES = 10
_DEFAULT_WAIT_S = 30.0

_TOKEN_REFUSED = frozenset({"invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive"})
_WORDS = {
    "channel_not_found": "there is no such channel, or the account does not see it",
    "not_in_channel": "the account is not in that channel",
    "is_archived": "that channel is archived",
    "msg_too_long": "the text is too long",
    "no_text": "there is no text",
    "thread_not_found": "there is no such thread",
    "invalid_cursor": "that cursor is not one it gave",
    "restricted_action": "the workspace does not allow that",
}


class SlackManners:
    service = "slack"
    title = "Slack"
    headers: Mapping[str, str] = {"accept": "application/json"}

    def refuses_token(self, reply: Reply) -> bool:
        return reply.table.get("error") in _TOKEN_REFUSED

    def wait_s(self, reply: Reply, now: float) -> float | None:
        if reply.status != 429 and reply.table.get("error") != "ratelimited":
            return None
        wait = retry_after(reply)
        return _DEFAULT_WAIT_S if wait is None else wait

    def refusal(self, reply: Reply) -> str:
        if reply.status == 200 and reply.table.get("ok") is True:
            return ""
        name = str(reply.table.get("error", ""))
        if name == "missing_scope":
            return f"the account lacks the scope {reply.table.get('needed')}; connect it again with that scope set"
        return f"{_WORDS[name]} ({name})" if name in _WORDS else name or words_of(reply.status)


class ListChannels(OfAccount, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="Only channels with this in their name.")] = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE * MOST_PAGES, description="At most so many.")] = 100


class Read(OfAccount, frozen=True, kw_only=True):
    channel: Annotated[str, Meta(min_length=1, description="Its id (C0123ABC), or its name with or without #.")]
    thread: Annotated[str, Meta(description="The ts of a thread's first message: read that thread instead.")] = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE, description="At most so many messages, the newest ones.")] = 50
    oldest: Annotated[str, Meta(description="Only after this ts (Unix time).")] = ""
    cursor: Annotated[str, Meta(description="The nextCursor of an earlier answer, to read on.")] = ""


class Send(OfAccount, frozen=True, kw_only=True):
    channel: Annotated[str, Meta(min_length=1, description="Its id (C0123ABC, U0123ABC for a person), or its name.")]
    text: Annotated[str, Meta(min_length=1, max_length=40_000, description="In Slack's mrkdwn.")]
    thread: Annotated[str, Meta(description="The ts of the message to answer in its thread.")] = ""


def slack_tools(make: Makes) -> tuple[ServiceTool[Any], ...]:
    return (
        make.looks(
            "slack_list_channels",
            ListChannels,
            _list_channels,
            "List the channels of a Slack workspace that the account sees, with their ids.",
        ),
        make.looks(
            "slack_read",
            Read,
            _read,
            'Read the messages of a Slack channel, the newest first, or of a thread. Example: {"channel": "#general"}',
        ),
        make.acts(
            "slack_send",
            Send,
            _send,
            "Send a message to a Slack channel, a person, or into a thread. "
            'Example: {"channel": "#general", "text": "Deployed."}',
        ),
    )


async def _list_channels(api: Api, given: ListChannels) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    query = given.query.lower().removeprefix("#")
    cursor, more = "", False
    for _ in range(MOST_PAGES):
        page, cursor = await _channels(api, cursor)
        found += [_shown(channel) for channel in page if query in str(channel.get("name", "")).lower()]
        more = bool(cursor) or len(found) > given.limit
        if not cursor or len(found) >= given.limit:
            break
    return {"channels": found[: given.limit], "more": more}


async def _channels(api: Api, cursor: str) -> tuple[list[Mapping[str, Any]], str]:
    reply = await api.get(
        "/conversations.list",
        {"limit": PAGE, "cursor": cursor, "types": "public_channel,private_channel", "exclude_archived": "true"},
    )
    return _tables(reply, "channels"), _next(reply)


def _shown(channel: Mapping[str, Any]) -> dict[str, Any]:
    purpose = channel.get("purpose")
    return {
        "id": channel.get("id"),
        "name": channel.get("name"),
        "private": bool(channel.get("is_private")),
        "member": bool(channel.get("is_member")),
        "purpose": purpose.get("value", "") if isinstance(purpose, dict) else "",
    }


async def _read(api: Api, given: Read) -> dict[str, Any]:
    channel = await _id_of(api, given.channel)
    path = "/conversations.replies" if given.thread else "/conversations.history"
    reply = await api.get(
        path,
        {
            "channel": channel,
            "ts": given.thread,
            "limit": given.limit,
            "oldest": given.oldest,
            "cursor": given.cursor,
        },
    )
    messages = [
        {
            name: message[name]
            for name in ("user", "bot_id", "username", "text", "ts", "thread_ts", "reply_count")
            if name in message
        }
        for message in _tables(reply, "messages")
    ]
    return {"channel": channel, "messages": messages, "nextCursor": _next(reply)}


async def _send(api: Api, given: Send) -> dict[str, Any]:
    reply = await api.post(
        "/chat.postMessage", {"channel": given.channel, "text": given.text, "thread_ts": given.thread}
    )
    return {"channel": reply.table.get("channel"), "ts": reply.table.get("ts")}


async def _id_of(api: Api, channel: str) -> str:
    """Reading wants an id where writing takes a name too."""
    name = channel.removeprefix("#")
    if not channel.startswith("#") and name.isalnum() and name.isupper():
        return channel
    cursor = ""
    for _ in range(MOST_PAGES):
        page, cursor = await _channels(api, cursor)
        for found in page:
            if found.get("name") == name.lower():
                return str(found.get("id"))
        if not cursor:
            break
    raise NotFound(
        f"Slack: there is no channel {channel}, or the account does not see it; slack_list_channels has them"
    )


def _tables(reply: Reply, name: str) -> list[Mapping[str, Any]]:
    found = reply.table.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _next(reply: Reply) -> str:
    about = reply.table.get("response_metadata")
    cursor = about.get("next_cursor") if isinstance(about, dict) else ""
    return cursor if isinstance(cursor, str) else ""
