"""The registry: what is written can be read, now and after the shapes have changed."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.plan.events import PLAN_EVENTS
from pilothouse.core.run.events import RUN_EVENTS, Event, Paused, Recorded, RunStarted, StopRequested
from pilothouse.core.run.registry import Registry
from pilothouse.errors import StoreFailed

REGISTRY = Registry(RUN_EVENTS, PLAN_EVENTS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_ü", max_size=4), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as msgspec sees it, arbitrary down to the last field."""
    match kind:
        case msgspec.inspect.StrType():
            return TEXT
        case msgspec.inspect.IntType():
            return st.integers(-(2**63), 2**63 - 1)
        case msgspec.inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case msgspec.inspect.UnionType(types=types):
            return st.one_of([any_of(one) for one in types])
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(any_of(item), max_size=2).map(tuple)
        case msgspec.inspect.ListType(item_type=item):
            return st.lists(any_of(item), max_size=2)
        case msgspec.inspect.TupleType(item_types=items):
            return st.tuples(*(any_of(item) for item in items))
        case msgspec.inspect.SetType(item_type=item):
            return st.sets(any_of(item), max_size=2)
        case msgspec.inspect.FrozenSetType(item_type=item):
            return st.frozensets(any_of(item), max_size=2)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(any_of(key), any_of(value), max_size=2)
        case msgspec.inspect.AnyType():
            return JSON
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: any_of(field.type) for field in fields})
    raise NotImplementedError(kind)


@pytest.mark.parametrize("cls", REGISTRY.types.values(), ids=REGISTRY.types)
@given(data=st.data())
def test_every_event_comes_back_from_the_log_and_from_the_wire(cls: type[Event], data: st.DataObject) -> None:
    event = data.draw(any_of(msgspec.inspect.type_info(cls)))
    assert REGISTRY.decode(REGISTRY.encode([event, event])) == [event, event]
    recorded = Recorded("run", 7, 1234, event)
    assert REGISTRY.unwire(REGISTRY.wire(recorded)) == recorded
    assert REGISTRY.unwire(REGISTRY.wire(recorded).decode()) == recorded


def test_the_wire_form_is_one_flat_object_envelope_first() -> None:
    wire = REGISTRY.wire(Recorded("run", 7, 1234, RunStarted(task="t", leg=2)))
    assert list(json.loads(wire).items()) == [
        ("id", "run:7"),
        ("seq", 7),
        ("runId", "run"),
        ("timestamp", 1234),
        ("type", "RUN_STARTED"),
        ("task", "t"),
        ("config", {}),
        ("leg", 2),
    ]


def test_an_event_without_fields_is_on_the_wire_too() -> None:
    wire = REGISTRY.wire(Recorded("run", 1, 2, Paused()))
    assert json.loads(wire) == {"id": "run:1", "seq": 1, "runId": "run", "timestamp": 2, "type": "PAUSED"}


@pytest.mark.parametrize("cls", REGISTRY.types.values(), ids=REGISTRY.types)
def test_no_event_has_a_field_of_the_envelope_or_the_stored_form(cls: type[Event]) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(cls)}
    assert not names & {"id", "seq", "runId", "timestamp", "type", "v"}


def test_an_empty_batch_is_an_empty_list() -> None:
    assert REGISTRY.decode(REGISTRY.encode([])) == []


@pytest.mark.parametrize(
    "body",
    [
        b'[{"type":"FROM_THE_FUTURE"}]',
        b'[{"type":"RUN_STARTED","leg":"two"}]',
        b'[{"leg":2}]',
        b'{"type":"PAUSED"}',
        b"[1]",
        b"[{",
        b"",
        b"\xff",
        b'[{"type":"PAUSED"}] trailing',
        b'[{"type":"PAUSED","x":' + b"[" * 5_000 + b"]" * 5_000 + b"}]",
    ],
)
@pytest.mark.parametrize("upcasting", [False, True])
def test_what_cannot_be_read_is_said_plainly(body: bytes, upcasting: bool) -> None:
    registry = Registry(RUN_EVENTS, upcasters={("RUN_STARTED", 1): renamed} if upcasting else None)
    with pytest.raises(StoreFailed):
        registry.decode(body)


