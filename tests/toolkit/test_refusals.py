"""What cannot be used: one line that says what, where and what would be right; nothing written, little memory."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tenure.errors import MissingExtra, TerminalError
from tenure.toolkit import Rules, Sheet, WorkbookError, parse, read_rules, scan
from tenure.toolkit.faults import workbook_extra
from tests.toolkit.makers import (
    make_book,
    make_encrypted,
    make_ods,
    make_raw_book,
    make_xls,
    ods_text,
    raw_rows,
)

MEGABYTES = 600
"""The bound on a process that refuses a sheet of 1,048,576 rows."""


def make_text(path: Path) -> Path:
    path.write_text("just,text\n1,2\n", encoding="utf-8")
    return path


def make_empty(path: Path) -> Path:
    path.touch()
    return path


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def make_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no workbook")
    return path


def make_damaged(path: Path) -> Path:
    make_book(path, S=[["A"], [1]])
    path.write_bytes(path.read_bytes()[:-40])
    return path


def make_bad_xml(path: Path) -> Path:
    return make_raw_book(path, [b'<row r="1"><c r="A1"><v>1</v></row>'])


def make_entity(path: Path) -> Path:
    return make_book_with(path, b'<!DOCTYPE w [<!ENTITY a "aaaa">]><worksheet><sheetData/></worksheet>')


def make_book_with(path: Path, sheet: bytes) -> Path:
    inner = make_raw_book(path.with_suffix(".inner"), [])
    with zipfile.ZipFile(inner) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, sheet if name.endswith("sheet1.xml") else old.read(name))
    return path


def make_far_corners(path: Path) -> Path:
    return make_raw_book(
        path, [b'<row r="1"><c r="A1"><v>1</v></c></row><row r="100000"><c r="XFD100000"><v>1</v></c></row>']
    )


def make_locked_ods(path: Path) -> Path:
    return make_ods(path, "", '<file-entry full-path="content.xml"><encryption-data/></file-entry>')


def make_binary(path: Path) -> Path:
    path.write_bytes(bytes(range(256)) * 10)
    return path


REFUSALS: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("workbook_not_found", "missing.xlsx", lambda path: path, "does not exist"),
    ("workbook_is_directory", "folder.xlsx", make_folder, "is a directory"),
    ("workbook_empty_file", "empty.xlsx", make_empty, "is empty"),
    ("workbook_empty_file", "empty.csv", make_empty, "is empty"),
    ("workbook_not_readable", "text.xlsx", make_text, "not a workbook"),
    ("workbook_not_readable", "archive.xlsx", make_zip, "without a workbook"),
    ("workbook_not_readable", "cut.xlsx", make_damaged, "damaged"),
    ("workbook_not_readable", "xml.xlsx", make_bad_xml, "damaged"),
    ("workbook_not_readable", "entity.xlsx", make_entity, "document type"),
    ("workbook_not_readable", "binary.csv", make_binary, "not a readable text table"),
    ("workbook_encrypted", "locked.xlsx", make_encrypted, "without a password"),
    ("workbook_encrypted", "locked.ods", make_locked_ods, "without a password"),
    ("workbook_no_rows", "none.xlsx", lambda path: make_book(path, A=[], B=[[]]), "no sheet with rows"),
    ("workbook_no_rows", "blank.xlsx", lambda path: make_book(path, A=[[" "], ["A"], ["\u00a0"]]), "no rows below"),
    ("workbook_no_rows", "header.xlsx", lambda path: make_book(path, A=[["A", "B"]]), "no rows below"),
    ("workbook_no_rows", "header.csv", lambda path: path.write_text("a,b\n\n\n"), "no rows below"),
    ("workbook_too_large", "corners.xlsx", make_far_corners, "cells"),
]


@pytest.mark.parametrize(("code", "name", "make", "words"), REFUSALS, ids=[case[1] for case in REFUSALS])
def test_a_file_that_cannot_be_used(
    tmp_path: Path, code: str, name: str, make: Callable[[Path], object], words: str
) -> None:
    path = tmp_path / name
    make(path)
    with pytest.raises(WorkbookError) as refused:
        parse(path)
    assert refused.value.code == code
    assert words in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_sheet_that_is_not_there_is_named_beside_those_that_are(tmp_path: Path) -> None:
    path = make_book(tmp_path / "a.xlsx", One=[["A"], [1]], Two=[])
    for wanted, code in (("Three", "workbook_no_sheet"), ("Two", "workbook_no_rows")):
        with pytest.raises(WorkbookError) as refused:
            parse(path, read_rules({"sheet": wanted}))
        assert refused.value.code == code
    with pytest.raises(WorkbookError, match="'One', 'Two'"):
        parse(path, read_rules({"sheet": "Three"}))


def test_the_limit_is_exact_in_every_kind(tmp_path: Path) -> None:
    row = f'<table:table-row table:number-rows-repeated="6">{ods_text("x")}</table:table-row>'
    table = f'<table:table table:name="S">{row}</table:table>'
    csv = tmp_path / "a.csv"
    csv.write_text("a\n1\n2\n3\n4\n5\n", encoding="utf-8")
    book = make_book(tmp_path / "a.xlsx", S=[["a"], [1], [None], [3], [4], [5]])
    for path, rows in (
        (csv, 5),
        (book, 5),
        (make_ods(tmp_path / "a.ods", table), 5),
        (make_xls(tmp_path / "a.xls"), 2),
    ):
        assert len(parse(path, Rules(max_rows=rows)).rows) == rows
        with pytest.raises(WorkbookError, match=f"more than {rows - 1:,} rows") as refused:
            parse(path, Rules(max_rows=rows - 1))
        assert refused.value.code == "workbook_too_large"


FULL_SHEET = 1_048_576
CHILD = """
import sys
from tenure.toolkit import WorkbookError, parse
try:
    parse(sys.argv[1])
