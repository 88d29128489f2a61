"""Fixtures of an open database: `database`, and `clock` for one whose clock the test moves.

A test asks for them through a `conftest.py` of its folder. The clock is the database's own and an offset in one row of
the *test* database; the product has no setting for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from tenure.db.engine import Database

SHIFT = "(SELECT seconds FROM test_clock)"


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of `database`: it runs, and `advance` moves it forward."""

    database: Database

    def advance(self, seconds: float) -> None:
        """Everything in the database is that much older now."""
        self._run("UPDATE test_clock SET seconds = seconds + :seconds", {"seconds": seconds})

    def reset(self) -> None:
        """Creates the offset where it is absent, and sets it to nothing."""
        self._run("CREATE TABLE IF NOT EXISTS test_clock (seconds DOUBLE PRECISION NOT NULL)")
        self._run("DELETE FROM test_clock")
        self._run("INSERT INTO test_clock VALUES (0.0)")

    def _run(self, text: str, parameters: dict[str, Any] | None = None) -> None:
        self.database.write(lambda tx: tx.execute(sa.text(text), parameters))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.dispose()


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    """As `database`, on PostgreSQL alone."""
    opened = Database(postgres_url)
    yield opened
    opened.dispose()


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    opened = Database(database_url)
    opened.clock_shift = SHIFT
    clock = Clock(opened)
    clock.reset()
    yield clock
    opened.dispose()
