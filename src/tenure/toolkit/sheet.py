"""A sheet as it was read: the header and the rows below it, every cell as JSON can hold it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tenure.toolkit.outputs import PathLike, written_whole
from tenure.toolkit.values import Cell


class Row(NamedTuple):
    """One row below the header. `json.dumps` makes a list of it, `Row(*that)` is the row again."""

    number: int
    """As a spreadsheet shows it, from 1; of a CSV file the record's."""
    cells: list[Cell]
    unvalued: int | None = None
    """The first column (from 0) whose formula has no calculated value, if there is one."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What `parse` gives. `len(rows)` is the number of rows in."""

    source: str
    """The file's name without its folder."""
    name: str
    header_row: int
    header: list[str]
    styles: list[str | None]
    """For each column `date` or `datetime` if the workbook itself keeps it so throughout, else None."""
    rows: list[Row]


def chunks(rows: Sequence[Row], size: int = 2_000) -> Iterator[list[Row]]:
    """Pieces of at most `size` rows, in order: the same pieces at every attempt."""
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])


def save_sheet(sheet: Sheet, path: PathLike) -> None:
    """Write a sheet as JSON lines, the head first, then one row a line; equal sheets make equal bytes."""
    head = [sheet.source, sheet.name, sheet.header_row, sheet.header, sheet.styles]
    with written_whole(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(_lines([head, *sheet.rows]))


def load_sheet(path: PathLike) -> Sheet:
    """Read what `save_sheet` wrote."""
    with Path(path).open(encoding="utf-8") as lines:
        source, name, header_row, header, styles = json.loads(next(lines))
        return Sheet(source, name, header_row, header, styles, [Row(*json.loads(line)) for line in lines])


def _lines(values: Iterable[object]) -> Iterator[str]:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for value in values)
