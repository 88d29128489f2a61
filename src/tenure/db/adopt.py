"""A caller's own connection as a Tx: what is written on it exists if and only if the caller commits.

Taken are a SQLAlchemy Connection or Session (those of asyncio through `aenqueue`), a psycopg connection, and a sqlite3
connection. Nothing here begins, commits, rolls back or closes.
"""

from __future__ import annotations

import sqlite3 as standard
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from tenure import sqlite
from tenure.db.engine import Database
from tenure.db.tx import Tx
from tenure.errors import InvalidInput, NotImmediate, UnsafeConnection


@contextmanager
def adopted(database: Database, connection: Any) -> Iterator[Tx]:
    """A Tx on the caller's connection, with one hint to waiting workers sent by the caller's commit.

    InvalidInput for something else, or a connection to another kind of database; UnsafeConnection for a SQLite build
    that is unsafe for the journal mode in use; NotImmediate when SQLite is busy, for then the caller's transaction read
    before it wrote.
    """
    tx = _adopt(database, connection)
    try:
        yield tx
        database.wakeup.announce(tx)
    except OperationalError as error:
        raise _explained(error) from error


def _adopt(database: Database, connection: Any) -> Tx:
    found = _sqlalchemy(connection)
    if found is None:
        found = _wrapped(database, connection)
    kind = "sqlite" if database.is_sqlite else "postgresql"
    if found.dialect.name != kind:
        raise InvalidInput(f"connection is to {found.dialect.name}, the database is {kind}", field="connection")
    if database.is_sqlite:
        _check_build(found)
    return Tx(found, database.schema)


def _sqlalchemy(connection: Any) -> sa.Connection | None:
    if isinstance(connection, sa.Connection):
        return connection
    if hasattr(connection, "run_sync"):
        text = f"connection is an {type(connection).__name__}: use `await app.aenqueue(…, connection=…)`"
        raise InvalidInput(text, field="connection")
    if hasattr(connection, "connection") and hasattr(connection, "get_bind"):
        found: sa.Connection = connection.connection()
        return found
    return None


def _wrapped(database: Database, connection: Any) -> sa.Connection:
    """A driver's connection behind SQLAlchemy, with every way to end its transaction taken out."""
    is_driver = hasattr(connection, "cursor") and hasattr(connection, "commit")
    is_asynchronous = type(connection).__name__.startswith("Async")
    if not is_driver or is_asynchronous:
        wanted = "a SQLAlchemy Connection or Session, a psycopg connection or a sqlite3 connection"
        raise InvalidInput(f"connection is {type(connection).__name__}; right is {wanted}", field="connection")
    is_sqlite = isinstance(connection, (standard.Connection, sqlite.sqlite3.Connection))
    if is_sqlite != database.is_sqlite:
        other = "sqlite" if is_sqlite else "postgresql"
        raise InvalidInput(f"connection is to {other}, the database is not", field="connection")
    pool = StaticPool(lambda: _Unending(connection, None if is_sqlite else _psycopg_tuples()))
    return sa.Engine(pool, database.engine.dialect, database.url).connect()


class _Unending:
    """A driver's connection that its user alone begins and ends, and whose rows are tuples whatever the user wants."""

    def __init__(self, connection: Any, row_factory: Any) -> None:
        self.__dict__.update(_connection=connection, _row_factory=row_factory)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._connection, name, value)

    def cursor(self, *args: Any, **keywords: Any) -> Any:
        cursor = self._connection.cursor(*args, **keywords)
        cursor.row_factory = self._row_factory
        return cursor

    def commit(self) -> None:
        return None

    rollback = close = commit


def _psycopg_tuples() -> Any:
    from psycopg.rows import tuple_row

    return tuple_row


def _check_build(connection: sa.Connection) -> None:
    version = connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
    mode = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()).lower()
    if mode == "wal" and not sqlite.is_wal_safe(version):
        raise UnsafeConnection(
            f"this connection is of SQLite {version}, which can corrupt a database in WAL mode: use app.connection(), "
            f"or `from tenure.sqlite import sqlite3`"
        )


def _explained(error: OperationalError) -> Exception:
    """BUSY on a caller's SQLite connection means that its transaction read before it wrote."""
    if "locked" in str(error.orig) or "busy" in str(error.orig).lower():
        return NotImmediate("the caller's transaction read before it wrote: begin it with BEGIN IMMEDIATE")
    return error
