"""What a first pass over a sheet finds, collected cell by cell under a limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.toolkit.faults import WorkbookError

MAX_CELLS = 10_000_000
"""Cells of the used rectangle: the reading library keeps each of them in memory, empty or not."""


@dataclass(slots=True)
class Survey:
    """The used rectangle of one sheet (rows and columns from 0) and what a reading library would lose.

    Raises `WorkbookError` (`workbook_too_large`) as soon as more than `max_rows` rows are below the first used one.
    """

    where: str
    max_rows: int
    top: int = -1
    bottom: int = -1
    left: int = 2**31
    right: int = -1
    unvalued: dict[int, int] = field(default_factory=dict)
    """Row → its first column with a formula that has no calculated value."""
    errors: dict[int, dict[int, str]] = field(default_factory=dict)
    """Row → column → the text of an error value such as `#DIV/0!`."""

    @property
    def empty(self) -> bool:
        return self.bottom < 0

    def see(self, row: int, column: int) -> None:
        """Note a cell with content."""
        if row > self.bottom:
            self.top = row if self.top < 0 else self.top
            self.bottom = row
            if row - self.top > self.max_rows:
                raise too_many_rows(self.where, self.max_rows)
        self.left = min(self.left, column)
        self.right = max(self.right, column)

    def see_unvalued(self, row: int, column: int) -> None:
        """Note a formula without a value."""
        self.see(row, column)
        self.unvalued.setdefault(row, column)

    def see_error(self, row: int, column: int, text: str) -> None:
        """Note an error value."""
        self.see(row, column)
        self.errors.setdefault(row, {})[column] = text

    def require_area(self) -> None:
        """Refuse a rectangle that would not fit into memory, such as two used cells in far corners."""
        area = (self.bottom - self.top + 1) * (self.right - self.left + 1)
        if area > MAX_CELLS:
            raise WorkbookError(
                "workbook_too_large",
                f"{self.where} spans {area:,} cells; at most {MAX_CELLS:,} can be read: "
                "clear what is far from the table",
            )


def too_many_rows(where: str, max_rows: int) -> WorkbookError:
    """The one line for a sheet above the limit."""
    return WorkbookError(
        "workbook_too_large",
        f"{where} has more than {max_rows:,} rows; split it, or raise the setting max_rows",
    )
