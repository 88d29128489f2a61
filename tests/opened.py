"""Fixtures of an open database: `database`, and `clock` or `frozen` for one whose clock the test moves.

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
# To a fixed instant: the server's own time cancels out, exactly, at the precision of each database.
FREEZE = {
    "sqlite": f"printf('%.3f', ({SHIFT} * 1000 - round((julianday('now') - 2440587.5) * 86400000.0)) / 1000.0)",
    "postgresql": f"{SHIFT} - extract(epoch FROM statement_timestamp())",
}
FROZEN_AT = 1_900_000_000.0


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of `database`: `advance` moves it forward; unless it is frozen it runs besides."""

    database: Database

    def advance(self, seconds: float) -> None:
        """Everything in the database is that much older now."""
        self._run("UPDATE test_clock SET seconds = seconds + :seconds", {"seconds": seconds})

    def reset(self, seconds: float = 0.0) -> None:
        """Creates the offset where it is absent, and sets it."""
        self._run("CREATE TABLE IF NOT EXISTS test_clock (seconds DOUBLE PRECISION NOT NULL)")
        self._run("DELETE FROM test_clock")
        self._run("INSERT INTO test_clock VALUES (:seconds)", {"seconds": seconds})

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


@pytest.fixture
def frozen(database_url: str) -> Iterator[Clock]:
    """A clock that stands still at `FROZEN_AT` (seconds since 1970) until it is advanced."""
    opened = Database(database_url)
    opened.clock_shift = FREEZE[opened.url.get_backend_name()]
    clock = Clock(opened)
    clock.reset(FROZEN_AT)
    yield clock
    opened.dispose()
