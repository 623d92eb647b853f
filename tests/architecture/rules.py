"""The rules of the house, each a function from the modules of a tree to a list of sentences about what breaks it.

The picture they hold is in ``docs/architecture.md``: arrows point down, rooms of one floor do not know each other,
and the core thinks without touching the world.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping

from tests.architecture.graph import ROOT, Module, find_cycles

Modules = Mapping[str, Module]

MAX_LINES = 400

# What each floor may import, itself included. ``app``, ``doctor`` and ``__main__`` wire and may import everything.
FLOORS = {
    "": frozenset[str](),
    "errors": frozenset[str](),
    "core": frozenset({"core", "errors"}),
    "engine": frozenset({"engine", "core", "errors"}),
    "adapters": frozenset({"adapters", "core", "errors"}),
    "settings": frozenset({"core", "errors", "owner"}),
    "owner": frozenset({"errors"}),
    # What programs import: it knows a server only by what comes over the wire, so nothing of the engine.
    "client": frozenset({"client", "core", "errors", "settings", "owner"}),
    "interfaces": frozenset({"interfaces", "client", "engine", "core", "errors", "settings", "owner"}),
}
WIRING = frozenset({"app", "assembly", "doctor", "__main__"})
# The command line is the process's front door, so it is the one place that may call the wiring.
MAY_CALL_APP = "interfaces.cli"

# Rooms of one floor that may be imported by others of that floor; "*" is every room.
ROOMS = {
    "core": {
        "*": frozenset({"run", "tools"}),
        "workflow": frozenset({"plan"}),
    },
    "adapters": {
        "agents": frozenset({"work"}),
        "backends": frozenset({"agents"}),
        "toolbox": frozenset({"git", "work", "browser", "vault"}),
    },
    "interfaces": {"*": frozenset[str]()},
}

# The engine from the ground up: its seams, then what drives any run, then each kind, then what uses all of them.
# fmt: off
ENGINE = (
    "", "ports", "chat_ports", "keyed", "kinds",
    "driving", "access", "agents", "plans", "tools", "answering", "chats",
    "runs", "queries", "own_tools", "calling", "janitor", "services",
)
# fmt: on

# The core imports from this list only: nothing here can read a clock, a file, a socket or a random number.
# fmt: off
PURE = frozenset({
    "__future__", "abc", "base64", "binascii", "bisect", "codecs", "collections", "copy", "dataclasses",
    "datetime", "difflib", "enum", "fnmatch", "functools", "graphlib", "hashlib", "heapq", "hmac", "html",
    "ipaddress", "itertools", "json", "keyword", "math", "operator", "posixpath", "re", "shlex",
    "string", "struct", "textwrap", "types", "typing", "unicodedata",
    "msgspec", "pydantic", "pydantic_core", "yaml",
})
# fmt: on
PURE_PARTS = frozenset(
    {"pathlib.PurePath", "pathlib.PurePosixPath", "pathlib.PureWindowsPath", "urllib.parse", "contextlib"}
)
IMPURE_CALLS = frozenset({"open", "input", "print", "eval", "exec"})
CLOCK_READERS = frozenset({"now", "utcnow", "today"})

WARDEN = tuple(f"{ROOT}.adapters.work.{name}" for name in ("daemon", "warden", "keeper", "protocol"))
# What it may reach beyond its own room, which must stand alone too.
WARDEN_MAY_REACH = frozenset({ROOT, f"{ROOT}.core.run.output", f"{ROOT}.errors"})


def place(module: str) -> tuple[str, str]:
    """(floor, room) of a module of the tree; the room is empty for a floor's own ``__init__``."""
    parts = [*module.split("."), "", ""]
    return parts[1], parts[2]


def own_imports(modules: Modules) -> Iterator[tuple[str, str, str]]:
    """(importer, imported, where) for every import between modules of the tree."""
    for module in modules.values():
        for target, line in module.imports.items():
            if target == ROOT or target.startswith(f"{ROOT}."):
                yield module.name, target, f"{module.name}:{line} imports {target}"


