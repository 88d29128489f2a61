"""The database's clock. No parameter of Tenure carries an application's time; durations cross the wire.

`now()` is the time of the *statement*: `statement_timestamp()` on PostgreSQL, the statement's `now` on SQLite
(never PostgreSQL's `now()`, which is the start of the transaction).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from tenure.db.types import Instant

SQLITE_FORMAT = "%Y-%m-%dT%H:%M:%fZ"
SHIFT = "tenure_clock_shift"  # attribute of an Engine's dialect; only tenure.testing sets it


class now(FunctionElement[datetime]):  # noqa: N801  (reads as SQL)
    """The database's time when the statement started."""

    type = Instant()
    inherit_cache = True


class after(FunctionElement[datetime]):  # noqa: N801
    """`after(instant, seconds)`: the instant that many seconds later; NULL when either is NULL."""

    type = Instant()
    inherit_cache = True


class seconds_until(FunctionElement[float]):  # noqa: N801
    """`seconds_until(instant)`: seconds from the database's now to the instant, negative when it has passed."""

    type = sa.Float()
    inherit_cache = True


class earlier(FunctionElement[datetime]):  # noqa: N801
    """`earlier(a, b)`: the earlier of two instants, neither NULL."""

    type = Instant()
    inherit_cache = True


def now_plus(seconds: Any) -> ColumnElement[datetime]:
    """The database's now and so many seconds."""
    return after(now(), seconds)


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: Any, **kw: Any) -> str:
    shift = getattr(compiler.dialect, SHIFT, None)
    return f"(statement_timestamp() + make_interval(secs => {shift}))" if shift else "statement_timestamp()"


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: Any, **kw: Any) -> str:
    shift = getattr(compiler.dialect, SHIFT, None)
    shifted = f", {shift} || ' seconds'" if shift else ""
    return f"strftime('{SQLITE_FORMAT}', 'now'{shifted})"


@compiles(after, "postgresql")
def _after_postgresql(element: after, compiler: Any, **kw: Any) -> str:
    instant, seconds = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({instant} + make_interval(secs => {seconds}))"


@compiles(after, "sqlite")
def _after_sqlite(element: after, compiler: Any, **kw: Any) -> str:
    instant, seconds = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"strftime('{SQLITE_FORMAT}', {instant}, ({seconds}) || ' seconds')"


@compiles(seconds_until, "postgresql")
def _until_postgresql(element: seconds_until, compiler: Any, **kw: Any) -> str:
    instant = compiler.process(next(iter(element.clauses)), **kw)
    return f"CAST(extract(epoch FROM {instant} - {compiler.process(now(), **kw)}) AS DOUBLE PRECISION)"


@compiles(seconds_until, "sqlite")
def _until_sqlite(element: seconds_until, compiler: Any, **kw: Any) -> str:
    instant = compiler.process(next(iter(element.clauses)), **kw)
    return f"((julianday({instant}) - julianday({compiler.process(now(), **kw)})) * 86400.0)"


@compiles(earlier, "postgresql")
def _earlier_postgresql(element: earlier, compiler: Any, **kw: Any) -> str:
    return f"LEAST({compiler.process(element.clauses, **kw)})"


@compiles(earlier, "sqlite")
def _earlier_sqlite(element: earlier, compiler: Any, **kw: Any) -> str:
    return f"MIN({compiler.process(element.clauses, **kw)})"
