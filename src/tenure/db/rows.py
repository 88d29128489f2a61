"""Many rows as one parameter: a JSON array of arrays, read as a table by one statement that both databases run.

A list of ten or of a thousand rows is the same SQL text, so it is compiled, prepared and planned once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from tenure.db.types import Json, encode_json


class _elements(FunctionElement[Any]):  # noqa: N801
    inherit_cache = True


class _field(FunctionElement[Any]):  # noqa: N801
    inherit_cache = True


@compiles(_elements, "postgresql")
def _elements_postgresql(element: _elements, compiler: Any, **kw: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **kw)} AS JSON))"


@compiles(_elements, "sqlite")
def _elements_sqlite(element: _elements, compiler: Any, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(_field, "postgresql")
@compiles(_field, "sqlite")
def _field_sql(element: _field, compiler: Any, **kw: Any) -> str:
    value, position = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({value} ->> {position})"


def table_of(name: str, columns: Mapping[str, TypeEngine[Any]], parameter: str | None = None) -> sa.CTE:
    """A CTE of the bound rows; execute with `{parameter: pack(rows)}`, `parameter` being `name` by default."""
    source = _elements(sa.bindparam(parameter or name, type_=sa.Text())).table_valued("value", name=f"{name}_json")
    fields: list[ColumnElement[Any]] = [
        _typed(_field(source.c.value, sa.literal_column(str(position))), kind).label(column)
        for position, (column, kind) in enumerate(columns.items())
    ]
    return sa.select(*fields).select_from(source).cte(name)


def _typed(field: _field, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    if isinstance(kind, Json):
        return _as_json(field)
    return sa.cast(field, kind)


class _as_json(FunctionElement[Any]):  # noqa: N801
    """Encoded JSON text as a JSON column: a cast on PostgreSQL, the text itself on SQLite."""

    type = Json()
    inherit_cache = True


@compiles(_as_json, "postgresql")
def _as_json_postgresql(element: _as_json, compiler: Any, **kw: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **kw)} AS JSON)"


@compiles(_as_json, "sqlite")
def _as_json_sqlite(element: _as_json, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.clauses, **kw))


class _texts(FunctionElement[Any]):  # noqa: N801
    """A JSON array of strings as rows."""

    inherit_cache = True


@compiles(_texts, "postgresql")
def _texts_postgresql(element: _texts, compiler: Any, **kw: Any) -> str:
    return f"json_array_elements_text({compiler.process(element.clauses, **kw)})"


@compiles(_texts, "sqlite")
def _texts_sqlite(element: _texts, compiler: Any, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


def texts_of(column: ColumnElement[Any], name: str) -> sa.TableValuedAlias:
    """The strings of a JSON array column as a table with one column, `value`."""
    return _texts(column).table_valued("value", name=name)


def pack(rows: Sequence[Sequence[Any]]) -> str:
    """The parameter for `table_of`. A field of a Json column must be encoded text already."""
    return encode_json(rows)