def arrows_point_down(modules: Modules) -> list[str]:
    """Floors import only the floors below them, and nobody but the command line imports the wiring."""
    found = []
    for importer, target, where in own_imports(modules):
        floor, to = place(importer)[0], place(target)[0]
        if floor in WIRING or to == "":
            continue
        if to in WIRING and importer.startswith(f"{ROOT}.{MAY_CALL_APP}"):
            continue
        if to not in FLOORS.get(floor, frozenset()):
            found.append(f"{where}: {floor or ROOT} may not import {to}")
    return found


def floors_are_known(modules: Modules) -> list[str]:
    """A new floor is a decision, not an accident."""
    return [
        f"{name}: {place(name)[0]} is not a floor of this house"
        for name in modules
        if place(name)[0] not in FLOORS and place(name)[0] not in WIRING
    ]


def rooms_do_not_know_each_other(modules: Modules) -> list[str]:
    found = []
    for importer, target, where in own_imports(modules):
        (floor, room), (to_floor, to_room) = place(importer), place(target)
        if floor != to_floor or floor not in ROOMS or room == to_room or not to_room:
            continue
        allowed = ROOMS[floor].get(room, frozenset()) | ROOMS[floor].get("*", frozenset())
        if to_room not in allowed:
            found.append(f"{where}: {floor}/{room or '__init__'} may not use {floor}/{to_room}")
    return found


def the_engine_is_built_upwards(modules: Modules) -> list[str]:
    """Its rooms, and the modules beside them, use what stands before them in the list and nothing after."""
    order = {room: index for index, room in enumerate(ENGINE)}
    found = [
        f"{name}: {place(name)[1]} has no place in the engine"
        for name in modules
        if place(name)[0] == "engine" and place(name)[1] not in order
    ]
    for importer, target, where in own_imports(modules):
        (floor, room), (to_floor, to_room) = place(importer), place(target)
        if floor == to_floor == "engine" and to_room and order.get(room, 0) < order.get(to_room, 0):
            found.append(f"{where}: engine/{room} may not use engine/{to_room}")
    return found


def nothing_goes_in_circles(modules: Modules) -> list[str]:
    return [f"import cycle: {' ↔ '.join(group)}" for group in find_cycles(modules)]


def modules_fit_one_sitting(modules: Modules) -> list[str]:
    return [
        f"{module.name} has {module.lines} lines: over {MAX_LINES} it is two modules"
        for module in modules.values()
        if module.lines > MAX_LINES
    ]


def core_is_pure(modules: Modules) -> list[str]:
    """Values in, values out: no I/O, no clock, no ids, no await."""
    found = []
    for module in modules.values():
        if place(module.name)[0] != "core":
            continue
        for target, line in module.imports.items():
            if not (target.split(".")[0] in {ROOT, *PURE} or is_part_of(target, PURE_PARTS)):
                found.append(f"{module.name}:{line} imports {target}: the core is pure")
        found += [f"{module.name}:{line} {what}: the core is pure" for line, what in impure_code(module)]
    return found


def is_part_of(target: str, wholes: frozenset[str]) -> bool:
    return any(target == whole or target.startswith(f"{whole}.") for whole in wholes)


def impure_code(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield node.lineno, "is asynchronous"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield node.lineno, f"calls {name}()"
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"), attr=name
                )
            ) if name in CLOCK_READERS:
                yield node.lineno, f"reads the clock with {name}()"


def warden_stands_alone(modules: Modules) -> list[str]:
    """The warden outlives upgrades and must start on a bare interpreter: whatever it reaches, directly or round about,
    is the standard library, its own room, or on a short list. The ``__init__`` of every package on the way runs too.
    """
    found = []
    seen: set[str] = set()
    todo = [name for name in WARDEN if name in modules]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo.extend(packages_of(name))
        for target, line in modules[name].imports.items():
            if place(target)[:2] == ("adapters", "work") or target in WARDEN_MAY_REACH:
                todo.extend({target} & modules.keys())
            elif target.split(".")[0] not in sys.stdlib_module_names:
                found.append(f"{name}:{line} imports {target}: the warden needs the standard library only")
    return found


def packages_of(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]


RULES = (
    floors_are_known,
    arrows_point_down,
    rooms_do_not_know_each_other,
    the_engine_is_built_upwards,
    nothing_goes_in_circles,
    modules_fit_one_sitting,
    core_is_pure,
    warden_stands_alone,
)
