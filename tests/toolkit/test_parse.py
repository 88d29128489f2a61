"""Reading real files of each kind: the right sheet, the right rows, nothing lost."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest

from tenure.toolkit import Sheet, load_sheet, normalise, parse, read_rules, save_sheet, scan, totals
from tests.toolkit.makers import make_book, make_ods, make_raw_book, make_xls, ods_text


def cells(sheet: Sheet) -> list[list[object]]:
    return [list(row.cells) for row in sheet.rows]


def test_the_first_sheet_with_anything_in_it(tmp_path: Path) -> None:
    path = make_book(
        tmp_path / "a.xlsx", Empty=[], Sales=[["A", "B"], ["x", 1], [None, None], ["y", 2.5]], Later=[["C"], [1]]
    )
    sheet = parse(path)
    assert (sheet.source, sheet.name, sheet.header_row, sheet.header) == ("a.xlsx", "Sales", 1, ["A", "B"])
    assert cells(sheet) == [["x", 1], [None, None], ["y", 2.5]]
    assert [row.number for row in sheet.rows] == [2, 3, 4]
    assert parse(path, read_rules({"sheet": "Later"})).header == ["C"]
    assert scan(path).rows == 3


def test_a_table_that_does_not_begin_in_the_corner(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [None],
        [None, " "],
        [None, None, "A", None, "B"],
        [None, None, 1, None, 2],
        [None, None, None],
        [None, None, None, None, 3],
    ]
    sheet = parse(make_book(tmp_path / "a.xlsx", S=rows))
    assert (sheet.header_row, sheet.header[-2:]) == (3, ["A", "B"])
    assert [row.cells[-2:] for row in sheet.rows] == [[1, 2], [None, None], [None, 3]]


def test_headers_get_a_name_each(tmp_path: Path) -> None:
    path = make_book(tmp_path / "a.xlsx", S=[["Price", " price", None, 2025], [1, 2, 3, 4]])
    assert parse(path).header == ["Price", "price (2)", "Column 3", "2025"]


def test_kinds_of_cells_and_columns_that_are_dates(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["D", "T", "Mixed", "Yes"],
        [date(2025, 3, 5), date(2025, 3, 5), date(2025, 3, 5), True],
        [None, None, "soon", False],
    ]
    path = make_book(tmp_path / "a.xlsx", S=rows)
    sheet = parse(path)
    assert cells(sheet)[0] == ["2025-03-05", "2025-03-05", "2025-03-05", True]
    assert sheet.styles == ["date", "date", None, None]
    timed = parse(
        make_book(tmp_path / "t.xlsx", S=[["T"], [datetime.fromisoformat("2025-03-05T14:30")], [date(2025, 3, 6)]])
    )
    assert cells(timed) == [["2025-03-05T14:30:00"], ["2025-03-06"]]
    assert timed.styles == ["datetime"]


FORMULAS = (
    b'<row r="1"><c r="A1" t="inlineStr"><is><t>A</t></is></c><c r="B1" t="inlineStr"><is><t>B</t></is></c></row>'
    b'<row r="2"><c r="A2"><v>1</v></c><c r="B2"><f>A2*2</f><v>2</v></c></row>'
    b'<row r="3"><c r="A3"><v>2</v></c><c r="B3"><f>A3*2</f></c></row>'
    b'<row r="4"><c r="A4"><v>3</v></c><c r="B4"><f>A4*2</f><v></v></c></row>'
    b'<row r="5"><c r="A5"><v>4</v></c><c r="B5" t="str"><f>""</f><v></v></c></row>'
    b'<row r="6"><c r="A6"><v>5</v></c><c r="B6" t="e"><f>1/0</f><v>#DIV/0!</v></c></row>'
    b'<row r="7"><c r="A7"><v>6</v></c><c r="B7"><f t="shared" si="0"/><v>0</v></c></row>'
    b'<row r="9"><c r="B9"><f>A9</f></c></row>'
    b'<row r="10"><c r="A10" s="0"/></row>'
)


def test_formulas_without_a_value_and_errors_are_seen(tmp_path: Path) -> None:
    path = make_raw_book(tmp_path / "f.xlsx", [FORMULAS])
    sheet = parse(path)
    assert cells(sheet) == [[1, 2], [2, None], [3, None], [4, None], [5, "#DIV/0!"], [6, 0], [None, None], [None, None]]
    assert [row.number for row in sheet.rows if row.unvalued == 1] == [3, 4, 9]
    part = normalise(sheet, read_rules({"columns": {"B": {"type": "number"}}}))
    assert totals(part) == {"in": 8, "kept": 3, "merged": 0, "rejected": 5}
    assert [(one["row"], one["reason"]) for one in part["rejected"]] == [
        (3, "formula_without_value"),
        (4, "formula_without_value"),
        (6, "bad_number"),
        (8, "blank"),
        (9, "formula_without_value"),
    ]


def test_prefixed_xml_without_references(tmp_path: Path) -> None:
    path = make_raw_book(
        tmp_path / "p.xlsx",
        [
            b'<row><c t="inlineStr"><is><t>A</t></is></c><c t="inlineStr"><is><t>B</t></is></c></row>',
            b"<row><c><v>1</v></c><c><f>A2</f></c></row>",
        ],
    )
    found = scan(path)
    assert found.rows == 1
    assert found.survey.unvalued == {1: 1}


def test_xls(tmp_path: Path) -> None:
    sheet = parse(make_xls(tmp_path / "old.xls"))
    assert (sheet.name, sheet.header) == ("Old", ["Name", "Amount", "Day"])
    assert cells(sheet) == [["Ромашка", 12.5, "2025-03-05"], ["x", 7, None]]
    assert sheet.styles == [None, None, "date"]


def test_ods_with_repeats_and_a_formula_without_a_value(tmp_path: Path) -> None:
    table = (
        '<table:table table:name="Empty"><table:table-row><table:table-cell/></table:table-row></table:table>'
        '<table:table table:name="Data">'
        f"<table:table-row>{ods_text('A')}{ods_text('B')}</table:table-row>"
        '<table:table-row table:number-rows-repeated="2">'
        '<table:table-cell office:value-type="float" office:value="3" table:number-columns-repeated="2"/>'
        "</table:table-row>"
        f'<table:table-row>{ods_text("x")}<table:table-cell table:formula="of:=1+1"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1048572">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>'
    )
    sheet = parse(make_ods(tmp_path / "o.ods", table))
    assert (sheet.name, sheet.header) == ("Data", ["A", "B"])
    assert cells(sheet) == [[3, 3], [3, 3], ["x", None]]
    assert [row.unvalued for row in sheet.rows] == [None, None, 1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1251", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_text_tables(tmp_path: Path, encoding: str, delimiter: str) -> None:
    lines = [["Имя", "Сумма, руб"], ["Анна", "1 234,56"], [], ['О"К', "2\nряда"]]
    text = "\r\n".join(delimiter.join(f'"{value.replace(chr(34), chr(34) * 2)}"' for value in line) for line in lines)
    path = tmp_path / "t.csv"
    path.write_bytes((text + "\r\n\r\n").encode(encoding))
    sheet = parse(path)
    assert sheet.header == lines[0]
    assert cells(sheet) == [["Анна", "1 234,56"], [None, None], ['О"К', "2\nряда"]]


def test_a_text_table_of_one_column(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("Name\nAnna\nBoris\n", encoding="utf-8")
    assert cells(parse(path)) == [["Anna"], ["Boris"]]


def test_the_content_counts_not_the_name(tmp_path: Path) -> None:
    path = make_book(tmp_path / "a.csv", S=[["A"], [1]])
    assert cells(parse(path)) == [[1]]


def test_a_sheet_survives_the_way_through_a_file(tmp_path: Path) -> None:
    sheet = parse(make_raw_book(tmp_path / "f.xlsx", [FORMULAS]))
    save_sheet(sheet, tmp_path / "rows.jsonl")
    assert load_sheet(tmp_path / "rows.jsonl") == sheet
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []
