"""A sheet's columns under the project's rules: which header is which declared column, and how its cells are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tenure.toolkit.dates import parse_date, parse_datetime
from tenure.toolkit.faults import WorkbookError
from tenure.toolkit.rules import ColumnRule, Rules, fold
from tenure.toolkit.sheet import Sheet
from tenure.toolkit.values import Cell, as_text, clean_text, parse_boolean, parse_integer, parse_number

Reader = Callable[[Cell], Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the result."""

    name: str
    type: str | None
    """The declared type, None if the column is kept as it is."""
    style: str | None
    """`date` or `datetime` if its ISO texts are written as dates."""
    read: Reader
    """From a cell that is not blank to its value; `ValueError` if it does not parse."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of the result, in the sheet's order, and the rules that made them."""

    columns: tuple[Column, ...]
    rules: Rules


def lay_out(sheet: Sheet, rules: Rules | None = None) -> Layout:
    """Match headers with declared columns (case and spaces do not matter); columns not declared are kept.

    Raises `WorkbookError` (`workbook_columns_missing`) if a declared column has no header.
    """
    checked = rules or Rules()
    declared = _declared_at(sheet, checked.columns)
    columns = [
        _declared(declared[position], checked) if position in declared else _kept(header, sheet.styles[position])
        for position, header in enumerate(sheet.header)
    ]
    return Layout(tuple(columns), checked)


def _declared_at(sheet: Sheet, columns: Mapping[str, ColumnRule]) -> dict[int, str]:
    folded = [fold(header) for header in sheet.header]
    found: dict[int, str] = {}
    for name, rule in columns.items():
        known = {fold(header) for header in (name, *rule.names)}
        position = next((index for index, header in enumerate(folded) if header in known), None)
        if position is None:
            raise _missing(sheet, name, rule)
        found[position] = name
    return found


def _missing(sheet: Sheet, name: str, rule: ColumnRule) -> WorkbookError:
    looked, has = ", ".join(map(repr, (name, *rule.names))), ", ".join(map(repr, sheet.header[:30]))
    return WorkbookError(
        "workbook_columns_missing",
        f"sheet {sheet.name!r} of {sheet.source} has no column for columns.{name} (looked for {looked}; row "
        f"{sheet.header_row} has {has}); add the header to columns.{name}.names",
    )


def _declared(name: str, rules: Rules) -> Column:
    rule = rules.columns[name]
    style = rule.type if rule.type in ("date", "datetime") else None
    return Column(name, rule.type, style, _reader(rule, rules))


def _kept(header: str, style: str | None) -> Column:
    return Column(header, None, style, _as_it_is)


def _reader(rule: ColumnRule, rules: Rules) -> Reader:
    readers: dict[str, Reader] = {
        "text": partial(_one_spelling, rule.values),
        "number": partial(parse_number, decimal=rules.decimal),
        "integer": partial(parse_integer, decimal=rules.decimal),
        "date": partial(parse_date, order=rules.date_order),
        "datetime": partial(parse_datetime, order=rules.date_order),
        "boolean": parse_boolean,
    }
    return readers[rule.type]


def _one_spelling(values: Mapping[str, str], cell: Cell) -> Cell:
    text = as_text(cell)
    return values.get(fold(text), text)


def _as_it_is(cell: Cell) -> Cell:
    return clean_text(cell) if isinstance(cell, str) else cell
