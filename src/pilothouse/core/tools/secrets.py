"""Values that models, logs and browsers must not see: ``{{NAME}}`` goes in, and comes out again.

A reference is resolved at the last moment, in the arguments that a tool says it may be in; whatever a tool answers has
every such value replaced by its reference, also where it was encoded on the way. Knows neither where values are kept
nor which tools there are.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from pilothouse.errors import BadInput

SHORTEST = 6
"""Characters of the shortest value that is hidden: anything shorter is in every other text, and guessed anyway."""

_SHORTEST_LINE = 16
"""The same of one line of a value that has several."""
_SHORTEST_CODED = 8
"""Of what is left of a value in base64 when its edges, which depend on what stands beside them, are cut off."""

_REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_AUTHORITY = re.compile(r"\s*https?://[^/?#\\]*", re.IGNORECASE)
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_FRAME = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")


def reference(name: str) -> str:
    """What stands for a value wherever somebody may look."""
    return f"{{{{{name}}}}}"


def names_in(arguments: Mapping[str, Any], allowed: Iterable[str]) -> frozenset[str]:
    """The names that the ``allowed`` parameters refer to, however deep."""
    given = [arguments[name] for name in allowed if name in arguments]
    return frozenset(match[1] for text in _texts(given) for match in _REFERENCE.finditer(text))


def resolve(arguments: Mapping[str, Any], allowed: Iterable[str], values: Mapping[str, str]) -> dict[str, Any]:
    """``arguments`` with every reference in the ``allowed`` parameters replaced, once: a value that looks like a
    reference stays what it is. Elsewhere, and for ``$NAME``, nothing is replaced.

    Raises ``BadInput`` with the field when there is no such value."""
    resolved = dict(arguments)
    for name in allowed:
        if name in resolved:
            resolved[name] = _resolve(resolved[name], values, name)
    return resolved


def _resolve(value: Any, values: Mapping[str, str], at: str) -> Any:
    match value:
        case str():
            return _REFERENCE.sub(lambda found: _value(found, values, at), value)
        case Mapping():
            return {key: _resolve(inner, values, f"{at}.{key}") for key, inner in value.items()}
        case list() | tuple():
            return [_resolve(inner, values, f"{at}[{index}]") for index, inner in enumerate(value)]
    return value


def _value(found: re.Match[str], values: Mapping[str, str], at: str) -> str:
    name = found[1]
    if _AUTHORITY.fullmatch(found.string, endpos=found.start()):
        # Name servers would be told it, and whatever says that there is no such host would say it in parts.
        fix = "write the host, and credentials behind it or in headers"
        raise BadInput(f"{reference(name)} cannot stand in the host of an address", field=at, fix=fix)
    if name not in values:
        fix = f"a person can add it: pilothouse credentials set {name}"
        raise BadInput(f"there is no credential {reference(name)}", field=at, fix=fix)
    return values[name]


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _texts(inner)
        case list() | tuple():
            for inner in value:
                yield from _texts(inner)


class Hider:
    """Replaces values by their references. Made once for some ``values``, by name; used for any number of answers."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._forms: dict[str, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                self._forms.setdefault(form, reference(name))

    def __bool__(self) -> bool:
        return bool(self._forms)

    def hide(self, value: Any) -> Any:
        """Any JSON value, its keys and numbers included. Raises ``TypeError`` for what JSON cannot say."""
        if not self._forms:
            return value
        plain = msgspec.to_builtins(value, str_keys=True)
        whole = "\0".join(_said(plain))  # looked through once, so that many small texts cost no more than a long one
        met = {form: placeholder for form, placeholder in self._forms.items() if form in whole}
        return _hidden(plain, met) if met else plain

    def text(self, text: str) -> str:
        """Values that overlap are covered as a whole."""
        return _covered(text, self._forms)


def _said(value: Any) -> Iterator[str]:
    """Every text in a JSON value, its keys and numbers too."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, inner in value.items():
                yield key
                yield from _said(inner)
        case list() | tuple():
            for inner in value:
                yield from _said(inner)
        case int() | float():
            yield str(value)


def _hidden(value: Any, forms: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _covered(value, forms)
        case Mapping():
            return {_covered(key, forms): _hidden(inner, forms) for key, inner in value.items()}
        case list() | tuple():
            return [_hidden(inner, forms) for inner in value]
        case bool() | None:
            return value
    return forms.get(str(value), value)


def _covered(text: str, forms: Mapping[str, str]) -> str:
    spans = sorted(_spans(text, forms))
    if not spans:
        return text
    out: list[str] = []
    position = 0
    for start, stop, placeholder in spans:
        if start >= position:
            out += (text[position:start], placeholder)
        position = max(position, stop)
    out.append(text[position:])
    return "".join(out)


def _spans(text: str, forms: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    for form, placeholder in forms.items():
        start = text.find(form)
        while start >= 0:
            stop = start + len(form)
            # To the last one that overlaps, and so on: a value that repeats itself would be found at every letter.
            while (further := text.rfind(form, start + 1, stop + len(form) - 1)) >= stop - len(form) + 1:
                stop = further + len(form)
            yield start, stop, placeholder
            start = text.find(form, stop)


def _forms(value: str) -> Iterator[str]:
    """A value as it may be met: as it is, line by line, and as what it is sent through writes it."""
    if len(value) < SHORTEST:
        return
    yield value
    if len(stripped := value.strip()) >= SHORTEST:
        yield stripped
    for line in value.splitlines():
        if len(line) >= _SHORTEST_LINE and not _FRAME.fullmatch(line.strip()):
            yield line.strip()
    raw = value.encode("utf-8", "surrogatepass")
    for encode in _TEXT_FORMS:
        yield (text := encode(value))
        yield _ESCAPE.sub(lambda found: found[0].lower(), text)
    yield raw.hex()
    yield raw.hex().upper()
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        yield from _coded(raw, alphabet)


_TEXT_FORMS: tuple[Callable[[str], str], ...] = (
    str.lower,
    lambda value: json.dumps(value)[1:-1],
    lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    html.escape,
    lambda value: quote(value, safe="", errors="surrogatepass"),
    lambda value: quote(value, errors="surrogatepass"),
    lambda value: quote_plus(value, errors="surrogatepass"),
)


def _coded(raw: bytes, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """What of ``raw`` is the same in base64 wherever in a text it begins, for each of the three ways it can."""
    for before in range(3):
        text = encode(bytes(before) + raw).decode()
        first = (0, 2, 3)[before]  # the characters that hold bits of what stands before
        last = (before + len(raw)) * 8 // 6  # … and of what follows
        if last - first >= _SHORTEST_CODED:
            yield text[first:last]
