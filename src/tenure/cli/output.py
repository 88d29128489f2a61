"""What commands print: a table for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

SECRETIVE = ("input", "output", "arguments", "final_arguments", "answer", "result", "progress", "steps")
"""Columns that hold what users stored exactly; people and programs are shown them masked."""


def record(row: Any, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """A record's fields under their column names, contents masked."""
    from tenure.payload import sanitize

    assert is_dataclass(row)
    found = {field.name: getattr(row, field.name) for field in fields(row) if field.name not in leave_out}
    return {name: sanitize(value) if name in SECRETIVE else value for name, value in found.items()}


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def print_json_line(value: Any) -> None:
    """One JSON document on one line, at once: for streams."""
    print(json.dumps(value, ensure_ascii=False, default=_plain), flush=True)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def console(*, stderr: bool = False) -> Console:
    """The terminal; where there is none, lines are as long as they must be."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=False, width=None if stream.isatty() else 1_000)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> None:
    """Rows under their column names, or the line `empty`."""
    from rich.table import Table

    listed = [[shown(cell) for cell in row] for row in rows]
    if not listed:
        print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        is_number = all(isinstance(row[place], str) and _is_number(row[place]) for row in listed)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=name == "id")
    for row in listed:
        table.add_row(*(_text(cell) for cell in row))
    console().print(table)


def print_fields(pairs: Mapping[str, Any]) -> None:
    """One thing's fields, a line each; what is absent is left out."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        if value not in (None, "", [], {}):
            print(f"{name:<{width}}  {shown(value)}")


def shown(value: Any) -> str:
    """A value as a person reads it: one line, nothing that a terminal would obey."""
    from tenure.cli.faults import one_line

    if value is None:
        return ""
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, list | dict):
        return one_line(json.dumps(value, ensure_ascii=False, default=_plain))
    return one_line(str(value))


def moment(at: datetime | None) -> str:
    """An instant in UTC, to the second."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"


def clock_time(at: datetime | None) -> str:
    """The time of day of an instant in UTC, to the tenth of a second."""
    return "" if at is None else f"{at:%H:%M:%S}.{at.microsecond // 100_000}"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() or not text


def _text(cell: str) -> Any:
    from rich.text import Text

    return Text(cell)
