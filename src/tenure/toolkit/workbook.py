"""Writing workbooks: a clean one from normalised rows, or changes to cells of one that exists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tenure.toolkit.faults import WorkbookError, workbook_extra
from tenure.toolkit.layout import Column, Layout
from tenure.toolkit.loading import unreadable
from tenure.toolkit.normalise import Part
from tenure.toolkit.outputs import PathLike, written_whole
from tenure.toolkit.rules import SHEET_ROWS
from tenure.toolkit.scan import scan
from tenure.toolkit.scan_xlsx import column_index
from tenure.toolkit.values import Cell

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

CLEAN = "Clean"
REJECTED = "Rejected"

FIXED_DATE = datetime(2000, 1, 1)  # noqa: DTZ001 - a fixed date of the file format: equal input makes equal bytes
_OPTIONS = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
_REFERENCE = re.compile(r"[A-Z]{1,3}[1-9][0-9]{0,6}")
SHEET_COLUMNS = 16_384


class Change(NamedTuple):
    """A new value for one cell, such as `Change("Sales", "B7", 12.5)`; None empties it, text is never a formula."""

    sheet: str
    cell: str
    value: str | int | float | bool | date | datetime | None


def write_workbook(path: PathLike, layout: Layout, part: Part) -> None:
    """Write kept rows (sheet `Clean`) and rejected ones (sheet `Rejected`: row, reason, column, value) to an xlsx file.

    Numbers and dates are written as such; text is text, whatever it looks like. Equal input makes equal bytes. The file
    appears whole or not at all.
    """
    with workbook_extra():
        import xlsxwriter  # type: ignore[import-untyped]
    with written_whole(path) as draft:
        book = xlsxwriter.Workbook(str(draft), _OPTIONS)
        book.set_properties({"created": FIXED_DATE})
        _write_clean(book, layout, part)
        _write_rejected(book, part)
        book.close()


def edit_in_place(path: PathLike, out: PathLike, changes: Iterable[Change]) -> None:
    """Set cells of an existing xlsx or xlsm file, preserve the rest, write the result to `out` (which may be `path`).

    Formulas stay, but their calculated values are not kept: a spreadsheet program computes them when it opens the file.
    Drawn shapes are lost. Raises `WorkbookError` (`workbook_change_invalid` for an unknown sheet or cell).
    """
    with workbook_extra():
        import openpyxl
    source = Path(path)
    if scan(source).kind != "xlsx":
        raise unreadable(source, "only xlsx can be edited in place")
    book = openpyxl.load_workbook(source, keep_vba=source.suffix.lower() == ".xlsm")
    for change in changes:
        _apply(book, change, source)
    with written_whole(out) as draft:
        book.save(draft)


def _write_clean(book: Any, layout: Layout, part: Part) -> None:
    sheet = book.add_worksheet(CLEAN)
    head = book.add_format({"bold": True, "bottom": 1})
    styles = {
        "date": book.add_format({"num_format": "yyyy-mm-dd"}),
        "datetime": book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
        None: None,
    }
    for position, column in enumerate(layout.columns):
        sheet.set_column(position, position, _width(column))
        sheet.write_string(0, position, column.name, head)
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(part["kept"]), len(layout.columns) - 1)
    for index, cells in enumerate(part["kept"], 1):
        for position, (column, value) in enumerate(zip(layout.columns, cells, strict=True)):
            _write_cell(sheet, index, position, value, column.style, styles[column.style])


def _write_rejected(book: Any, part: Part) -> None:
    sheet = book.add_worksheet(REJECTED)
    head = book.add_format({"bold": True, "bottom": 1})
    for position, (name, width) in enumerate((("Row", 10), ("Reason", 24), ("Column", 20), ("Value", 40))):
        sheet.set_column(position, position, width)
        sheet.write_string(0, position, name, head)
    sheet.freeze_panes(1, 0)
    for index, rejection in enumerate(part["rejected"], 1):
        cells = (rejection["row"], rejection["reason"], rejection["column"], rejection["value"])
        for position, value in enumerate(cells):
            _write_cell(sheet, index, position, value)


def _write_cell(sheet: Any, row: int, column: int, value: Cell, style: str | None = None, form: object = None) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, int | float):
        sheet.write_number(row, column, value)
    elif style is not None and value >= "1900":
        sheet.write_datetime(row, column, datetime.fromisoformat(value), form)
    else:
        sheet.write_string(row, column, value)


def _width(column: Column) -> int:
    least = {"date": 12, "datetime": 20}.get(column.style or "", 14)
    return min(max(least, len(column.name) + 4), 60)


def _apply(book: Workbook, change: Change, source: Path) -> None:
    if change.sheet not in book.sheetnames:
        raise _invalid(source, f"no sheet {change.sheet!r}", f"one of {', '.join(map(repr, book.sheetnames))}")
    if not _is_cell(change.cell):
        raise _invalid(source, f"no cell {change.cell!r}", "a reference such as 'B7'")
    cell = book[change.sheet][change.cell]
    if type(cell).__name__ == "MergedCell":
        raise _invalid(source, f"cell {change.cell!r} hidden under a merged one", "the first cell of the merged ones")
    cell.value = change.value
    if isinstance(change.value, str):
        cell.data_type = "s"


def _is_cell(reference: str) -> bool:
    if not _REFERENCE.fullmatch(reference):
        return False
    letters = reference.rstrip("0123456789")
    return column_index(letters) < SHEET_COLUMNS and int(reference[len(letters) :]) <= SHEET_ROWS


def _invalid(source: Path, what: str, right: str) -> WorkbookError:
    return WorkbookError("workbook_change_invalid", f"{source} has {what}; name {right}")
