"""Every row is kept, merged or rejected, once; piece by piece is the same as whole."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.toolkit import (
    Part,
    Row,
    Seen,
    Sheet,
    WorkbookError,
    chunks,
    combine,
    lay_out,
    normalise,
    normalise_chunk,
    read_rules,
    totals,
)
from tenure.toolkit.values import Cell

RULES = read_rules(
    {
        "columns": {
            "Date": {"type": "date", "names": ["Дата"]},
            "Amount": {"type": "number", "names": ["Сумма"]},
            "City": {"names": ["Город"], "values": {"Москва": ["Moscow"]}},
        }
    }
)


def sheet_of(*rows: Sequence[Cell], header: Sequence[str] = ("Дата", " СУММА ", "Город", "Note")) -> Sheet:
    body = [Row(number, list(cells)) for number, cells in enumerate(rows, 2)]
    return Sheet("f.xlsx", "S", 1, list(header), [None] * len(header), body)


def test_each_reason_and_the_count() -> None:
    sheet = sheet_of(
        ("05.03.2025", "1 234,56", "Moscow", " a "),
        ("5 марта 2025", 1234.56, "  москва", "a"),
        (None, "", "\u00a0", None),
        ("soon", 1, None, None),
        ("2025-03-05", "1,234", None, None),
        (None, None, None, "x" * 32_768),
        (None, None, None, "kept"),
    )
    sheet.rows.append(Row(9, ["2025-03-05", None, None, None], 1))
    part = normalise(sheet, RULES)
    assert totals(part) == {"in": 8, "kept": 2, "merged": 1, "rejected": 5}
    assert part["kept"] == [["2025-03-05", 1234.56, "Москва", "a"], [None, None, None, "kept"]]
    assert [(one["row"], one["reason"], one["column"], (one["value"] or "")[:5]) for one in part["rejected"]] == [
        (4, "blank", None, ""),
        (5, "bad_date", "Date", "soon"),
        (6, "bad_number", "Amount", "1,234"),
        (7, "too_long", "Note", "xxxxx"),
        (9, "formula_without_value", "Amount", ""),
    ]


def test_without_settings_nothing_is_inferred() -> None:
    part = normalise(
        sheet_of(("05.03.2025", "1,234", " a", 5), ("05.03.2025", "1,234", "a ", 5), ("5 марта", "?", "a", 5))
    )
    assert part["kept"] == [["05.03.2025", "1,234", "a", 5], ["5 марта", "?", "a", 5]]
    assert part["merged"] == 1


def test_equal_rows_can_be_kept_apart() -> None:
    part = normalise(sheet_of((1, 2, 3, 4), (1, 2, 3, 4)), read_rules({"drop_duplicates": False}))
    assert totals(part) == {"in": 2, "kept": 2, "merged": 0, "rejected": 0}


def test_yes_is_not_one() -> None:
    assert totals(normalise(sheet_of((1, None, None, None), (True, None, None, None))))["merged"] == 0


def test_a_declared_column_that_is_missing_is_named() -> None:
    with pytest.raises(WorkbookError) as refused:
        lay_out(sheet_of((1,), header=("Something",)), RULES)
    assert refused.value.code == "workbook_columns_missing"
    assert "'Дата'" in str(refused.value)
    assert "'Something'" in str(refused.value)


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.sampled_from(["", " ", "05.03.2025", "5 Mar 2025", "1 234,5", "1234.5", "Moscow", "москва", "=1+1"]),
    st.text(max_size=5),
)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, st.none() | st.just(1)), max_size=40)


@given(ROWS, st.integers(1, 9), st.booleans(), st.booleans())
def test_accounting_and_pieces(
    rows: list[tuple[Cell, Cell, Cell, Cell, int | None]], size: int, declared: bool, merging: bool
) -> None:
    sheet = sheet_of()
    sheet.rows.extend(Row(number, list(row[:4]), row[4]) for number, row in enumerate(rows, 2))
    rules = read_rules({"drop_duplicates": merging, "columns": {"Дата": {"type": "date"}} if declared else {}})
    whole = normalise(sheet, rules)
    counts = totals(whole)
    assert counts["in"] == len(rows) == counts["kept"] + counts["merged"] + counts["rejected"]
    layout, parts = lay_out(sheet, rules), list[Part]()
    for piece in chunks(sheet.rows, size):
        # As after a restart: what is known of earlier rows comes from stored JSON alone.
        stored: list[Part] = json.loads(json.dumps(parts))
        parts.append(normalise_chunk(piece, layout, Seen(stored)))
    assert combine(json.loads(json.dumps(parts))) == whole


@given(ROWS)
def test_the_result_is_already_normal(rows: list[tuple[Cell, Cell, Cell, Cell, int | None]]) -> None:
    sheet = sheet_of()
    sheet.rows.extend(Row(number, list(row[:4])) for number, row in enumerate(rows, 2))
    kept = normalise(sheet, RULES)["kept"]
    again = normalise(sheet_of(*kept), RULES)
    assert again["kept"] == kept
    assert not again["merged"]
    assert not again["rejected"]
