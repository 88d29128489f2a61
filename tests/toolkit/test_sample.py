"""The sample holds every trouble the demo shows, the same each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import openpyxl
from python_calamine import CalamineWorkbook

from tenure.toolkit import lay_out, normalise, parse, read_rules, totals, write_report, write_workbook
from tenure.toolkit.sample import SAMPLE_SETTINGS, make_sample

ROWS = 20_000


def test_the_whole_way(tmp_path: Path) -> None:
    sample = tmp_path / "sales.xlsx"
    make_sample(sample, ROWS)
    rules = read_rules(SAMPLE_SETTINGS)
    sheet = parse(sample, rules)
    part = normalise(sheet, rules)
    counts = totals(part)
    assert counts["in"] == ROWS == counts["kept"] + counts["merged"] + counts["rejected"]
    assert counts["merged"] > 1_000
    reasons = Counter(rejection["reason"] for rejection in part["rejected"])
    assert set(reasons) == {"blank", "bad_date", "bad_number", "formula_without_value"}
    assert all(count > 50 for count in reasons.values())
    layout = lay_out(sheet, rules)
    write_workbook(tmp_path / "clean.xlsx", layout, part)
    write_report(tmp_path / "report.html", sheet, layout, part)
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with CalamineWorkbook.from_path(tmp_path / "clean.xlsx") as book:
        heights = {name: book.get_sheet_by_name(name).height for name in book.sheet_names}
    assert heights == {"Clean": counts["kept"] + 1, "Rejected": counts["rejected"] + 1}


def test_rejected_rows_are_those_that_another_library_sees(tmp_path: Path) -> None:
    sample = tmp_path / "sales.xlsx"
    make_sample(sample, 3_000)
    part = normalise(parse(sample), read_rules())
    judged = {rejection["row"]: rejection["reason"] for rejection in part["rejected"]}
    book = openpyxl.load_workbook(sample, read_only=True, data_only=True)
    expected: dict[int, str] = {}
    for number, row in enumerate(book.worksheets[1].iter_rows(min_row=2, max_col=10, values_only=True), 2):
        if all(value is None or not str(value).strip() for value in row):
            expected[number] = "blank"
        elif row[7] is None:
            expected[number] = "formula_without_value"
    book.close()
    assert judged == expected


def test_any_number_of_rows_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    for rows in (1, 2, 100):
        make_sample(tmp_path / "a.xlsx", rows)
        make_sample(tmp_path / "b.xlsx", rows)
        assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()
        assert len(parse(tmp_path / "a.xlsx").rows) == rows
    make_sample(tmp_path / "b.xlsx", 100, seed=8)
    assert (tmp_path / "a.xlsx").read_bytes() != (tmp_path / "b.xlsx").read_bytes()
