"""The report on a cleaned workbook: one HTML file that needs nothing else and runs nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from html import escape

from tenure.toolkit.chart import Bars, bar_chart
from tenure.toolkit.labels import LABELS, Labels, spelled
from tenure.toolkit.layout import Layout
from tenure.toolkit.normalise import Part, totals
from tenure.toolkit.outputs import PathLike, write_text_whole
from tenure.toolkit.sheet import Sheet

EXAMPLES = 50
"""Rejected rows, other than blank ones, that the report shows; the workbook has them all."""
_MONTHS = 36

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5b6677;--line:#dde2ea;--page:#f6f7f9;--card:#fff;--bar:#3467c8}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf1;--soft:#98a3b5;--line:#303847;--page:#12161d;--card:#1b212b;--bar:#7ba3f2}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,Roboto,"DejaVu Sans",sans-serif}
main{max-width:960px;margin:0 auto;padding:32px 20px 64px}
h1{margin:0;font-size:28px;line-height:1.2;overflow-wrap:anywhere}h2{margin:0 0 12px;font-size:18px}
p{margin:4px 0 0;color:var(--soft);overflow-wrap:anywhere}
section{margin-top:24px;padding:20px;background:var(--card);border:1px solid var(--line);border-radius:12px}
section{overflow-x:auto}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:24px 0 0}
dl div{padding:16px 20px;background:var(--card);border:1px solid var(--line);border-radius:12px}
dt{color:var(--soft);font-size:14px}dd{margin:0;font-size:28px;font-weight:600;font-variant-numeric:tabular-nums}
table{width:100%;border-collapse:collapse;font-size:14px}
th,td{padding:6px 12px 6px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
td{overflow-wrap:anywhere}th{color:var(--soft);font-weight:500}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr:last-child td{border-bottom:0}
svg{display:block;width:100%;min-width:560px;height:auto}svg text{fill:var(--soft);font-size:12px}
.bar{fill:var(--bar)}.grid{stroke:var(--line)}.zero{stroke:var(--soft)}
@media print{section,dl div{break-inside:avoid}}
"""


def write_report(path: PathLike, sheet: Sheet, layout: Layout, part: Part) -> None:
    """Write the report to an HTML file, whole or not at all."""
    write_text_whole(path, render_report(sheet, layout, part))


def render_report(sheet: Sheet, layout: Layout, part: Part) -> str:
    """The report's HTML in the language of the rules: totals, a chart, reasons, examples, columns.

    Everything from the workbook is escaped text. Equal input makes equal text: there is no time of making in it.
    """
    labels = LABELS[layout.rules.language]
    title = layout.rules.title or labels.title
    source = labels.source.format(file=sheet.source, sheet=sheet.name)
    sections = (
        _chart(layout, part, labels),
        _reasons(part, labels),
        _examples(part, labels),
        _columns(layout, part, labels),
    )
    return (
        f'<!doctype html>\n<html lang="{layout.rules.language}">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(source)}</p>\n{_totals(part, labels)}{''.join(sections)}"
        "</main>\n</body>\n</html>\n"
    )


def sums_by_period(layout: Layout, part: Part) -> tuple[str, str, list[tuple[str, float]]] | None:
    """The last declared number column, summed by month of the first declared date column: both names and the sums.

    Periods are `2025-03`, or `2025` if there are more than 36 months; they are in order. None if a column is missing or
    no row has both.
    """
    dates, numbers = _places(layout, ("date", "datetime")), _places(layout, ("number",))
    if not dates or not numbers:
        return None
    date, number = dates[0], numbers[-1]
    by_month: defaultdict[str, float] = defaultdict(float)
    for cells in part["kept"]:
        day, amount = cells[date], cells[number]
        if isinstance(day, str) and isinstance(amount, int | float):
            by_month[day[:7]] += amount
    names = layout.columns[number].name, layout.columns[date].name
    return (*names, _by_year_if_long(by_month)) if by_month else None


