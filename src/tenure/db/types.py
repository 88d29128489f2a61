"""Column types and SQL expressions that read alike on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine


def encode_json(value: Any) -> str:
    """Strict JSON in the given key order; NaN and foreign objects raise ValueError or TypeError."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Id(TypeDecorator[str]):
    """A UUID: `uuid` on PostgreSQL, dashed text on SQLite, `str` in Python."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.UUID(as_uuid=False))
        return dialect.type_descriptor(sa.Text())


class Instant(TypeDecorator[datetime]):
    """An instant: `timestamptz` on PostgreSQL, `YYYY-MM-DDTHH:MM:SS.mmmZ` on SQLite, aware in Python."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.DateTime(timezone=True))
        return dialect.type_descriptor(sa.Text())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        return datetime.fromisoformat(value)


class Json(TypeDecorator[Any]):
    """A JSON value: `json` on PostgreSQL (never `jsonb`), checked text on SQLite; None is SQL NULL.

    What is bound is text, so that what was stored is exactly what was encoded.
    """

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(_PlainJson())
        return dialect.type_descriptor(sa.Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else encode_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class _PlainJson(sa.types.UserDefinedType[str]):
    """PostgreSQL's `json`, bound and read as text: decoded by the driver, a JSON string looks like JSON text."""

    cache_ok = True

    def get_col_spec(self, **kw: Any) -> str:
        return "JSON"

    def bind_expression(self, bindvalue: Any) -> Any:
        return sa.cast(bindvalue, self)

    def column_expression(self, colexpr: Any) -> Any:
        return sa.type_coerce(sa.cast(colexpr, sa.Text()), Json())


class Key(TypeDecorator[str]):
    """Text that stands in keys and is ordered by code point (`COLLATE "C"`) on both databases."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TEXT(collation="C"))
        return dialect.type_descriptor(sa.Text())


class Word(TypeDecorator[StrEnum]):
    """Text that is one of an enumeration's words, and that enumeration's member in Python."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.words(value)
