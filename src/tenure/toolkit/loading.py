"""python-calamine behind one door: cells as JSON can hold them, and one line for whatever a file makes it raise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.toolkit.faults import WorkbookError, workbook_extra
from tenure.toolkit.values import Cell, whole_if_exact

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

Native = int | float | str | bool | time | date | datetime | timedelta


@contextmanager
def open_book(place: Path) -> Iterator[CalamineWorkbook]:
    """An open workbook; faults of the file inside the block become `WorkbookError`."""
    with workbook_extra():
        import python_calamine
    try:
        with python_calamine.CalamineWorkbook.from_path(place) as book:
            yield book
    except python_calamine.PasswordError as locked:
        raise encrypted(place) from locked
    except python_calamine.CalamineError as fault:
        raise unreadable(place, f"it is damaged ({fault})") from fault
    except BaseException as fault:
        # A panic of the Rust library is not an Exception; left alone it would look like the end of the process.
        if type(fault).__name__ == "PanicException":
            raise unreadable(place, f"it is damaged ({fault})") from fault
        raise


def load_rows(place: Path, sheet: str) -> Iterator[tuple[int, list[Cell], str]]:
    """Rows of a sheet from row 0: index of the first cell's column, cells, and one letter a cell for its kind.

    `d` is a date, `t` a date with a time of day, `-` an empty cell, `x` anything else.
    """
    with open_book(place) as book:
        grid = book.get_sheet_by_name(sheet)
        left = grid.start[1] if grid.start else 0
        for raw in grid.iter_rows():
            yield left, [json_cell(value) for value in raw], "".join(map(_kind, raw))


def json_cell(value: Native) -> Cell:
    """Empty text as None, whole numbers as int, dates and times as ISO text, durations as `H:MM:SS`."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return value


def unreadable(place: Path, why: str) -> WorkbookError:
    """The one line for a file that is no workbook, or a damaged one."""
    text = f"{place} cannot be read: {why}; save it anew as xlsx, xls, ods or csv"
    return WorkbookError("workbook_not_readable", text)


def encrypted(place: Path) -> WorkbookError:
    """The one line for a file behind a password."""
    return WorkbookError("workbook_encrypted", f"{place} is encrypted; save it without a password")


def _number(value: float) -> Cell:
    return whole_if_exact(value) if math.isfinite(value) else str(value)


def _kind(value: Native) -> str:
    if value == "":
        return "-"
    if isinstance(value, datetime):
        return "t"
    return "d" if isinstance(value, date) else "x"
