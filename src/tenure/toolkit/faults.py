"""What can be wrong with a workbook, its settings or its place: one exception, told apart by a stable code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.errors import MissingExtra, TerminalError


class WorkbookError(TerminalError, ValueError):
    """An input that cannot be used as it is; trying again with the same input gives the same answer.

    `str(error)` is one line: what, where, what would be right. `code` is one of `workbook_not_found`,
    `workbook_is_directory`, `workbook_empty_file`, `workbook_not_readable`, `workbook_encrypted`, `workbook_no_rows`,
    `workbook_no_sheet`, `workbook_too_large`, `workbook_columns_missing`, `workbook_change_invalid`,
    `settings_invalid`, `output_not_writable`.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(" ".join(text.split()), code)

    def __reduce__(self) -> tuple[type[WorkbookError], tuple[str, str]]:
        # The way back from a tool process calls the class with `args`, which hold the text alone.
        return type(self), (self.code, str(self))


@contextmanager
def workbook_extra() -> Iterator[None]:
    """Wrap the imports of the heavy libraries: a missing one is one line that names the extra."""
    try:
        yield
    except ImportError as missing:
        raise MissingExtra("workbook support is not installed: pip install 'tenure[workbook]'") from missing
