"""The settable clock: the database's own, and an offset in one row of a *test* database.

It runs, on both databases, and a test moves it forward. Nothing in the product selects it: no setting, no variable of
the environment; only these functions do, in this process and, called there, in a child.
"""

from __future__ import annotations

from tenure.canon import duration
from tenure.db.clock import SHIFT
from tenure.db.engine import Database

TABLE = "test_clock"


def table_of(database: Database) -> str:
    """The qualified name of the table that holds the offset."""
    return TABLE if database.schema is None else f'"{database.schema}".{TABLE}'


def attach_clock(database: Database) -> None:
    """Makes this process see the test clock of a database for which a `Clock` was made, perhaps in another process."""
    database.clock_shift = f"coalesce((SELECT seconds FROM {table_of(database)}), 0.0)"
    dialect = database.engine.dialect
    if getattr(dialect, SHIFT, None) != database.clock_shift:
        # An engine that is open already may have compiled statements that know no offset.
        setattr(dialect, SHIFT, database.clock_shift)
        database.engine.clear_compiled_cache()


class Clock:
    """The clock of a test database. Making one creates the offset, at nothing, and attaches this process to it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        table = table_of(database)
        self._run(f"CREATE TABLE IF NOT EXISTS {table} (seconds DOUBLE PRECISION NOT NULL)")
        self._run(f"DELETE FROM {table}", f"INSERT INTO {table} VALUES (0.0)")
        attach_clock(database)

    def advance(self, by: str | float) -> None:
        """Everything in the database is that much older now: a duration with a unit ("90s"), or seconds."""
        seconds = duration(by, "by") if isinstance(by, str) else float(by)
        self._run(f"UPDATE {table_of(self.database)} SET seconds = seconds + {seconds!r}")

    def _run(self, *statements: str) -> None:
        self.database.write(lambda tx: [tx.connection.exec_driver_sql(statement) for statement in statements])