def test_a_field_this_version_does_not_know_is_passed_over() -> None:
    assert REGISTRY.decode(b'[{"type":"PAUSED","mood":"fine"}]') == [Paused()]


def test_one_type_name_means_one_event() -> None:
    class Other(Event, frozen=True, kw_only=True, tag="PAUSED"):
        pass

    with pytest.raises(ValueError, match="PAUSED is registered twice"):
        Registry(RUN_EVENTS, (Other,))


# Shapes that changed.


class Moved(Event, frozen=True, kw_only=True, tag="MOVED"):
    """At version 1 it had ``where``, at 2 ``place``, at 3 ``place`` and ``floor``."""

    version: ClassVar[int] = 3
    place: str
    floor: int


def renamed(raw: dict[str, Any]) -> dict[str, Any]:
    return {**{k: v for k, v in raw.items() if k != "where"}, "place": raw["where"]}


def with_floor(raw: dict[str, Any]) -> dict[str, Any]:
    return raw | {"floor": 0}


UPCASTING = Registry(RUN_EVENTS, (Moved,), upcasters={("MOVED", 1): renamed, ("MOVED", 2): with_floor})


@pytest.mark.parametrize(
    "stored",
    [
        {"type": "MOVED", "where": "attic"},
        {"type": "MOVED", "v": 1, "where": "attic"},
        {"type": "MOVED", "v": 2, "place": "attic"},
        {"type": "MOVED", "v": 3, "place": "attic", "floor": 0},
    ],
)
def test_an_older_version_is_brought_up_step_by_step(stored: dict[str, Any]) -> None:
    body = json.dumps([stored, {"type": "PAUSED"}]).encode()
    assert UPCASTING.decode(body) == [Moved(place="attic", floor=0), Paused()]


def test_what_is_written_says_its_version() -> None:
    body = UPCASTING.encode([Moved(place="attic", floor=2), StopRequested()])
    assert [raw["v"] for raw in json.loads(body)] == [3, 1]
    assert UPCASTING.decode(body) == [Moved(place="attic", floor=2), StopRequested()]


def test_a_newer_version_than_this_program_knows_is_refused() -> None:
    with pytest.raises(StoreFailed, match="MOVED version 4"):
        UPCASTING.decode(b'[{"type":"MOVED","v":4,"place":"attic","floor":0}]')
    with pytest.raises(StoreFailed, match="PAUSED version 2"):
        REGISTRY.decode(b'[{"type":"PAUSED","v":2}]')  # also by a program from before the first change


def test_a_value_that_looks_like_a_version_is_none() -> None:
    event = RunStarted(config={"v": 7}, task='"v":7')
    assert REGISTRY.decode(REGISTRY.encode([event])) == [event]


def test_an_upcaster_that_stumbles_is_a_log_that_cannot_be_read() -> None:
    with pytest.raises(StoreFailed):
        UPCASTING.decode(b'[{"type":"MOVED","v":1}]')


@pytest.mark.parametrize("upcasters", [{}, {("MOVED", 2): with_floor}, {("MOVED", 1): renamed}])
def test_a_version_with_no_way_up_is_refused_at_once(upcasters: dict[tuple[str, int], Any]) -> None:
    with pytest.raises(ValueError, match="no upcaster from version"):
        Registry((Moved,), upcasters=upcasters)


def test_a_log_of_before_the_first_upcaster_is_read_by_a_registry_with_one() -> None:
    before = Registry(RUN_EVENTS).encode([RunStarted(task="t")])
    assert UPCASTING.decode(before) == [RunStarted(task="t")]


def test_the_wire_form_of_a_changed_event_is_its_present_shape() -> None:
    recorded = Recorded("run", 1, 2, Moved(place="attic", floor=2))
    assert UPCASTING.unwire(UPCASTING.wire(recorded)) == recorded
