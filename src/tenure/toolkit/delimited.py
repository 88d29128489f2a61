"""Text files with a delimiter (CSV, TSV): encoding and delimiter are found out, records are streamed."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.toolkit.faults import WorkbookError
from tenure.toolkit.survey import Survey

SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
_DELIMITERS = ",;\t|"
_SAMPLE = 50
_PIECE = 1 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def records(path: Path) -> Iterator[list[str]]:
    """Every record of the file, blank lines as empty ones. UTF-8, UTF-16 with a mark, else Windows-1251.

    Raises `WorkbookError` (`workbook_not_readable`) for what is no text or no table.
    """
    with readable(path):
        encoding = _encoding(path)
        delimiter = _delimiter(path, encoding)
        with path.open(encoding=encoding, newline="") as lines:
            yield from csv.reader(lines, delimiter=delimiter)


def survey_records(path: Path, survey: Survey) -> None:
    """Fill `survey` from the file's records."""
    for index, record in enumerate(records(path)):
        for column, value in enumerate(record):
            if value and not value.isspace():
                survey.see(index, column)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what the decoder and the csv module raise into one line."""
    try:
        yield
    except (UnicodeError, csv.Error) as fault:
        text = f"{path} is not a readable text table ({fault}); save it as CSV in UTF-8, or as xlsx"
        raise WorkbookError("workbook_not_readable", text) from fault


def _encoding(path: Path) -> str:
    with path.open("rb") as source:
        start = source.read(4)
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    return "utf-8" if _decodes(path, "utf-8") else "cp1251"


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with path.open("rb") as source:
            while piece := source.read(_PIECE):
                decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _delimiter(path: Path, encoding: str) -> str:
    """The one that cuts the first records most evenly into more than one field; a comma if none does."""
    return max(_DELIMITERS, key=lambda delimiter: _evenness(path, encoding, delimiter))


def _evenness(path: Path, encoding: str, delimiter: str) -> tuple[float, int]:
    with path.open(encoding=encoding, newline="") as lines:
        sample = list(itertools.islice(csv.reader(lines, delimiter=delimiter), _SAMPLE))
    widths = Counter(len(record) for record in sample if any(record))
    width, count = widths.most_common(1)[0] if widths else (1, 0)
    return (count / widths.total(), width) if width > 1 else (0.0, 0)
