"""Reads a source tree into modules and the imports between them, without running any of it.

Knows Python's import statement and nothing about which imports are allowed: that is ``rules.py``. Imports inside
functions and under ``TYPE_CHECKING`` count like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = "pilothouse"


@dataclass(frozen=True)
class Module:
    """One source file. ``imports`` maps what it imports, modules of the tree and others, to a line number."""

    name: str
    is_package: bool
    lines: int
    tree: ast.Module = field(repr=False)
    imports: Mapping[str, int] = field(repr=False)


def read_tree(source: Path) -> dict[str, Module]:
    """Every module below ``source`` (the folder that holds ``pilothouse/``), by dotted name."""
    files = {name_of(path.relative_to(source)): path for path in sorted((source / ROOT).rglob("*.py"))}
    return {name: read_module(name, path, frozenset(files)) for name, path in files.items()}


def name_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_module(name: str, path: Path, known: frozenset[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(path))
    is_package = path.name == "__init__.py"
    imports: dict[str, int] = {}
    for target, line in imported_names(tree, name if is_package else name.rpartition(".")[0]):
        imports.setdefault(resolve(target, known), line)
    imports.pop(name, None)
    return Module(name, is_package, len(text.splitlines()), tree, imports)


def imported_names(tree: ast.Module, package: str) -> Iterator[tuple[str, int]]:
    """Absolute dotted names, as deep as the statement says: ``from a import b`` gives ``a.b``."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, node.lineno
            case ast.ImportFrom():
                base = node.module or ""
                if node.level:
                    parents = package.split(".")
                    above = parents[: len(parents) - node.level + 1]
                    base = ".".join([*above, *filter(None, [base])])
                for alias in node.names:
                    yield f"{base}.{alias.name}", node.lineno
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield target, node.lineno


def resolve(target: str, known: frozenset[str]) -> str:
    """The module a dotted name belongs to: the longest known prefix, or the name itself when it is foreign."""
    prefix = target
    while prefix:
        if prefix in known:
            return prefix
        prefix = prefix.rpartition(".")[0]
    return target


def find_cycles(modules: Mapping[str, Module]) -> list[list[str]]:
    """Every group of modules that import each other, directly or round about (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in modules[name].imports:
            if target not in modules:
                continue
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                cycles.append(sorted(group))

    for name in modules:
        if name not in index:
            visit(name)
    return cycles
