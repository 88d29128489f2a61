"""A first look at a file before anything is loaded: what it is, which sheet has rows, whether it is too large.

The libraries that read workbooks load a whole sheet into memory and tell nothing of formulas without a value; this pass
streams, stops at the limit, and notes what they would lose.
"""

from __future__ import annotations

import mmap
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET
from xml.parsers import expat

from tenure.toolkit import delimited, scan_ods, scan_xlsx
from tenure.toolkit.faults import WorkbookError
from tenure.toolkit.loading import encrypted, open_book, unreadable
from tenure.toolkit.outputs import PathLike
from tenure.toolkit.rules import Rules
from tenure.toolkit.survey import Survey

Kind = Literal["xlsx", "xls", "ods", "csv"]

MAX_PART = 256 * 2**20
"""Unpacked bytes of a part that a library loads whole, such as the shared texts."""

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


@dataclass(frozen=True, slots=True)
class Scan:
    """What `scan` found: the kind of the file (by content), the first sheet with anything in it, and its survey."""

    kind: Kind
    sheet: str
    survey: Survey

    @property
    def rows(self) -> int:
        """Rows below the first used one."""
        return self.survey.bottom - self.survey.top


def scan(path: PathLike, rules: Rules | None = None) -> Scan:
    """Look at a file without loading it. Raises `WorkbookError` for each way in which it cannot be used."""
    checked, place = rules or Rules(), Path(path)
    kind = file_kind(place)
    with _one_line(place):
        surveys = _SURVEYORS[kind](place, checked)
    sheet, survey = _first_used(place, checked, surveys)
    survey.require_area()
    if survey.bottom == survey.top:
        raise WorkbookError("workbook_no_rows", f"{survey.where} has a header and no rows below it; nothing to do")
    return Scan(kind, sheet, survey)


def file_kind(path: PathLike) -> Kind:
    """What the file is by its content; only text tables need their suffix."""
    place = Path(path)
    _require_file(place)
    with place.open("rb") as source:
        start = source.read(8)
    if start == _OLE:
        return _ole_kind(place)
    if start.startswith(b"PK"):
        return _package_kind(place)
    if place.suffix.lower() in delimited.SUFFIXES:
        return "csv"
    raise unreadable(place, f"its content is not a workbook, whatever the name {place.suffix or 'says'}")


def _require_file(place: Path) -> None:
    if place.is_dir():
        raise WorkbookError("workbook_is_directory", f"{place} is a directory; name one workbook file in it")
    if not place.exists():
        raise WorkbookError("workbook_not_found", f"{place} does not exist; name an xlsx, xls, ods or csv file")
    if not place.is_file():
        raise unreadable(place, "it is not a regular file")
    if place.stat().st_size == 0:
        raise WorkbookError("workbook_empty_file", f"{place} is empty (0 bytes); name a file with rows in it")
    try:
        place.open("rb").close()
    except PermissionError as refused:
        raise unreadable(place, "this user may not read it") from refused


def _ole_kind(place: Path) -> Kind:
    with place.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(_ENCRYPTED) >= 0:
            raise encrypted(place)
    return "xls"


def _package_kind(place: Path) -> Kind:
    with _one_line(place), zipfile.ZipFile(place) as archive:
        parts = {info.filename: info for info in archive.infolist()}
        if any(info.flag_bits & 1 for info in parts.values()):
            raise encrypted(place)
        for name, info in parts.items():
            if info.file_size > MAX_PART and not name.startswith("xl/worksheets/") and name != scan_ods.CONTENT:
                raise WorkbookError(
                    "workbook_too_large",
                    f"{place}: part {name} unpacks to {info.file_size:,} bytes; at most {MAX_PART:,} can be read",
                )
        if scan_xlsx.workbook_part(archive) is not None:
            return "xlsx"
        if scan_ods.CONTENT in parts:
            return _ods_kind(place, archive)
    raise unreadable(place, "it is a zip archive without a workbook in it")


def _ods_kind(place: Path, archive: zipfile.ZipFile) -> Kind:
    manifest = "META-INF/manifest.xml"
    if manifest in archive.namelist() and b"encryption-data" in archive.read(manifest):
        raise encrypted(place)
    return "ods"


def _survey_xlsx(place: Path, rules: Rules) -> dict[str, Survey]:
    with zipfile.ZipFile(place) as archive:
        surveys: dict[str, Survey] = {}
        for name, part in scan_xlsx.sheet_parts(archive, scan_xlsx.workbook_part(archive) or "").items():
            surveys[name] = _blank_survey(place, name, rules)
            if rules.sheet in (None, name):
                scan_xlsx.survey_part(archive, part, surveys[name])
            if not surveys[name].empty:
                break
        return surveys


def _survey_ods(place: Path, rules: Rules) -> dict[str, Survey]:
    seen: list[Survey] = []

    def wanted(name: str) -> Survey | None:
        if rules.sheet not in (None, name) or any(not survey.empty for survey in seen):
            return None
        seen.append(_blank_survey(place, name, rules))
        return seen[-1]

    with zipfile.ZipFile(place) as archive:
        return scan_ods.survey_document(archive, wanted)


def _survey_xls(place: Path, rules: Rules) -> dict[str, Survey]:
    # This format holds at most 65,536 rows, and always the values of its formulas: the library may load it.
    surveys: dict[str, Survey] = {}
    with open_book(place) as book:
        for name in book.sheet_names:
            surveys[name] = _blank_survey(place, name, rules)
            sheet = book.get_sheet_by_name(name)
            for corner in (sheet.start, sheet.end):
                if corner is not None and rules.sheet in (None, name):
                    surveys[name].see(*corner)
    return surveys


def _survey_csv(place: Path, rules: Rules) -> dict[str, Survey]:
    name = rules.sheet or place.stem
    survey = _blank_survey(place, place.stem, rules)
    delimited.survey_records(place, survey)
    return {name: survey}


_SURVEYORS: dict[Kind, Callable[[Path, Rules], dict[str, Survey]]] = {
    "xlsx": _survey_xlsx,
    "xls": _survey_xls,
    "ods": _survey_ods,
    "csv": _survey_csv,
}


def _blank_survey(place: Path, sheet: str, rules: Rules) -> Survey:
    return Survey(f"sheet {sheet!r} of {place}", rules.max_rows)


def _first_used(place: Path, rules: Rules, surveys: dict[str, Survey]) -> tuple[str, Survey]:
    if rules.sheet is not None and rules.sheet not in surveys:
        raise _no_sheet(place, rules.sheet, list(surveys))
    for name, survey in surveys.items():
        if not survey.empty:
            return name, survey
    raise WorkbookError("workbook_no_rows", f"{place} has no sheet with rows; the first row with text is the header")


def _no_sheet(place: Path, name: str, others: Sequence[str]) -> WorkbookError:
    listed = f"it has {', '.join(map(repr, others))}; " if others else ""
    return WorkbookError("workbook_no_sheet", f"{place} has no sheet {name!r}; {listed}mend the setting sheet")


@contextmanager
def _one_line(place: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes the libraries raise into one line."""
    faults = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OverflowError, ValueError)
    try:
        yield
    except WorkbookError:
        raise
    except (*faults, ET.ParseError, expat.ExpatError) as fault:
        raise unreadable(place, f"it is damaged ({fault})") from fault
