"""One transaction, as the store sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult

from tenure.db.schema import SCHEMA
from tenure.errors import UnwrittenEvents

AnyRow = sa.Row[*tuple[Any, ...]]
Parameters = dict[str, Any] | Sequence[dict[str, Any]] | None


class Tx:
    """A transaction, or an autocommit connection for verbs of one statement (`autocommit`).

    State changes record their events in `unwritten`; `last_act` writes all of them just before the commit.
    `one_writer`: the whole database has one writer at a time (SQLite), and this transaction is it.
    """

    __slots__ = ("_options", "autocommit", "connection", "last_act", "one_writer", "schema", "unwritten", "wakes")

    def __init__(self, connection: sa.Connection, schema: str | None, *, autocommit: bool = False) -> None:
        self.connection = connection
        self.autocommit = autocommit
        self.one_writer = connection.dialect.name == "sqlite"
        self.unwritten: list[Any] = []
        self.last_act: Callable[[Tx], None] | None = None
        self.wakes = False
        self.schema = schema
        self._options = {"schema_translate_map": {SCHEMA: schema}}

    def execute(self, statement: sa.Executable, parameters: Parameters = None) -> CursorResult[*tuple[Any, ...]]:
        """Runs one statement; table names are translated to the configured schema."""
        return self.connection.execute(statement, parameters, execution_options=self._options)

    def rows(self, statement: sa.Executable, parameters: Parameters = None) -> Sequence[AnyRow]:
        """All rows of one statement."""
        return self.execute(statement, parameters).all()

    def first(self, statement: sa.Executable, parameters: Parameters = None) -> AnyRow | None:
        """The first row of one statement, or None."""
        return self.execute(statement, parameters).first()

    def count(self, statement: sa.Executable, parameters: Parameters = None) -> int:
        """How many rows a guarded write moved: the verdict. (SQLAlchemy keeps an INSERT's count only when asked.)"""
        options = {**self._options, "preserve_rowcount": True}
        return self.connection.execute(statement, parameters, execution_options=options).rowcount

    def wake(self) -> None:
        """This transaction makes a job claimable: send one hint with its commit."""
        self.wakes = True

    def finish(self) -> None:
        """The last act before the commit; afterwards nothing recorded may be left unwritten."""
        if self.last_act is not None:
            self.last_act(self)
        if self.unwritten:
            raise UnwrittenEvents(f"{len(self.unwritten)} recorded events were not written")
