"""``/docs``: the OpenAPI document as one plain page. No scripts, least of all from elsewhere: a page of this origin
could do whatever the person who looks at it may do."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "dt{margin-top:1rem;font-family:ui-monospace,monospace}dd{margin:0}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def install_docs(app: FastAPI) -> None:
    async def page(_: Request) -> Response:
        return HTMLResponse("".join(_page(app.openapi())), headers={"content-security-policy": _POLICY})

    app.add_route("/docs", page, include_in_schema=False)


def _page(document: dict[str, Any]) -> Iterator[str]:
    title = escape(document["info"]["title"])
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    yield f'<h1>{title}</h1><p>For programs: <a href="/openapi.json">/openapi.json</a>.</p><dl>'
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            query = ", ".join(p["name"] for p in operation.get("parameters", ()) if p["in"] == "query")
            yield f"<dt>{method.upper()} {escape(path)}</dt><dd>{escape(operation.get('description', ''))}"
            yield f" <small>Parameters: {escape(query)}</small></dd>" if query else "</dd>"
    yield "</dl></html>"
