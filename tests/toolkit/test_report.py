"""The report: one page that needs nothing, runs nothing and tells the truth in two languages."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tenure.toolkit import Row, Sheet, lay_out, normalise, read_rules, render_report, write_report
from tenure.toolkit.chart import bar_chart
from tenure.toolkit.report import sums_by_period
from tenure.toolkit.values import Cell

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">'


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def sheet_of(*rows: list[Cell], header: tuple[str, ...] = ("Day", "Price", "Amount", "Note")) -> Sheet:
    body = [Row(number, cells) for number, cells in enumerate(rows, 2)]
    return Sheet(HOSTILE, HOSTILE, 1, list(header), [None] * len(header), body)


def render(sheet: Sheet, **settings: object) -> str:
    rules = read_rules(settings)
    return render_report(sheet, lay_out(sheet, rules), normalise(sheet, rules))


COLUMNS = {"Day": {"type": "date"}, "Price": {"type": "number"}, "Amount": {"type": "number"}}
ROWS: list[list[Cell]] = [
    ["2025-01-05", 1, 10, HOSTILE],
    ["2025-01-09", 1, 5.5, None],
    ["2025-02-01", 1, -3, None],
    [HOSTILE, 1, 1, None],
    [None, None, None, None],
    ["2025-02-01", 1, -3, None],
]


@pytest.mark.parametrize("language", ["en", "ru"])
def test_nothing_of_the_workbook_is_markup(language: str) -> None:
    sheet = sheet_of(*ROWS, header=("Day", "Price", "Amount", HOSTILE))
    page = render(sheet, columns=COLUMNS, language=language, title=HOSTILE)
    tags = Tags()
    tags.feed(page)
    names = {name for name, _ in tags.tags}
    assert names.isdisjoint({"script", "img", "a", "link", "iframe", "object"})
    attributes = {key for _, given in tags.tags for key in given}
    assert not any(key.startswith("on") or key in ("src", "href", "style") for key in attributes)
    assert ("html", {"lang": language}) in tags.tags
    assert "&lt;script&gt;" in page


def test_the_page_is_well_formed_and_asks_for_nothing() -> None:
    page = render(sheet_of(*ROWS), columns=COLUMNS)
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert len(ET.fromstring(svg).findall("rect")) == 2
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert "url(" not in page
    assert "prefers-color-scheme:dark" in page


def test_totals_and_reasons_are_shown() -> None:
    page = render(sheet_of(*ROWS), columns=COLUMNS)
    for name, count in (("Rows in", 6), ("Kept", 3), ("Merged", 1), ("Rejected", 2)):
        assert f"<dt>{name}</dt><dd>{count}</dd>" in page
    assert '<td>not a date</td><td class="n">1</td>' in page
    assert '<td>blank row</td><td class="n">1</td>' in page
    assert "Строк на входе" in render(sheet_of(*ROWS), columns=COLUMNS, language="ru")


def test_the_chart_sums_the_last_number_by_month_and_by_year_when_long() -> None:
    rules = read_rules({"columns": COLUMNS})
    sheet = sheet_of(*ROWS)
    assert sums_by_period(lay_out(sheet, rules), normalise(sheet, rules)) == (
        "Amount",
        "Day",
        [("2025-01", 15.5), ("2025-02", -3)],
    )
    months: list[list[Cell]] = [
        [f"{year}-{month:02}-01", 1, 2, None] for year in range(2020, 2024) for month in range(1, 13)
    ]
    sheet = sheet_of(*months)
    sums = sums_by_period(lay_out(sheet, rules), normalise(sheet, rules))
    assert sums is not None
    assert sums[2] == [(str(year), 24) for year in range(2020, 2024)]


def test_without_declared_columns_the_chart_shows_reasons_or_nothing() -> None:
    assert "<svg" in render(sheet_of([None] * 4, [1, 2, 3, 4]))
    clean = render(sheet_of([1, 2, 3, 4]))
    assert "<svg" not in clean
    assert "No row was rejected." in clean


def test_a_long_list_of_rejected_rows_is_cut_and_says_so() -> None:
    rows: list[list[Cell]] = [[f"bad {number}", 1, 1, None] for number in range(80)]
    page = render(sheet_of(*rows), columns=COLUMNS)
    assert "The first 50 of 80" in page
    assert "bad 49" in page
    assert "bad 50" not in page


@pytest.mark.parametrize(
    "values",
    [[0.0], [0.0, 0.0], [-5.0, -1.0], [1e-7, 2e-7], [1e15, -1e15], [1e300, 1.0], [float(n) for n in range(400)]],
)
def test_any_values_make_bars_inside_the_frame(values: list[float]) -> None:
    svg = ET.fromstring(bar_chart([(f"<{index}>", value) for index, value in enumerate(values)], "t & t", str))
    bars = svg.findall("rect")
    assert len(bars) == len(values)
    for bar in bars:
        assert float(bar.attrib["width"]) > 0
        assert 0 <= float(bar.attrib["y"]) <= float(bar.attrib["y"]) + float(bar.attrib["height"]) <= 280
    assert 2 <= len(svg.findall("line")) <= 12


def test_the_file_is_the_text(tmp_path: Path) -> None:
    sheet = sheet_of(*ROWS)
    layout, part = lay_out(sheet), normalise(sheet)
    write_report(tmp_path / "r.html", sheet, layout, part)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == render_report(sheet, layout, part)
    assert len(list(tmp_path.iterdir())) == 1