def _places(layout: Layout, types: tuple[str, ...]) -> list[int]:
    return [index for index, column in enumerate(layout.columns) if column.type in types]


def _by_year_if_long(by_month: Mapping[str, float]) -> list[tuple[str, float]]:
    if len(by_month) <= _MONTHS:
        return sorted(by_month.items())
    by_year: defaultdict[str, float] = defaultdict(float)
    for month, amount in by_month.items():
        by_year[month[:4]] += amount
    return sorted(by_year.items())


def _totals(part: Part, labels: Labels) -> str:
    counts = totals(part)
    pairs = (
        (labels.rows_in, counts["in"]),
        (labels.kept, counts["kept"]),
        (labels.merged, counts["merged"]),
        (labels.rejected, counts["rejected"]),
    )
    cards = "".join(f"<div><dt>{name}</dt><dd>{spelled(count, labels)}</dd></div>" for name, count in pairs)
    return f"<dl>{cards}</dl>\n"


def _chart(layout: Layout, part: Part, labels: Labels) -> str:
    sums = sums_by_period(layout, part)
    if sums is None:
        return _reasons_chart(part, labels)
    number, date, bars = sums
    heading = labels.by_month if len(bars[0][0]) == 7 else labels.by_year
    return _charted(heading.format(number=number, date=date), bars, labels)


def _reasons_chart(part: Part, labels: Labels) -> str:
    counts = [(labels.names.get(reason, reason), float(count)) for reason, count in _reason_counts(part)]
    return _charted(labels.reasons, counts, labels) if counts else ""


def _charted(heading: str, bars: Bars, labels: Labels) -> str:
    return _section(heading, bar_chart(bars, heading, partial(spelled, labels=labels)))


def _reason_counts(part: Part) -> list[tuple[str, int]]:
    counts = Counter(rejection["reason"] for rejection in part["rejected"])
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _reasons(part: Part, labels: Labels) -> str:
    counts = _reason_counts(part)
    if not counts:
        return _section(labels.reasons, f"<p>{labels.nothing_rejected}</p>")
    rows = ((labels.names.get(reason, reason), spelled(count, labels)) for reason, count in counts)
    return _section(labels.reasons, _table((labels.reason, labels.rows), rows, numeric=(1,)))


def _examples(part: Part, labels: Labels) -> str:
    rejected = [rejection for rejection in part["rejected"] if rejection["reason"] != "blank"]
    if not rejected:
        return ""
    heads = (labels.row, labels.reason, labels.column, labels.value)
    rows = (
        (str(one["row"]), labels.names.get(one["reason"], one["reason"]), one["column"] or "", one["value"] or "")
        for one in rejected[:EXAMPLES]
    )
    note = labels.of_many.format(shown=EXAMPLES, all=spelled(len(rejected), labels))
    return _section(labels.examples, _table(heads, rows) + (f"<p>{note}</p>" if len(rejected) > EXAMPLES else ""))


def _columns(layout: Layout, part: Part, labels: Labels) -> str:
    filled = [0] * len(layout.columns)
    for cells in part["kept"]:
        for index, value in enumerate(cells):
            filled[index] += value is not None
    rows = (
        (
            column.name,
            labels.names.get(column.type, column.type) if column.type else labels.as_is,
            spelled(count, labels),
        )
        for column, count in zip(layout.columns, filled, strict=True)
    )
    return _section(labels.columns, _table((labels.column, labels.type, labels.filled), rows, numeric=(2,)))


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{body}</section>\n"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], numeric: tuple[int, ...] = ()) -> str:
    head = "".join(f"<th{_class(index, numeric)}>{escape(name)}</th>" for index, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{_class(index, numeric)}>{escape(cell)}</td>" for index, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _class(index: int, numeric: tuple[int, ...]) -> str:
    return ' class="n"' if index in numeric else ""
