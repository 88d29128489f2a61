"""Rows to kept, merged and rejected, each exactly once: rows in = kept + merged + rejected.

Pure, and in pieces, so that a long-running tool can checkpoint each piece:

    layout, seen, parts = lay_out(sheet, rules), Seen(), []
    for index, rows in enumerate(chunks(sheet.rows)):
        part = ctx.stage(f"rows-{index}", lambda: normalise_chunk(rows, layout, seen))
        seen.add(part)
        parts.append(part)
    whole = combine(parts)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypedDict

from tenure.toolkit.layout import Layout, lay_out
from tenure.toolkit.rules import Rules
from tenure.toolkit.sheet import Row, Sheet, chunks
from tenure.toolkit.values import Cell, as_text, is_blank

MAX_TEXT = 32_767
"""Characters that a cell of a workbook can hold."""
_SHOWN = 200


class Rejection(TypedDict):
    """Why a row is not in the result."""

    row: int
    """The row's number in the source."""
    reason: str
    """`blank`, `formula_without_value`, `bad_<type>` or `too_long`."""
    column: str | None
    value: str | None
    """What was in the cell, at most 200 characters."""


class Part(TypedDict):
    """What became of some rows; JSON as it stands. `rows` = len(kept) + merged + len(rejected)."""

    rows: int
    kept: list[list[Cell]]
    merged: int
    rejected: list[Rejection]


Totals = TypedDict("Totals", {"in": int, "kept": int, "merged": int, "rejected": int})
"""Counts of rows, `in` = `kept` + `merged` + `rejected`."""


class Seen:
    """The rows kept so far, as digests. Fed with stored parts it is what it was before a restart."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._digests: set[bytes] = set()
        for part in parts:
            self.add(part)

    def add(self, part: Part) -> None:
        """Remember the rows that a part kept."""
        self._digests.update(map(_digest, part["kept"]))

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests


def normalise_chunk(rows: Sequence[Row], layout: Layout, seen: Seen) -> Part:
    """What becomes of these rows, after those in `seen` (which stays as it is: `seen.add(part)` is the next step)."""
    kept: dict[bytes, list[Cell]] = {}
    rejected: list[Rejection] = []
    for row in rows:
        verdict = _judge(row, layout)
        if isinstance(verdict, dict):
            rejected.append(verdict)
        else:
            _keep(verdict, row.number, layout.rules, seen, kept)
    merged = len(rows) - len(kept) - len(rejected)
    return Part(rows=len(rows), kept=list(kept.values()), merged=merged, rejected=rejected)


def normalise(sheet: Sheet, rules: Rules | None = None) -> Part:
    """The whole sheet in one go: the same result as piece by piece."""
    layout, seen, parts = lay_out(sheet, rules), Seen(), []
    for rows in chunks(sheet.rows):
        parts.append(normalise_chunk(rows, layout, seen))
        seen.add(parts[-1])
    return combine(parts)


def combine(parts: Iterable[Part]) -> Part:
    """Parts in order as one."""
    whole = Part(rows=0, kept=[], merged=0, rejected=[])
    for part in parts:
        whole["rows"] += part["rows"]
        whole["kept"] += part["kept"]
        whole["merged"] += part["merged"]
        whole["rejected"] += part["rejected"]
    return whole


def totals(part: Part) -> Totals:
    """The counts of a part: `{"in", "kept", "merged", "rejected"}`."""
    kept, rejected = len(part["kept"]), len(part["rejected"])
    return {"in": part["rows"], "kept": kept, "merged": part["merged"], "rejected": rejected}


def _keep(cells: list[Cell], number: int, rules: Rules, seen: Seen, kept: dict[bytes, list[Cell]]) -> None:
    # With equal rows kept apart the row's number makes the key; nothing is then looked up in `seen`.
    key = _digest(cells) if rules.drop_duplicates else number.to_bytes(4)
    if not (rules.drop_duplicates and key in seen):
        kept.setdefault(key, cells)


def _judge(row: Row, layout: Layout) -> list[Cell] | Rejection:
    if row.unvalued is not None:
        return _rejection(row, "formula_without_value", layout.columns[row.unvalued].name)
    cells: list[Cell] = []
    for column, cell in zip(layout.columns, row.cells, strict=True):
        try:
            value = None if is_blank(cell) else column.read(cell)
        except (ValueError, OverflowError):
            return _rejection(row, f"bad_{column.type}", column.name, cell)
        if isinstance(value, str) and len(value) > MAX_TEXT:
            return _rejection(row, "too_long", column.name, cell)
        cells.append(value)
    return cells if any(value is not None for value in cells) else _rejection(row, "blank")


def _rejection(row: Row, reason: str, column: str | None = None, cell: Cell = None) -> Rejection:
    value = None if cell is None else as_text(cell)[:_SHOWN]
    return Rejection(row=row.number, reason=reason, column=column, value=value)


def _digest(cells: list[Cell]) -> bytes:
    return blake2b(json.dumps(cells, separators=(",", ":")).encode(), digest_size=16).digest()
