"""Transactions: all or nothing, run again where nothing happened, and only there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from tenure.db import engine
from tenure.db.engine import Database
from tenure.db.schema import project_contexts
from tenure.db.tx import Tx
from tenure.errors import CommitUnknown, DatabaseUnavailable
from tenure.records import RowKey
from tenure.sqlite import sqlite3
from tenure.store import projects
from tests import factory, proxy
from tests.proxy import Proxy

COMMIT = b"COMMIT\0"  # the statement, not the "READ COMMITTED" of a BEGIN


def key(name: str) -> RowKey:
    return RowKey("default", name)


def names(database: Database) -> list[str]:
    return [row["project_id"] for row in factory.rows(database, project_contexts)]


class Body:
    """Inserts a project; counts its runs, and does `meanwhile` in each with the number of the run."""

    def __init__(self, name: str = "x", meanwhile: Callable[[Tx, int], object] | None = None) -> None:
        self.name = name
        self.runs = 0
        self.meanwhile = meanwhile

    def __call__(self, tx: Tx) -> str:
        self.runs += 1
        projects.ensure(tx, key(self.name))
        if self.meanwhile is not None:
            self.meanwhile(tx, self.runs)
        return self.name


# -- all or nothing ----------------------------------------------------------------------------------------------------


def test_a_write_is_there_when_it_returns(database: Database, database_url: str) -> None:
    assert database.write(Body()) == "x"
    other = Database(database_url)
    assert names(other) == ["x"]
    other.dispose()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, IntegrityError])
def test_a_body_that_fails_leaves_nothing(database: Database, error: type[BaseException]) -> None:
    def fail(tx: Tx, run: int) -> None:
        if error is IntegrityError:
            for _ in range(2):
                tx.execute(sa.insert(project_contexts).values(tenant_id="default", project_id="x"))
        raise error

    body = Body(meanwhile=fail)
    with pytest.raises(error):
        database.write(body)
    assert body.runs == 1
    assert names(database) == []
    assert database.write(Body()) == "x"


def test_a_read_is_one_snapshot(database: Database) -> None:
    database.write(Body("before"))
    listed = sa.select(project_contexts.c.project_id)

    def read(tx: Tx) -> tuple[int, int]:
        first = len(tx.rows(listed))
        database.write(Body("meanwhile"))
        return first, len(tx.rows(listed))

    assert database.read(read) == (1, 1)
    assert names(database) == ["before", "meanwhile"]


def test_a_read_writes_nothing(postgres: Database) -> None:
    with pytest.raises(DBAPIError, match="read-only transaction"):
        postgres.read(Body())


@pytest.mark.parametrize(
    ("mode", "isolation", "in_transaction"),
    [("write", "read committed", True), ("read", "repeatable read", True), ("single", "read committed", False)],
)
def test_how_each_mode_runs(postgres: Database, mode: str, isolation: str, in_transaction: bool) -> None:
    def look(tx: Tx) -> tuple[str, bool]:
        ids = (
            "SELECT count(DISTINCT txid) FROM (VALUES (1)) v, LATERAL (SELECT pg_current_xact_id_if_assigned()) t(txid)"
        )
        tx.execute(sa.text(ids))
        level = tx.execute(sa.text("SELECT current_setting('transaction_isolation')")).scalar_one()
        began = tx.execute(sa.text("SELECT now() < statement_timestamp()")).scalar_one()
        return level, began

    run = {"write": postgres.write, "read": postgres.read, "single": postgres.single}[mode]
    assert run(look) == (isolation, in_transaction)


def test_sqlite_is_set_up_to_be_safe(fresh_database: Callable[[str], str]) -> None:
    database = Database(fresh_database("sqlite"))

    def pragma(tx: Tx) -> dict[str, Any]:
        wanted = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return {name: tx.execute(sa.text(f"PRAGMA {name}")).scalar_one() for name in wanted}

    assert database.read(pragma) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
    database.dispose()


# -- conflicts ---------------------------------------------------------------------------------------------------------


def stamp(tx: Tx, name: str) -> None:
    projects.set_settings(tx, key(name), {})


def repeatable(tx: Tx) -> None:
    tx.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
    projects.listed(tx, "default")


def test_a_serialization_failure_is_run_again(postgres: Database) -> None:
    postgres.write(Body())
    runs: list[None] = []

    def body(tx: Tx) -> None:
        runs.append(None)
        repeatable(tx)
        if len(runs) < 3:
            postgres.write(lambda other: stamp(other, "x"))
        stamp(tx, "x")

    postgres.write(body)
    assert len(runs) == 3
    assert factory.rows(postgres, project_contexts)[0]["settings_version"] == 4


def test_a_conflict_that_never_ends_is_given_up(postgres: Database) -> None:
    postgres.write(Body())
    runs: list[None] = []

    def body(tx: Tx) -> None:
        runs.append(None)
        repeatable(tx)
        postgres.write(lambda other: stamp(other, "x"))
        stamp(tx, "x")

    with pytest.raises(DatabaseUnavailable, match="could not serialize"):
        postgres.write(body)
    assert len(runs) == 6


def test_a_deadlock_is_run_again(postgres: Database) -> None:
    for name in "xy":
        postgres.write(Body(name))
    meet = threading.Barrier(2)
    runs: list[str] = []

    def both(first: str, second: str) -> None:
        def body(tx: Tx) -> None:
            runs.append(first)
            stamp(tx, first)
            if len(runs) <= 2:
                meet.wait(10)
            stamp(tx, second)

        postgres.write(body)

    other = threading.Thread(target=both, args=("y", "x"))
    other.start()
    both("x", "y")
    other.join(20)
    assert len(runs) == 3
    assert [row["settings_version"] for row in factory.rows(postgres, project_contexts)] == [3, 3]


@pytest.fixture
def locked(fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, Any]]:
    """A SQLite database with a short busy timeout, and a foreign connection that is in a write transaction."""
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.02)
    url = fresh_database("sqlite")
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    database = Database(url)
    yield database, other
    database.dispose()
    other.close()


def test_a_busy_database_is_tried_again(locked: tuple[Database, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    database, other = locked
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            other.execute("COMMIT")

    monkeypatch.setattr("tenure.db.engine.time.sleep", pause)
    body = Body()
    assert database.write(body) == "x"
    assert len(pauses) == 3
    assert names(database) == ["x"]


def test_a_database_that_stays_busy_is_unavailable(locked: tuple[Database, Any]) -> None:
    database, _ = locked
    with pytest.raises(DatabaseUnavailable, match="database is locked"):
        database.write(Body())


# -- a cut network -----------------------------------------------------------------------------------------------------


@pytest.fixture
def cuttable(postgres_url: str) -> Iterator[tuple[Database, Proxy]]:
    with proxy.running(postgres_url) as between:
        database = Database(between.url)
        database.read(lambda tx: tx.rows(sa.select(1)))
        yield database, between
        database.dispose()


@pytest.mark.parametrize("delivered", [True, False])
def test_a_cut_at_commit_is_not_run_again(
    cuttable: tuple[Database, Proxy], postgres: Database, delivered: bool
) -> None:
    database, between = cuttable
    between.cut_at(COMMIT, delivered=delivered)
    body = Body()
    with pytest.raises(CommitUnknown, match="lost while committing"):
        database.write(body)
    assert between.fired.is_set()
    assert body.runs == 1
    assert names(postgres) == (["x"] if delivered else [])
    assert database.write(Body("y")) == "y"


@pytest.mark.parametrize("delivered", [True, False])
def test_a_body_that_looks_runs_again_after_a_cut_at_commit(
    cuttable: tuple[Database, Proxy], postgres: Database, delivered: bool
) -> None:
    database, between = cuttable
    between.cut_at(COMMIT, delivered=delivered)
    body = Body()
    assert database.write(body, lookup=True) == "x"
    assert body.runs == 2
    assert names(postgres) == ["x"]


@pytest.mark.parametrize("delivered", [True, False])
def test_a_cut_before_commit_is_run_again(
    cuttable: tuple[Database, Proxy], postgres: Database, delivered: bool
) -> None:
    database, between = cuttable
    between.cut_at(b"INSERT", delivered=delivered)
    body = Body()
    assert database.write(body) == "x"
    assert between.fired.is_set()
    assert body.runs == 2
    assert names(postgres) == ["x"]


@pytest.mark.parametrize("delivered", [True, False])
def test_a_single_statement_is_its_own_commit(
    cuttable: tuple[Database, Proxy], postgres: Database, delivered: bool
) -> None:
    database, between = cuttable
    between.cut_at(b"INSERT", delivered=delivered)
    body = Body()
    with pytest.raises(CommitUnknown, match="lost in a statement"):
        database.single(body)
    assert body.runs == 1
    assert _eventually(lambda: names(postgres) == (["x"] if delivered else []))
    between.cut_at(b"INSERT", delivered=delivered)
    assert database.single(Body(), lookup=True) == "x"


def _eventually(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if true():
            return True
        until.wait(0.02)
    return False


def test_connections_cut_while_idle_cost_nothing(cuttable: tuple[Database, Proxy], postgres: Database) -> None:
    database, between = cuttable
    between.cut()
    between.resume()
    assert database.write(Body()) == "x"
    between.cut()
    between.resume()
    assert names(database) == ["x"]


def test_an_unreachable_database_is_told_in_one_line_without_the_password(cuttable: tuple[Database, Proxy]) -> None:
    database, between = cuttable
    between.cut()
    with pytest.raises(DatabaseUnavailable) as told:
        database.write(Body())
    text = str(told.value)
    assert "\n" not in text
    assert str(database.url.port) in text
    assert str(database.url.password) not in text
    between.resume()
    assert database.write(Body()) == "x"


# -- a kept connection -------------------------------------------------------------------------------------------------


def test_a_kept_connection_stays(postgres: Database) -> None:
    kept = postgres.keep()
    backend = sa.text("SELECT pg_backend_pid()")
    pids = {kept.single(lambda tx: tx.execute(backend).scalar_one()) for _ in range(3)}
    assert len(pids) == 1
    assert {kept.write(lambda tx: tx.execute(backend).scalar_one()) for _ in range(3)} & pids
    kept.close()
    kept.close()


def test_a_kept_connection_writes(database: Database) -> None:
    kept = database.keep()
    assert [kept.single(Body("x")), kept.write(Body("y")), kept.single(Body("z"))] == ["x", "y", "z"]
    with pytest.raises(ValueError, match="no"):
        kept.write(Body("w", meanwhile=_refuse))
    assert kept.write(Body("v")) == "v"
    assert names(database) == ["v", "x", "y", "z"]
    kept.close()


def _refuse(tx: Tx, run: int) -> None:
    raise ValueError("no")


@pytest.mark.parametrize("mode", ["single", "write"])
def test_a_kept_connection_tries_once_and_reconnects(cuttable: tuple[Database, Proxy], mode: str) -> None:
    database, between = cuttable
    kept = database.keep()
    run = kept.single if mode == "single" else kept.write
    run(Body("first"))
    between.cut()
    body = Body()
    with pytest.raises((CommitUnknown, DatabaseUnavailable)):
        run(body)
    with pytest.raises(DatabaseUnavailable):
        run(body)
    assert body.runs <= 1
    between.resume()
    assert run(body) == "x"
    kept.close()


def test_a_kept_connection_cut_at_commit(cuttable: tuple[Database, Proxy], postgres: Database) -> None:
    database, between = cuttable
    kept = database.keep()
    between.cut_at(COMMIT, delivered=True)
    with pytest.raises(CommitUnknown):
        kept.write(Body())
    assert names(postgres) == ["x"]
    assert kept.write(Body("y")) == "y"
    kept.close()
