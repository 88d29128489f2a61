"""The project's settings for workbooks: a plain dict from outside, checked once, frozen inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tenure.toolkit.faults import WorkbookError

TYPES = ("text", "number", "integer", "date", "datetime", "boolean")
DATE_ORDERS = ("dmy", "mdy", "ymd")
DECIMALS = ("auto", ".", ",")
LANGUAGES = ("en", "ru")
MAX_ROWS = 200_000
SHEET_ROWS = 1_048_576
"""Rows that an xlsx sheet can have at all."""

_NAMES = ("columns", "sheet", "date_order", "decimal", "drop_duplicates", "max_rows", "language", "title")
_COLUMN_NAMES = ("type", "names", "values")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """A declared column: its type, the headers it is known by, and the spellings that mean one value."""

    type: str
    names: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    """Folded spelling → the value to keep."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Checked settings. Without any, text is trimmed, blank rows are rejected, equal rows merged, the rest kept."""

    columns: Mapping[str, ColumnRule] = field(default_factory=dict)
    sheet: str | None = None
    date_order: str = "dmy"
    decimal: str = "auto"
    drop_duplicates: bool = True
    max_rows: int = MAX_ROWS
    language: str = "en"
    title: str | None = None


def read_rules(settings: Mapping[str, object] | None = None) -> Rules:
    """Check a settings dict.

    `{"columns": {"Amount": {"type": "number", "names": ["Сумма"], "values": {}}}, "sheet": "Sales",
    "date_order": "dmy", "decimal": "auto", "drop_duplicates": True, "max_rows": 200000, "language": "en",
    "title": "Sales"}`; every name may be left out. Raises `WorkbookError` (`settings_invalid`) that names the field.
    """
    given = dict(settings or {})
    _refuse_unknown("", given, _NAMES)
    return Rules(
        columns=_columns(given.get("columns", {})),
        sheet=_optional_text("sheet", given.get("sheet")),
        date_order=_one_of("date_order", given.get("date_order", "dmy"), DATE_ORDERS),
        decimal=_one_of("decimal", given.get("decimal", "auto"), DECIMALS),
        drop_duplicates=_typed("drop_duplicates", given.get("drop_duplicates", True), bool, "true or false"),
        max_rows=_row_limit(given.get("max_rows", MAX_ROWS)),
        language=_one_of("language", given.get("language", "en"), LANGUAGES),
        title=_optional_text("title", given.get("title")),
    )


def fold(text: str) -> str:
    """The form in which headers and spellings are compared: no case, single spaces."""
    return " ".join(text.split()).casefold()


def _columns(given: object) -> dict[str, ColumnRule]:
    table = _table("columns", given)
    rules = {name: _column(f"columns.{name}", name, rule) for name, rule in table.items()}
    _refuse_shared_names(rules)
    return rules


def _column(where: str, name: str, given: object) -> ColumnRule:
    rule = _table(where, given)
    _refuse_unknown(f"{where}.", rule, _COLUMN_NAMES)
    if not name.strip():
        raise _invalid("columns", "a column without a name", "a name that is not blank")
    return ColumnRule(
        type=_one_of(f"{where}.type", rule.get("type", "text"), TYPES),
        names=tuple(_texts(f"{where}.names", rule.get("names", []))),
        values=_spellings(f"{where}.values", rule.get("values", {})),
    )


def _spellings(where: str, given: object) -> dict[str, str]:
    spellings: dict[str, str] = {}
    for kept, others in _table(where, given).items():
        for spelling in (kept, *_texts(f"{where}.{kept}", others)):
            if spellings.setdefault(fold(spelling), kept) != kept:
                raise _invalid(where, f"{spelling!r} under two values", "each spelling under one value")
    return spellings


def _refuse_shared_names(rules: Mapping[str, ColumnRule]) -> None:
    owners: dict[str, str] = {}
    for name, rule in rules.items():
        for header in (name, *rule.names):
            owner = owners.setdefault(fold(header), name)
            if owner != name:
                raise _invalid(
                    f"columns.{name}",
                    f"header {header!r}, which columns.{owner} has too",
                    "each header under one column",
                )


def _refuse_unknown(where: str, given: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise WorkbookError(
                "settings_invalid", f"settings: unknown name {where + name!r}; known: {', '.join(known)}"
            )


def _table(where: str, given: object) -> dict[str, object]:
    table = _typed(where, given, dict, "an object")
    if not all(isinstance(name, str) for name in table):
        raise _invalid(where, "a name that is not text", "text names")
    return table


def _texts(where: str, given: object) -> list[str]:
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) and text.strip() for text in given):
        raise _invalid(where, repr(given), "a list of texts that are not blank")
    return list(given)


def _optional_text(where: str, given: object) -> str | None:
    return None if given is None else _typed(where, given, str, "text")


def _one_of(where: str, given: object, allowed: tuple[str, ...]) -> str:
    if not isinstance(given, str) or given not in allowed:
        raise _invalid(where, repr(given), f"one of {', '.join(allowed)}")
    return given


def _row_limit(given: object) -> int:
    limit = _typed("max_rows", given, int, "a whole number")
    if isinstance(given, bool) or not 1 <= limit <= SHEET_ROWS:
        raise _invalid("max_rows", repr(given), f"a whole number from 1 to {SHEET_ROWS:,}")
    return limit


def _typed(where: str, given: object, kind: type[T], right: str) -> T:
    if not isinstance(given, kind):
        raise _invalid(where, repr(given), right)
    return given


def _invalid(where: str, got: str, right: str) -> WorkbookError:
    return WorkbookError("settings_invalid", f"settings: {where} is {got[:120]}; it must be {right}")
