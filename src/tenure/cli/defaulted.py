"""A group of commands that shows things when no other command is named: `jobs`, `jobs ID`, `jobs retry ID`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

DEFAULT = "show"


class Defaulted(TyperGroup):
    """Runs `show` unless the first word is another command of the group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ("--help", "-h"))
        return super().parse_args(ctx, args if named else [DEFAULT, *args])
