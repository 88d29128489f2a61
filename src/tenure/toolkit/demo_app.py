"""The app of `tenure demo`: "clean this workbook by the project's settings and report", as five steps.

    parse → normalise → draft report → (a person agrees) → publish workbook and report

An app like any other: `tenure worker tenure.toolkit.demo_app:app` runs its tools.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tenure import From, Step, Steps, Tenure, ToolContext, TurnView
from tenure.canon import digest
from tenure.toolkit import (
    Layout,
    Part,
    Rules,
    Seen,
    Sheet,
    combine,
    lay_out,
    load_sheet,
    normalise_chunk,
    read_rules,
    save_sheet,
    totals,
    write_workbook,
)
from tenure.toolkit import parse as parse_workbook
from tenure.toolkit.report import render_report

HOLD = "TENURE_DEMO_HOLD"
"""A session: normalise waits inside the middle piece of its file to be killed. Only `tenure demo` sets it, and only for
the worker that it kills: so the kill hits the middle, however small the file and however fast the machine."""

PIECES, LARGEST = 10, 2_000
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

app = Tenure()
_tool = partial(app.tool, lease="6s", heartbeat="1s", missed=1, margin="2s")


class Parsed(BaseModel):
    """A sheet as it was read, in an artifact."""

    sheet_id: str
    sheet: str
    rows: int


class Normalised(BaseModel):
    """What became of the rows, in an artifact. `rows`: in, kept, merged, rejected."""

    part_id: str
    rows: dict[str, int]


class Drafted(BaseModel):
    """The report that a person reads before agreeing."""

    report_id: str


class Published(BaseModel):
    """What is there to be used."""

    workbook_id: str
    report_id: str


@_tool(mode="read")
def parse(ctx: ToolContext, file_id: str, name: str) -> Parsed:
    """Reads the workbook's first sheet with anything in it."""
    with _named(ctx.artifact_path(file_id), name) as source:
        sheet = parse_workbook(source, read_rules(ctx.settings))
    ctx.progress(0.8)
    with _drafted("sheet.jsonl") as draft:
        save_sheet(sheet, draft)
        stored = ctx.artifact("sheet.jsonl", draft, "application/jsonl")
    return Parsed(sheet_id=stored.artifact_id, sheet=sheet.name, rows=len(sheet.rows))


@_tool()
def normalise(ctx: ToolContext, sheet_id: str) -> Normalised:
    """Judges every row by the project's settings, piece by piece: each piece is a stage, kept across attempts."""
    sheet, rules = _loaded(ctx, sheet_id)
    settings = digest(dict(ctx.settings))
    layout = lay_out(sheet, rules)
    ctx.stage("columns", lambda *_: [column.name for column in layout.columns], sheet_id, settings)
    pieces, size = pieces_of(len(sheet.rows))
    seen, parts = Seen(), list[Part]()
    for place in range(pieces):
        ctx.progress(place / pieces, piece=place + 1, pieces=pieces)
        first, last = place * size, min((place + 1) * size, len(sheet.rows))
        piece = _Piece(ctx, sheet, layout, seen, place + 1 == middle_of(pieces))
        parts.append(ctx.stage("rows", piece.judge, sheet_id, settings, first, last, part=str(place + 1)))
        seen.add(parts[-1])
    whole = combine(parts)
    stored = ctx.artifact("rows.json", json.dumps(whole, ensure_ascii=False).encode(), "application/json")
    return Normalised(part_id=stored.artifact_id, rows=_counts(whole))


@dataclass(frozen=True, slots=True)
class _Piece:
    """One piece of normalise, as a stage runs it."""

    ctx: ToolContext
    sheet: Sheet
    layout: Layout
    seen: Seen
    is_middle: bool

    def judge(self, sheet_id: str, settings: str, first: int, last: int) -> Part:
        while self.is_middle and os.environ.get(HOLD) == self.ctx.session_id and not self.ctx.cancelled:
            time.sleep(0.05)
        return normalise_chunk(self.sheet.rows[first:last], self.layout, self.seen)


@_tool(mode="read")
def draft(ctx: ToolContext, sheet_id: str, part_id: str, name: str) -> Drafted:
    """Writes the report that a person is to read before anything is published."""
    sheet, rules = _loaded(ctx, sheet_id)
    text = render_report(sheet, lay_out(sheet, rules), _part(ctx, part_id))
    stored = ctx.artifact(f"{_stem(name)}-draft.html", text.encode(), "text/html")
    return Drafted(report_id=stored.artifact_id)


@_tool(approval="required", writes="output")
def publish(
    ctx: ToolContext, sheet_id: str, part_id: str, report_id: str, name: str, rows: dict[str, int]
) -> Published:
    """Publishes the clean workbook, and the report exactly as it was drafted."""
    sheet, rules = _loaded(ctx, sheet_id)

    def workbook(*_: str) -> str:
        with _drafted("clean.xlsx") as place:
            write_workbook(place, lay_out(sheet, rules), _part(ctx, part_id))
            return ctx.artifact(f"{_stem(name)}-clean.xlsx", place, XLSX).artifact_id

    def report(drafted_id: str) -> str:
        return ctx.artifact(f"{_stem(name)}-report.html", ctx.artifact_path(drafted_id), "text/html").artifact_id

    workbook_id = ctx.stage("workbook", workbook, sheet_id, part_id)
    ctx.progress(0.9)
    return Published(workbook_id=workbook_id, report_id=ctx.stage("report", report, report_id))


@app.recipe("clean")
def clean(turn: TurnView) -> Steps:
    """The plan. `turn.input`: `{"file_id", "name"}` of the workbook."""
    file_id, name = turn.input["file_id"], turn.input["name"]
    sheet, rows = From("parse.sheet_id"), From("normalise.part_id")
    return Steps(
        Step("parse", parse, file_id=file_id, name=name),
        Step("normalise", normalise, sheet_id=sheet),
        Step("draft", draft, sheet_id=sheet, part_id=rows, name=name),
        Step(
            "publish",
            publish,
            sheet_id=sheet,
            part_id=rows,
            report_id=From("draft.report_id"),
            name=name,
            rows=From("normalise.rows"),
        ),
    )


def pieces_of(rows: int) -> tuple[int, int]:
    """In how many pieces so many rows are judged, and how large each is: ten of a small file, one of a single row."""
    size = min(max(math.ceil(rows / PIECES), 1), LARGEST)
    return math.ceil(rows / size), size


def middle_of(pieces: int) -> int:
    """The piece, from 1, in which the demo kills a worker."""
    return pieces // 2 + 1


def _counts(part: Part) -> dict[str, int]:
    counts: Mapping[str, Any] = totals(part)
    return dict(counts)


def _loaded(ctx: ToolContext, sheet_id: str) -> tuple[Sheet, Rules]:
    return load_sheet(ctx.artifact_path(sheet_id)), read_rules(ctx.settings)


def _part(ctx: ToolContext, part_id: str) -> Part:
    part: Part = json.loads(ctx.artifact_path(part_id).read_bytes())
    return part


def _stem(name: str) -> str:
    return Path(name).stem


@contextmanager
def _named(stored: Path, name: str) -> Iterator[Path]:
    """A stored file under the name that its giver knows it by: reports name their source."""
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        place = Path(folder) / name
        place.symlink_to(stored)
        yield place


@contextmanager
def _drafted(name: str) -> Iterator[Path]:
    """A path in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        yield Path(folder) / name
