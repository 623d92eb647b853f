"""Gmail's tools, against a mailbox on the loopback."""

from __future__ import annotations

import asyncio
from email.message import EmailMessage

import pytest
from starlette.responses import Response
from tests.support.outside.accounts import accounts
from tests.support.outside.google import Google, encoded, said


def test_mail_is_found_newest_first_with_its_headers_and_read_on() -> None:
    async def story() -> None:
        google = Google()
        for n in range(7):
            google.add(f"Report {n}", Date=f"day {n}")
        google.add("Lunch")
        async with accounts("google", google) as at:
            first = await at.done("gmail_search", query="report", limit=5)
            assert [one["subject"] for one in first["messages"]] == [f"Report {n}" for n in (6, 5, 4, 3, 2)]
            assert first["messages"][0] | {"date": "day 6", "from": "ann@example.org"} == first["messages"][0]
            rest = await at.done("gmail_search", query="report", limit=5, page=first["nextPage"])
            assert [one["subject"] for one in rest["messages"]] == ["Report 1", "Report 0"]
            assert rest["nextPage"] == ""
            assert (await at.done("gmail_search", query="nothing"))["messages"] == []

    asyncio.run(story())


def test_a_message_is_read_as_its_plain_text_wherever_that_is_in_it() -> None:
    async def story() -> None:
        google = Google()
        plain = {"mimeType": "text/plain", "body": {"data": encoded("Grüße")}}
        page = {"mimeType": "text/html", "body": {"data": encoded("<p>Grüße</p>")}}
        both = {"mimeType": "multipart/alternative", "parts": [plain, page]}
        note = {"mimeType": "application/pdf", "filename": "a.pdf", "body": {"size": 9, "attachmentId": "x"}}
        id = google.add("Hello", {"mimeType": "multipart/mixed", "parts": [both, note]})
        async with accounts("google", google) as at:
            read = await at.done("gmail_read", id=id)
            assert read["text"] == "Grüße"
            assert read["attachments"] == [{"name": "a.pdf", "type": "application/pdf", "size": 9}]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (
            {
                "mimeType": "text/html",
                "body": {"data": encoded("<style>p{}</style><p>One &amp; <b>two</b></p><p>three<br>four</p>")},
            },
            "One & two\nthree\nfour",
        ),
        ({"mimeType": "text/plain", "body": {"size": 0}}, ""),
        ({"mimeType": "text/plain", "body": {"data": "!!!"}}, ""),
        ({"mimeType": "multipart/mixed", "parts": "nonsense"}, ""),
    ],
)
def test_html_and_nonsense_become_text(payload: dict[str, object], text: str) -> None:
    async def story() -> None:
        google = Google()
        id = google.add("Hello", payload)
        async with accounts("google", google) as at:
            assert (await at.done("gmail_read", id=id))["text"] == text

    asyncio.run(story())


def test_text_in_another_charset_is_read() -> None:
    async def story() -> None:
        google = Google()
        part = {
            "mimeType": "text/plain",
            "headers": [{"name": "Content-Type", "value": 'text/plain; charset="iso-8859-1"'}],
            "body": {"data": encoded("Grüße", "iso-8859-1")},
        }
        id = google.add("Hello", {"mimeType": "multipart/mixed", "parts": [part]})
        async with accounts("google", google) as at:
            assert (await at.done("gmail_read", id=id))["text"] == "Grüße"

    asyncio.run(story())


def test_mail_is_sent_as_it_was_written() -> None:
    async def story() -> None:
        google = Google()
        async with accounts("google", google) as at:
            await at.done(
                "gmail_send",
                to=["Grace Hopper <grace@example.org>", "ann@example.org"],
                cc=["bob@example.org"],
                subject="Grüße",
                text="Hello,\n\nsee you at nine – Ann\n",
            )
            ((message, _),) = google.sent
            assert isinstance(message, EmailMessage)
            assert message["To"] == "Grace Hopper <grace@example.org>, ann@example.org"
            assert message["Cc"] == "bob@example.org"
            assert message["Subject"] == "Grüße"
            assert message.get_content().replace("\r\n", "\n") == "Hello,\n\nsee you at nine – Ann\n"

    asyncio.run(story())


def test_an_answer_joins_the_thread_of_what_it_answers() -> None:
    async def story() -> None:
        google = Google()
        id = google.add("Report", None, **{"Message-ID": "<2@example.org>", "References": "<1@example.org>"})
        async with accounts("google", google) as at:
            await at.done("gmail_send", to=["ann@example.org"], text="Thanks", reply_to=id)
            ((message, thread),) = google.sent
            assert thread == f"t-{id}"
            assert message["Subject"] == "Re: Report"
            assert message["In-Reply-To"] == "<2@example.org>"
            assert message["References"] == "<1@example.org> <2@example.org>"

    asyncio.run(story())


@pytest.mark.parametrize("address", ["", "nonsense", "a@b@c", "ann@example.org\r\nBcc: eve@example.org"])
def test_what_is_no_address_is_refused_and_nothing_is_sent(address: str) -> None:
    async def story() -> None:
        google = Google()
        async with accounts("google", google) as at:
            assert (await at.refused("gmail_send", to=[address], text="hi")).startswith("to: ")
            assert google.sent == []

    asyncio.run(story())


def test_a_subject_of_several_lines_adds_no_header() -> None:
    async def story() -> None:
        google = Google()
        async with accounts("google", google) as at:
            await at.done("gmail_send", to=["ann@example.org"], subject="Hi\r\nBcc: eve@example.org", text="hi")
            ((message, _),) = google.sent
            assert message["Bcc"] is None

    asyncio.run(story())


def test_what_google_refuses_is_said_in_words() -> None:
    async def story() -> None:
        google = Google()
        async with accounts("google", google) as at:
            assert await at.refused("gmail_read", id="gone") == "Google: Requested entity was not found. (404)"
            assert (await at.refused("gmail_read", id="../profile")).startswith("id")
            google.trouble = [said("Request had insufficient authentication scopes.", 403, "insufficientPermissions")]
            assert "connect the account again" in await at.refused("gmail_search")
            google.trouble = [said("User-rate limit exceeded.", 403, "userRateLimitExceeded")]
            google.trouble[0].headers["retry-after"] = "0"
            await at.done("gmail_search")
            google.trouble = [Response("", 500)]
            assert await at.refused("gmail_search") == "Google: it answered 500 Internal Server Error"

    asyncio.run(story())