except WorkbookError as refused:
    print(refused.code)
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def make_full_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8") as lines:
        lines.writelines(f"{row},{row},{row},some text\n" for row in range(FULL_SHEET))


def make_full_ods(path: Path) -> None:
    row = f"<table:table-row>{ods_text('some text') * 3}</table:table-row>"
    make_ods(path, f'<table:table table:name="S">{row * FULL_SHEET}</table:table>')


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("full.xlsx", lambda path: make_raw_book(path, raw_rows(FULL_SHEET))),
        ("full.csv", make_full_csv),
        ("full.ods", make_full_ods),
    ],
    ids=["xlsx", "csv", "ods"],
)
def test_a_full_sheet_is_refused_in_little_memory(tmp_path: Path, name: str, make: Callable[[Path], object]) -> None:
    make(tmp_path / name)
    child = subprocess.run([sys.executable, "-c", CHILD, tmp_path / name], capture_output=True, text=True, check=True)
    code, kilobytes = child.stdout.split()
    assert code == "workbook_too_large"
    assert int(kilobytes) < MEGABYTES * 1024
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "make", [lambda path: make_book(path, S=[["A", "B"], ["x", 1], ["y", 2]]), make_xls], ids=["xlsx", "xls"]
)
def test_damage_anywhere_is_one_line_or_a_sheet(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    whole, chance = make(tmp_path / "whole").read_bytes(), random.Random(3)
    for _ in range(150):
        damaged = bytearray(whole[: chance.randint(1, len(whole))] if chance.random() < 0.3 else whole)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path = tmp_path / "damaged.xlsx"
        path.write_bytes(damaged)
        with suppress(WorkbookError):
            assert isinstance(parse(path), Sheet)


def test_a_missing_library_is_one_line_that_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'tenure\[workbook\]'"), workbook_extra():
        raise ImportError("no module named xlsxwriter")


def test_importing_the_toolkit_loads_no_heavy_library() -> None:
    heavy = ("xlsxwriter", "openpyxl", "python_calamine")
    code = f"import sys, tenure.toolkit.sample; print([name for name in {heavy} if name in sys.modules])"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


def test_the_error_is_terminal_and_survives_pickling(tmp_path: Path) -> None:
    with pytest.raises(WorkbookError) as refused:
        scan(tmp_path / "no.xlsx")
    copy = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(copy, TerminalError)
    assert (copy.code, str(copy)) == (refused.value.code, str(refused.value))
