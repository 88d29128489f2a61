"""Written workbooks, judged by openpyxl: typed, inert, whole, the same bytes for the same input."""

from __future__ import annotations

import zipfile
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest

from tenure.toolkit import (
    Change,
    Row,
    Sheet,
    WorkbookError,
    edit_in_place,
    lay_out,
    normalise,
    parse,
    read_rules,
    write_workbook,
)
from tenure.toolkit.outputs import written_whole
from tests.toolkit.makers import make_book, make_encrypted, make_xls

DAY = datetime.fromisoformat("2025-03-05")
HOSTILE = (
    "=cmd()|' /C calc'!A0",
    "@SUM(1)",
    "+1+1",
    "-2",
    "javascript:alert(1)",
    "http://evil.example/",
    "<script>alert(1)</script>",
)
RULES = read_rules({"columns": {"Day": {"type": "date"}, "Amount": {"type": "number"}, "Paid": {"type": "boolean"}}})
SHEET = Sheet(
    "f.xlsx",
    "S",
    1,
    ["Day", "Amount", "Paid", "Note", "Seen"],
    [None, None, None, None, "datetime"],
    [
        Row(2, ["5 марта 2025", "1 234,56", "да", "  =1+1", "2025-03-05T14:30:00"]),
        Row(3, ["2025-03-05", 7, "нет", None, None]),
        Row(4, ["soon", 7, "нет", None, None]),
        *(Row(number, [None, None, None, text, None]) for number, text in enumerate((*HOSTILE, "_x0041_"), 5)),
    ],
)


def write(path: Path, sheet: Sheet = SHEET) -> Path:
    write_workbook(path, lay_out(sheet, RULES), normalise(sheet, RULES))
    return path


def test_round_trip(tmp_path: Path) -> None:
    book = openpyxl.load_workbook(write(tmp_path / "clean.xlsx"))
    assert book.sheetnames == ["Clean", "Rejected"]
    rows = list(book["Clean"].iter_rows(values_only=True))
    assert rows[0] == ("Day", "Amount", "Paid", "Note", "Seen")
    assert rows[1] == (DAY, 1234.56, True, "=1+1", datetime.fromisoformat("2025-03-05T14:30"))
    assert rows[2] == (DAY, 7, False, None, None)
    assert list(book["Rejected"].iter_rows(values_only=True))[:2] == [
        ("Row", "Reason", "Column", "Value"),
        (4, "bad_date", "Day", "soon"),
    ]
    assert book["Clean"]["A2"].is_date


def test_our_own_result_reads_back_as_it_was_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "clean.xlsx")
    assert normalise(parse(path), RULES)["kept"] == normalise(SHEET, RULES)["kept"]


def test_hostile_text_is_text(tmp_path: Path) -> None:
    path = write(tmp_path / "clean.xlsx")
    book = openpyxl.load_workbook(path)
    notes = [row[3] for row in book["Clean"].iter_rows(min_row=4, max_row=3 + len(HOSTILE))]
    assert tuple(cell.value for cell in notes) == HOSTILE
    assert {cell.data_type for cell in notes} == {"s"}
    assert all(cell.hyperlink is None for cell in notes)
    with zipfile.ZipFile(path) as archive:
        sheets = [archive.read(name) for name in archive.namelist() if name.startswith("xl/worksheets/")]
    assert not any(b"<f>" in xml or b"hyperlink" in xml for xml in sheets)


def test_equal_input_makes_equal_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "a.xlsx").read_bytes() == write(tmp_path / "b.xlsx").read_bytes()


def test_edit_in_place_preserves_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path / "clean.xlsx")
    changes = [Change("Clean", "B2", 5), Change("Clean", "D3", "=cmd()"), Change("Rejected", "D2", None)]
    edit_in_place(path, path, changes)
    before, after = list(openpyxl.load_workbook(write(tmp_path / "b.xlsx"))), list(openpyxl.load_workbook(path))
    changed = {
        (sheet.title, cell.coordinate)
        for old, sheet in zip(before, after, strict=True)
        for row in old.iter_rows()
        for cell in row
        if (sheet[cell.coordinate].value, sheet[cell.coordinate].number_format) != (cell.value, cell.number_format)
    }
    assert changed == {("Clean", "B2"), ("Clean", "D3"), ("Rejected", "D2")}
    assert (after[0]["B2"].value, after[0]["D3"].value, after[0]["D3"].data_type) == (5, "=cmd()", "s")


def test_edit_in_place_keeps_formulas(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet["A1"], sheet["A2"], sheet["A3"] = "Sum", 1, "=A2*2"
    book.save(tmp_path / "f.xlsx")
    edit_in_place(tmp_path / "f.xlsx", tmp_path / "g.xlsx", [Change(sheet.title, "A2", 4)])
    assert [row[0] for row in openpyxl.load_workbook(tmp_path / "g.xlsx").worksheets[0].values] == ["Sum", 4, "=A2*2"]


@pytest.mark.parametrize(
    "change",
    [
        Change("No", "A1", 1),
        Change("S", "A0", 1),
        Change("S", "XFE1", 1),
        Change("S", "A1:B2", 1),
        Change("S", "A1048577", 1),
    ],
)
def test_a_change_that_has_no_place(tmp_path: Path, change: Change) -> None:
    path = make_book(tmp_path / "a.xlsx", S=[["A"], [1]])
    with pytest.raises(WorkbookError) as refused:
        edit_in_place(path, tmp_path / "out.xlsx", [change])
    assert refused.value.code == "workbook_change_invalid"
    assert not (tmp_path / "out.xlsx").exists()


def test_only_xlsx_is_edited(tmp_path: Path) -> None:
    for path, code in (
        (make_xls(tmp_path / "a.xls"), "workbook_not_readable"),
        (make_encrypted(tmp_path / "b.xlsx"), "workbook_encrypted"),
    ):
        with pytest.raises(WorkbookError) as refused:
            edit_in_place(path, tmp_path / "out.xlsx", [])
        assert refused.value.code == code


def fail_halfway(target: Path) -> None:
    with written_whole(target) as draft:
        draft.write_text("half", encoding="utf-8")
        raise RuntimeError("halfway")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.xlsx"
    target.write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError, match="halfway"):
        fail_halfway(target)
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("place", ["no/such/folder/out.xlsx", "."])
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    with pytest.raises(WorkbookError) as refused:
        write(tmp_path / place)
    assert refused.value.code == "output_not_writable"
    assert list(tmp_path.iterdir()) == []
