"""Settings from outside: defaults, and a refusal that names the field."""

from __future__ import annotations

import pytest

from tenure.toolkit import Rules, WorkbookError, read_rules


def test_no_settings_are_the_defaults() -> None:
    assert read_rules() == read_rules({}) == Rules()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"colums": {}}, "'colums'"),
        ({"columns": []}, "columns is []"),
        ({"columns": {"A": {"typ": "date"}}}, "'columns.A.typ'"),
        ({"columns": {"A": {"type": "money"}}}, "columns.A.type"),
        ({"columns": {"A": {"names": "Дата"}}}, "columns.A.names"),
        ({"columns": {"A": {"names": [""]}}}, "columns.A.names"),
        ({"columns": {"A": {"values": {"x": "y"}}}}, "columns.A.values.x"),
        ({"columns": {"A": {"values": {"x": ["z"], "y": ["Z"]}}}}, "columns.A.values"),
        ({"columns": {"A": {"names": ["N"]}, "B": {"names": ["n "]}}}, "columns.B"),
        ({"columns": {" ": {}}}, "columns"),
        ({"date_order": "myd"}, "date_order"),
        ({"date_order": ["dmy"]}, "date_order"),
        ({"decimal": ";"}, "decimal"),
        ({"drop_duplicates": 1}, "drop_duplicates"),
        ({"max_rows": True}, "max_rows"),
        ({"max_rows": 0}, "max_rows"),
        ({"max_rows": 2_000_000}, "max_rows"),
        ({"max_rows": "many"}, "max_rows"),
        ({"language": "de"}, "language"),
        ({"sheet": 3}, "sheet"),
        ({"title": 3}, "title"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(WorkbookError) as refused:
        read_rules(settings)
    assert refused.value.code == "settings_invalid"
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
