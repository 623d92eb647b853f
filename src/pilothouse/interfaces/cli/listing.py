"""Verbs that list when they are told nothing else: ``pilothouse keys --json`` is ``pilothouse keys list --json``."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperGroup

LIST = "list"


class ListsByDefault(TyperGroup):
    """A group that has a command ``list``. ``--help`` is the group's own."""

    default: ClassVar[str] = LIST

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        says_nothing_else = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if says_nothing_else and not ctx.resilient_parsing:  # completion wants to know what there is
            args = [self.default, *args]
        return super().parse_args(ctx, args)
