"""The first pass over an OpenDocument spreadsheet: one XML part holds all sheets, with repeated rows and cells."""

from __future__ import annotations

import zipfile
from collections.abc import Callable

from tenure.toolkit.package_xml import local, stream
from tenure.toolkit.survey import Survey

CONTENT = "content.xml"


def survey_document(archive: zipfile.ZipFile, wanted: Callable[[str], Survey | None]) -> dict[str, Survey]:
    """Name of each sheet → its survey, in order; `wanted` gives an empty survey for a name, or None to pass it over."""
    tables = _Tables(wanted)
    stream(archive, CONTENT, tables)
    return tables.found


class _Tables:
    def __init__(self, wanted: Callable[[str], Survey | None]) -> None:
        self.wanted = wanted
        self.found: dict[str, Survey] = {}
        self.survey: Survey | None = None
        self.row = self.column = 0
        self.row_repeat = self.cell_repeat = 1
        self.formula = self.valued = self.in_cell = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        plain = {local(key): value for key, value in attributes.items()}
        if name == "table":
            self._start_table(plain.get("name", ""))
        elif name == "table-row":
            self.column, self.row_repeat = 0, int(plain.get("number-rows-repeated", 1))
        elif name in ("table-cell", "covered-table-cell"):
            self.in_cell = True
            self.cell_repeat = int(plain.get("number-columns-repeated", 1))
            self.formula = "formula" in plain
            self.valued = any(
                key in plain for key in ("value", "date-value", "time-value", "boolean-value", "string-value")
            )

    def text(self, data: str) -> None:
        if self.in_cell and data.strip():
            self.valued = True

    def end(self, name: str) -> None:
        if name in ("table-cell", "covered-table-cell"):
            self._end_cell()
        elif name == "table-row":
            self.row += self.row_repeat

    def _start_table(self, name: str) -> None:
        self.row = 0
        self.survey = self.wanted(name)
        if self.survey is not None:
            self.found[name] = self.survey

    def _end_cell(self) -> None:
        self.in_cell = False
        last = self.column + self.cell_repeat - 1
        if self.survey is not None and (self.valued or self.formula):
            self._see(self.survey, last)
        self.column = last + 1

    def _see(self, survey: Survey, last: int) -> None:
        survey.see(self.row, self.column)
        survey.see(self.row + self.row_repeat - 1, last)
        if self.formula and not self.valued:
            for row in range(self.row, self.row + self.row_repeat):
                survey.see_unvalued(row, self.column)
