"""What every table is built from: columns of one form, CHECKs with a name, keys that begin with the tenant."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CheckConstraint, Column, ForeignKeyConstraint, SchemaItem

from tenure.db.types import Json, Key

SCHEMA = "tenure"
metadata = sa.MetaData(schema=SCHEMA)


def table(name: str, *items: SchemaItem) -> sa.Table:
    """A table whose JSON columns are checked on SQLite, where they are text."""
    checks = [
        CheckConstraint(f"json_valid({item.name})", name=f"{item.name}_json").ddl_if(dialect="sqlite")
        for item in items
        if isinstance(item, Column) and isinstance(item.type, Json)
    ]
    return sa.Table(name, metadata, *items, *checks)


def tenant() -> Column[str]:
    return required("tenant_id", Key)


def required(name: str, kind: Any, default: str | None = None) -> Column[Any]:
    return Column(name, kind, nullable=False, server_default=None if default is None else sa.text(default))


def one_of(column: str, words: Iterable[StrEnum | str]) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def check(name: str, condition: str) -> CheckConstraint:
    return CheckConstraint(condition, name=name)


def refers(columns: list[str], target: str) -> ForeignKeyConstraint:
    """A foreign key to the columns of the same names in `target`."""
    return ForeignKeyConstraint(columns, [f"{SCHEMA}.{target}.{column}" for column in columns])


def partial(name: str, condition: str, *columns: Column[Any], unique: bool = False) -> sa.Index:
    """An index over the rows that meet the condition, on both databases."""
    where = sa.text(condition)
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)
