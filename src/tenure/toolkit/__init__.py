"""Real work on workbooks, as plain functions from files to files: tools call them, and so may anyone.

sheet = parse("sales.xlsx", rules := read_rules(settings))
part = normalise(sheet, rules)
layout = lay_out(sheet, rules)
write_workbook("clean.xlsx", layout, part)
write_report("report.html", sheet, layout, part)
"""

from tenure.toolkit.faults import WorkbookError
from tenure.toolkit.layout import Layout, lay_out
from tenure.toolkit.normalise import Part, Rejection, Seen, Totals, combine, normalise, normalise_chunk, totals
from tenure.toolkit.parse import parse
from tenure.toolkit.report import render_report, write_report
from tenure.toolkit.rules import Rules, read_rules
from tenure.toolkit.scan import Scan, scan
from tenure.toolkit.sheet import Row, Sheet, chunks, load_sheet, save_sheet
from tenure.toolkit.workbook import Change, edit_in_place, write_workbook

__all__ = [
    "Change",
    "Layout",
    "Part",
    "Rejection",
    "Row",
    "Rules",
    "Scan",
    "Seen",
    "Sheet",
    "Totals",
    "WorkbookError",
    "chunks",
    "combine",
    "edit_in_place",
    "lay_out",
    "load_sheet",
    "normalise",
    "normalise_chunk",
    "parse",
    "read_rules",
    "render_report",
    "save_sheet",
    "scan",
    "totals",
    "write_report",
    "write_workbook",
]
