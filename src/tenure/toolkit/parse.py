"""From a workbook file to a `Sheet`: the first sheet with anything in it, header apart, nothing lost on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tenure.toolkit import delimited
from tenure.toolkit.faults import WorkbookError
from tenure.toolkit.loading import load_rows
from tenure.toolkit.outputs import PathLike
from tenure.toolkit.rules import Rules, fold
from tenure.toolkit.scan import Scan, scan
from tenure.toolkit.sheet import Row, Sheet
from tenure.toolkit.survey import Survey, too_many_rows
from tenure.toolkit.values import Cell, as_text, is_blank


def parse(path: PathLike, rules: Rules | None = None) -> Sheet:
    """Read the first non-empty sheet (or the one the rules name) of an xlsx, xls, ods or csv file.

    The header is the first row that is not blank; the rows go down to the last one with content. Raises `WorkbookError`
    for each way in which the file cannot be used, before a large sheet is loaded.
    """
    checked, place = rules or Rules(), Path(path)
    found = scan(place, checked)
    styles = _Styles()
    rows = _without_blank_ends(list(_csv_rows(place) if found.kind == "csv" else _book_rows(place, found, styles)))
    if len(rows) < 2:
        raise WorkbookError(
            "workbook_no_rows", f"{found.survey.where} has a header and no rows below it; nothing to do"
        )
    if len(rows) - 1 > checked.max_rows:
        raise too_many_rows(found.survey.where, checked.max_rows)
    head, body = rows[0], rows[1:]
    used = _used_columns(rows)
    return Sheet(
        source=place.name,
        name=found.sheet,
        header_row=head.number,
        header=_header([_at(head.cells, column) for column in used]),
        styles=[styles.of(column) for column in used],
        rows=[_narrowed(row, used) for row in body],
    )


class _Styles:
    """Which columns the workbook itself keeps as dates throughout, below the header."""

    def __init__(self) -> None:
        self.kinds: dict[int, set[str]] = {}
        self.header_seen = False

    def see(self, left: int, kinds: str) -> None:
        if self.header_seen:
            for column, kind in enumerate(kinds, left):
                if kind != "-":
                    self.kinds.setdefault(column, set()).add(kind)
        self.header_seen = self.header_seen or kinds.strip("-") != ""

    def of(self, column: int) -> str | None:
        kinds = self.kinds.get(column, {"x"})
        return None if "x" in kinds else "datetime" if "t" in kinds else "date"


def _csv_rows(place: Path) -> Iterator[Row]:
    for number, record in enumerate(delimited.records(place), 1):
        yield Row(number, [value or None for value in record])


def _book_rows(place: Path, found: Scan, styles: _Styles) -> Iterator[Row]:
    survey, index = found.survey, -1
    for index, (left, cells, kinds) in enumerate(load_rows(place, found.sheet)):
        styles.see(left, kinds)
        yield _completed(index, [None] * left + cells, survey)
    for rest in range(index + 1, survey.bottom + 1):
        yield _completed(rest, [], survey)


def _completed(index: int, cells: list[Cell], survey: Survey) -> Row:
    """The row with what the library left out: error values, and the mark of a formula without a value."""
    errors = survey.errors.get(index, {})
    cells += [None] * (max(errors, default=-1) + 1 - len(cells))
    for column, text in errors.items():
        cells[column] = text
    return Row(index + 1, cells, survey.unvalued.get(index))


def _without_blank_ends(rows: list[Row]) -> list[Row]:
    used = [index for index, row in enumerate(rows) if row.unvalued is not None or not all(map(is_blank, row.cells))]
    return rows[used[0] : used[-1] + 1] if used else []


def _used_columns(rows: Sequence[Row]) -> list[int]:
    used: set[int] = set()
    for row in rows:
        used.update(column for column, value in enumerate(row.cells) if value is not None)
        if row.unvalued is not None:
            used.add(row.unvalued)
    return sorted(used)


def _narrowed(row: Row, used: Sequence[int]) -> Row:
    unvalued = None if row.unvalued is None else used.index(row.unvalued)
    return Row(row.number, [_at(row.cells, column) for column in used], unvalued)


def _at(cells: Sequence[Cell], column: int) -> Cell:
    return cells[column] if column < len(cells) else None


def _header(cells: Sequence[Cell]) -> list[str]:
    """A name for every column, each once: blank ones become `Column 3`, repeated ones `Price (2)`."""
    names: list[str] = []
    taken: set[str] = set()
    for position, cell in enumerate(cells, 1):
        plain = f"Column {position}" if is_blank(cell) else as_text(cell)
        name, copy = plain, 1
        while fold(name) in taken:
            copy += 1
            name = f"{plain} ({copy})"
        taken.add(fold(name))
        names.append(name)
    return names
