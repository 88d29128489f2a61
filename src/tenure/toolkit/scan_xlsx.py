"""The first pass over an xlsx package: sheets in order, used rows, formulas without a value, error values."""

from __future__ import annotations

import posixpath
import zipfile
from xml.etree import ElementTree as ET

from tenure.toolkit.package_xml import stream
from tenure.toolkit.survey import Survey

_PACKAGE_RELATIONS = "_rels/.rels"


def workbook_part(archive: zipfile.ZipFile) -> str | None:
    """The part that lists the sheets, usually `xl/workbook.xml`; None if the package is no such workbook."""
    if _PACKAGE_RELATIONS not in archive.namelist():
        return None
    targets = _targets(archive, _PACKAGE_RELATIONS, "", "/officeDocument").values()
    return next((part for part in targets if part.startswith("xl/") and part.endswith(".xml")), None)


def sheet_parts(archive: zipfile.ZipFile, workbook: str) -> dict[str, str]:
    """Name of each worksheet → its part in the package, in the workbook's order; charts are left out."""
    folder, name = posixpath.split(workbook)
    targets = _targets(archive, f"{folder}/_rels/{name}.rels", folder, "/worksheet")
    sheets = ET.fromstring(archive.read(workbook)).iterfind("{*}sheets/{*}sheet")
    pairs = ((sheet.get("name", ""), targets.get(_relation_id(sheet))) for sheet in sheets)
    return {name: part for name, part in pairs if part is not None}


def survey_part(archive: zipfile.ZipFile, part: str, survey: Survey) -> None:
    """Fill `survey` from one worksheet."""
    stream(archive, part, _Cells(survey))


def column_index(letters: str) -> int:
    """`A` is 0, `XFD` is 16383."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _targets(archive: zipfile.ZipFile, relations: str, folder: str, kind: str) -> dict[str | None, str]:
    return {
        relation.get("Id"): posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
        for relation in ET.fromstring(archive.read(relations))
        if relation.get("Type", "").endswith(kind)
    }


def _relation_id(sheet: ET.Element) -> str | None:
    return next((value for name, value in sheet.items() if name.endswith("}id")), None)


class _Cells:
    """Follows rows and cells; references may be missing, then a cell is right of the one before."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.row = self.column = -1
        self.columns: dict[str, int] = {}
        self.type = ""
        self.formula = self.valued = self.reading = False
        self.value = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._start_cell(attributes)
        elif name in ("v", "t"):
            self.reading = self.column >= 0
        elif name == "f":
            self.formula = True
        elif name == "row":
            self.row = int(attributes["r"]) - 1 if "r" in attributes else self.row + 1
            self.column = -1

    def text(self, data: str) -> None:
        if self.reading:
            self.valued = True
            if self.type == "e":
                self.value += data

    def end(self, name: str) -> None:
        if name in ("v", "t"):
            self.reading = False
        elif name == "c":
            self._end_cell()
        elif name == "row":
            self.column = -1

    def _start_cell(self, attributes: dict[str, str]) -> None:
        reference = attributes.get("r")
        self.column = self.column + 1 if reference is None else self._column(reference)
        self.type = attributes.get("t", "n")
        self.formula = self.valued = False
        self.value = ""

    def _end_cell(self) -> None:
        # A formula that gives empty text is stored as type "str" with an empty value: that is a value.
        if self.formula and not self.valued and self.type != "str":
            self.survey.see_unvalued(self.row, self.column)
        elif self.value:
            self.survey.see_error(self.row, self.column, self.value)
        elif self.valued:
            self.survey.see(self.row, self.column)

    def _column(self, reference: str) -> int:
        letters = reference.rstrip("0123456789")
        if letters not in self.columns:
            self.columns[letters] = column_index(letters)
        return self.columns[letters]
