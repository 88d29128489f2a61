"""Records from rows: a SELECT of exactly a record's fields, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import sqlalchemy as sa

from tenure.db.tx import AnyRow

R = TypeVar("R")


def columns_of(table: sa.FromClause, record: type[Any]) -> list[sa.ColumnElement[Any]]:
    """The table's columns that are the record's fields, in the record's order."""
    return [table.c[field.name] for field in fields(record)]


def one(record: Callable[..., R], row: AnyRow | None) -> R | None:
    """The record of a row, or None where there was none."""
    return None if row is None else record(*row)


def many(record: Callable[..., R], rows: Sequence[AnyRow]) -> list[R]:
    """The records of rows, in their order."""
    return [record(*row) for row in rows]
