"""Gmail: finding, reading and sending mail of a Google account. Over its REST API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api, Reply, retry_after, words_of
from pilothouse.adapters.toolbox.integrations.mail import attachments_of, body_of, compose, headers_of
from pilothouse.adapters.toolbox.integrations.tool import Makes, OfAccount, ServiceTool

_ME = "/gmail/v1/users/me/messages"
_SHOWN = ("From", "To", "Subject", "Date")
_AT_ONCE = 5
_DEFAULT_WAIT_S = 5.0
_LIMITED = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"})

Addresses = Annotated[tuple[str, ...], Meta(max_length=100)]


class GoogleManners:
    service = "google"
    title = "Google"
    headers: Mapping[str, str] = {"accept": "application/json"}

    def refuses_token(self, reply: Reply) -> bool:
        return reply.status == 401

    def wait_s(self, reply: Reply, now: float) -> float | None:
        if reply.status != 429 and not (reply.status == 403 and _reasons(reply) & _LIMITED):
            return None
        wait = retry_after(reply)
        return _DEFAULT_WAIT_S if wait is None else wait

    def refusal(self, reply: Reply) -> str:
        if 200 <= reply.status < 300:
            return ""
        error = reply.table.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        if reply.status == 403 and isinstance(message, str) and "scope" in message:
            return f"{message} (403); connect the account again with the scope set"
        return f"{message} ({reply.status})" if isinstance(message, str) else words_of(reply.status)


def _reasons(reply: Reply) -> set[str]:
    error = reply.table.get("error")
    errors = error.get("errors") if isinstance(error, dict) else None
    return {str(one.get("reason")) for one in errors if isinstance(one, dict)} if isinstance(errors, list) else set()


class Search(OfAccount, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="As in Gmail's search box: from:ann is:unread newer_than:7d")] = ""
    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many, the newest first.")] = 10
    page: Annotated[str, Meta(description="The nextPage of an earlier answer, to read on.")] = ""


class Read(OfAccount, frozen=True, kw_only=True):
    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$", description="Of a message, from gmail_search.")]


class Send(OfAccount, frozen=True, kw_only=True):
    to: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    subject: Annotated[str, Meta(max_length=998)] = ""
    text: Annotated[str, Meta(max_length=1_000_000, description="Plain text.")]
    cc: Addresses = ()
    reply_to: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9_-]*$", description="The id of a message that this answers, to join its thread.")
    ] = ""


def gmail_tools(make: Makes) -> tuple[ServiceTool[Any], ...]:
    return (
        make.looks("gmail_search", Search, _search, "Find mail in Gmail. Answers headers and a snippet of each."),
        make.looks("gmail_read", Read, _read, "Read a message in Gmail: its headers, text and attachments' names."),
        make.acts(
            "gmail_send",
            Send,
            _send,
            "Send mail from Gmail. "
            'Example: {"to": ["grace@example.org"], "subject": "Hello", "text": "See you at nine."}',
        ),
    )


async def _search(api: Api, given: Search) -> dict[str, Any]:
    reply = await api.get(_ME, {"q": given.query, "maxResults": given.limit, "pageToken": given.page})
    rows = reply.table.get("messages")
    ids = [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row] if isinstance(rows, list) else []
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def about(id_: str) -> dict[str, Any]:
        async with at_once:
            params = {"format": "metadata", "metadataHeaders": list(_SHOWN)}
            return _shown((await api.get(f"{_ME}/{quote(id_, safe='')}", params)).table)

    tasks = [asyncio.create_task(about(id_)) for id_ in ids[: given.limit]]
    try:
        found = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return {"messages": found, "nextPage": reply.table.get("nextPageToken", "")}


async def _read(api: Api, given: Read) -> dict[str, Any]:
    message = (await api.get(f"{_ME}/{quote(given.id, safe='')}", {"format": "full"})).table
    payload = message.get("payload")
    return {**_shown(message), "text": body_of(payload), "attachments": attachments_of(payload)}


async def _send(api: Api, given: Send) -> dict[str, Any]:
    answered: Mapping[str, Any] = {}
    headers: dict[str, str] = {}
    if given.reply_to:
        params = {"format": "metadata", "metadataHeaders": ["Message-ID", "References", "Subject"]}
        answered = (await api.get(f"{_ME}/{quote(given.reply_to, safe='')}", params)).table
        headers = headers_of(answered.get("payload"))
    subject = given.subject or _answering(headers.get("subject", ""))
    raw = compose(to=given.to, cc=given.cc, subject=subject, text=given.text, answers=headers)
    sent = (await api.post(f"{_ME}/send", {"raw": raw, "threadId": answered.get("threadId")})).table
    return {"id": sent.get("id"), "threadId": sent.get("threadId")}


def _answering(subject: str) -> str:
    return subject if not subject or subject.lower().startswith("re:") else f"Re: {subject}"


def _shown(message: Mapping[str, Any]) -> dict[str, Any]:
    headers = headers_of(message.get("payload"))
    return {
        "id": message.get("id"),
        "threadId": message.get("threadId"),
        **{name.lower(): headers.get(name.lower(), "") for name in _SHOWN},
        "labels": message.get("labelIds", []),
        "snippet": message.get("snippet", ""),
    }
