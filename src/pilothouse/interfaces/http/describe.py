"""Responses in the OpenAPI document: an example says more than a schema nobody checks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pilothouse.interfaces.http.problems import EXAMPLE, MEDIA_TYPE, SCHEMA

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "Refused; nothing happened",
        "content": {MEDIA_TYPE: {"schema": SCHEMA, "example": EXAMPLE}},
    },
    "5XX": {"description": "Failed here", "content": {MEDIA_TYPE: {"schema": SCHEMA}}},
}


def answer(
    example: Any, description: str = "OK", status: int = 200, more: Mapping[str, Any] = MappingProxyType({})
) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that answers JSON like ``example``. ``more``: other media types."""
    content = {"application/json": {"schema": {"type": "object"}, "example": example}, **more}
    return {status: {"description": description, "content": content}}
