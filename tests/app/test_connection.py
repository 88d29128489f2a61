"""`enqueue` on the caller's own connection: the job exists if and only if the caller commits."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3 as standard
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure import Tenure, sqlite
from tenure.errors import IdempotencyConflict, InvalidInput, NotImmediate, UnsafeConnection
from tests.app.running import Made, jobs_of

Commit = Callable[[], None]
ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, sum INTEGER NOT NULL)"


def file_of(app: Tenure) -> str:
    return str(app.program.database.url.database)


def sqlalchemy_url(app: Tenure) -> sa.URL:
    return app.program.database.url


def engine_of(app: Tenure) -> sa.Engine:
    """An engine as a user makes it: on SQLite with Tenure's build, and nothing else of Tenure's."""
    keywords = {"module": sqlite.sqlite3} if app.program.database.is_sqlite else {}
    return sa.create_engine(sqlalchemy_url(app), **keywords)


@contextlib.contextmanager
def sa_connection(app: Tenure) -> Iterator[tuple[Any, Callable[[str], Any], Commit, Commit]]:
    engine = engine_of(app)
    with engine.connect() as connection:
        yield connection, connection.exec_driver_sql, connection.commit, connection.rollback
    engine.dispose()


@contextlib.contextmanager
def sa_session(app: Tenure) -> Iterator[tuple[Any, Callable[[str], Any], Commit, Commit]]:
    engine = engine_of(app)
    with Session(engine) as session:
        yield session, lambda text: session.execute(sa.text(text)), session.commit, session.rollback
    engine.dispose()


@contextlib.contextmanager
def driver(app: Tenure) -> Iterator[tuple[Any, Callable[[str], Any], Commit, Commit]]:
    """psycopg or sqlite3 itself."""
    is_sqlite = app.program.database.is_sqlite
    connection: Any = sqlite.sqlite3.connect(file_of(app)) if is_sqlite else psycopg.connect(dsn(app))
    with contextlib.closing(connection):
        yield connection, connection.execute, connection.commit, connection.rollback


@contextlib.contextmanager
def driver_with_rows_of_its_own(app: Tenure) -> Iterator[tuple[Any, Callable[[str], Any], Commit, Commit]]:
    """A user may want rows as dicts: Tenure's statements must not see them so."""
    with driver(app) as given:
        given[0].row_factory = (lambda cursor, row: {"row": row}) if app.program.database.is_sqlite else dict_row
        yield given


@contextlib.contextmanager
def own(app: Tenure) -> Iterator[tuple[Any, Callable[[str], Any], Commit, Commit]]:
    """What `app.connection()` hands out."""
    with app.connection() as connection:
        yield connection, connection.exec_driver_sql, connection.commit, connection.rollback


def dsn(app: Tenure) -> str:
    return sqlalchemy_url(app).set(drivername="postgresql").render_as_string(hide_password=False)


KINDS = [sa_connection, sa_session, driver, driver_with_rows_of_its_own, own]


@pytest.fixture
def orders(app: Tenure) -> Iterator[Callable[[], int]]:
    """A table of the user's own, and how many rows it has."""
    database = app.program.database
    database.write(lambda tx: tx.connection.exec_driver_sql(ORDERS))

    def count() -> int:
        found = database.read(lambda tx: tx.connection.exec_driver_sql("SELECT count(*) FROM orders").scalar_one())
        return int(found)

    yield count
    database.write(lambda tx: tx.connection.exec_driver_sql("DROP TABLE orders"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_job_exists_if_and_only_if_the_caller_commits(made: Made, orders: Callable[[], int], kind: Any) -> None:
    app = made.app
    with kind(app) as (connection, execute, commit, rollback):
        execute("INSERT INTO orders VALUES (1, 500)")
        lost = app.enqueue("add", {"a": 1}, connection=connection)
        assert lost.row.status == "queued", "the caller gets the job before the commit"
        rollback()
        assert (orders(), jobs_of(app)) == (0, 0)

        execute("INSERT INTO orders VALUES (2, 700)")
        kept = app.enqueue("add", {"a": 2}, connection=connection, idempotency_key="order-2")
        assert (orders(), jobs_of(app)) == (0, 0), "nothing is seen before the commit"
        commit()
        assert (orders(), jobs_of(app)) == (1, 1)

        again = app.enqueue("add", {"a": 2}, connection=connection, idempotency_key="order-2")
        assert (again.id, again.replayed) == (kept.id, True)
        commit()
    made.worker.drain()
    assert kept.result("5s") == 4
    assert jobs_of(app) == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_conflict_leaves_the_callers_transaction_usable(made: Made, orders: Callable[[], int], kind: Any) -> None:
    made.app.enqueue("add", {"a": 1}, idempotency_key="k")
    with kind(made.app) as (connection, execute, commit, _):
        execute("INSERT INTO orders VALUES (1, 500)")
        with pytest.raises(IdempotencyConflict):
            made.app.enqueue("add", {"a": 2}, idempotency_key="k", connection=connection)
        commit()
    assert (orders(), jobs_of(made.app)) == (1, 1)


def test_a_limited_tool_waits_for_its_key_and_is_admitted_by_maintenance(app: Tenure, made: Made) -> None:
    @app.tool(limit=1)
    def limited(n: int) -> int:
        return n

    with own(app) as (connection, _, commit, _):
        jobs = [app.enqueue(limited, {"n": n}, connection=connection) for n in range(3)]
        commit()
    made.worker.drain()
    assert [job.result("5s") for job in jobs] == [0, 1, 2]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["postgresql://", 7, object(), sa.create_engine("sqlite://")], ids=lambda v: str(v)[:9]
)
def test_something_that_is_no_connection(made: Made, wrong: Any) -> None:
    with pytest.raises(
        InvalidInput, match="right is a SQLAlchemy Connection or Session, a psycopg connection or a sqli"
    ):
        made.app.enqueue("add", {"a": 1}, connection=wrong)


def test_a_connection_to_another_kind_of_database(made: Made, postgres_url: str, tmp_path: Path) -> None:
    if made.app.program.database.is_sqlite:
        other: Any = psycopg.connect(postgres_url)
        engine = sa.create_engine(sa.make_url(postgres_url).set(drivername="postgresql+psycopg"))
    else:
        other = sqlite.sqlite3.connect(tmp_path / "other.db")
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}", module=sqlite.sqlite3)
    with contextlib.closing(other), engine.connect() as connection:
        for wrong in (other, connection):
            with pytest.raises(InvalidInput, match="connection is to"):
                made.app.enqueue("add", {"a": 1}, connection=wrong)
    engine.dispose()


def on_sqlite(tmp_path: Path) -> Tenure:
    app = Tenure(f"sqlite:///{tmp_path / 'one.db'}")

    @app.tool()
    def add(a: int) -> int:
        return a

    assert jobs_of(app) == 0
    return app


def test_a_sqlite_build_that_may_lose_data_in_wal_mode_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build that runs the test may be safe: which versions are not is the table of `tests/db`."""
    app = on_sqlite(tmp_path)
    assert sqlite.wal_safe, "the suite runs in WAL mode"
    monkeypatch.setattr(sqlite, "is_wal_safe", lambda version: version != sqlite.version)
    text = (
        rf"this connection is of SQLite {sqlite.version}, which can corrupt a database in WAL mode: use app\.connecti"
    )
    engine = engine_of(app)
    with contextlib.closing(sqlite.sqlite3.connect(file_of(app))) as raw, engine.connect() as wrapped:
        for connection in (raw, wrapped):
            with pytest.raises(UnsafeConnection, match=text):
                app.enqueue("add", {"a": 1}, connection=connection)
    engine.dispose()
    assert jobs_of(app) == 0
    app.close()


def test_the_same_build_is_taken_with_a_rollback_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is one of WAL mode alone."""
    monkeypatch.setattr(sqlite, "wal_safe", False)
    monkeypatch.setattr(sqlite, "is_wal_safe", lambda version: False)
    app = on_sqlite(tmp_path)
    with contextlib.closing(sqlite.sqlite3.connect(file_of(app))) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        app.enqueue("add", {"a": 1}, connection=raw)
        raw.commit()
    assert jobs_of(app) == 1
    app.close()


def test_the_standard_module_is_taken_or_refused_by_its_version(tmp_path: Path) -> None:
    app = on_sqlite(tmp_path)
    with contextlib.closing(standard.connect(file_of(app))) as connection:
        if sqlite.is_wal_safe(standard.sqlite_version):
            app.enqueue("add", {"a": 1}, connection=connection)
            connection.commit()
        else:
            with pytest.raises(UnsafeConnection, match=r"from tenure\.sqlite import sqlite3"):
                app.enqueue("add", {"a": 1}, connection=connection)
    assert jobs_of(app) == int(sqlite.is_wal_safe(standard.sqlite_version))
    app.close()


@pytest.mark.parametrize("wrapped", [False, True], ids=["sqlite3", "SQLAlchemy"])
def test_a_transaction_that_read_before_it_wrote_is_told_to_begin_immediate(tmp_path: Path, wrapped: bool) -> None:
    """BUSY comes at once, whatever the timeout, for the snapshot is old: only the caller can begin anew."""
    app = on_sqlite(tmp_path)
    engine = engine_of(app)
    with contextlib.closing(sqlite.sqlite3.connect(file_of(app))) as raw, engine.connect() as alchemy:
        connection, execute = (alchemy, alchemy.exec_driver_sql) if wrapped else (raw, raw.execute)
        raw.isolation_level = None
        if not wrapped:
            execute("BEGIN")
        else:
            execute("SAVEPOINT by_hand")  # the driver begins at writes only
        execute("SELECT count(*) FROM background_jobs").fetchall()
        app.enqueue("add", {"a": 1})  # somebody else writes meanwhile
        with pytest.raises(NotImmediate, match="begin it with BEGIN IMMEDIATE"):
            app.enqueue("add", {"a": 2}, connection=connection)
        connection.rollback()
        if not wrapped:
            execute("BEGIN IMMEDIATE")
        app.enqueue("add", {"a": 3}, connection=connection)
        connection.commit()
    engine.dispose()
    assert jobs_of(app) == 2
    app.close()


# -- PostgreSQL alone --------------------------------------------------------------------------------------------------


@pytest.fixture
def on_postgres(postgres_url: str) -> Iterator[Tenure]:
    app = Tenure(postgres_url)

    @app.tool()
    def add(a: int) -> int:
        return a

    assert jobs_of(app) == 0
    yield app
    app.close()


def test_the_hint_arrives_with_the_commit_and_not_before(on_postgres: Tenure) -> None:
    app = on_postgres
    with psycopg.connect(dsn(app), autocommit=True) as listener, psycopg.connect(dsn(app)) as caller:
        listener.execute(f'LISTEN "{app.program.database.wakeup.channel}"')
        app.enqueue("add", {"a": 1}, connection=caller)
        assert list(listener.notifies(timeout=0.2)) == []
        caller.rollback()
        assert list(listener.notifies(timeout=0.2)) == [], "a rollback takes the hint along"
        app.enqueue("add", {"a": 1}, connection=caller)
        app.enqueue("add", {"a": 2}, connection=caller)
        caller.commit()
        assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1, "one hint a transaction"
        assert list(listener.notifies(timeout=0.2)) == []


def test_hints_can_be_switched_off(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_NOTIFY", "false")
    app = Tenure(postgres_url)
    app.tool(name="add")(_add)
    with psycopg.connect(dsn(app), autocommit=True) as listener, psycopg.connect(dsn(app)) as caller:
        listener.execute(f'LISTEN "{app.program.database.wakeup.channel}"')
        app.enqueue("add", {"a": 1}, connection=caller)
        caller.commit()
        app.enqueue("add", {"a": 2})
        assert list(listener.notifies(timeout=0.2)) == []
    assert jobs_of(app) == 2
    app.close()


def _add(a: int) -> int:
    return a


def test_async_connections_go_through_aenqueue(on_postgres: Tenure) -> None:
    app = on_postgres

    async def story() -> list[str]:
        engine = create_async_engine(sqlalchemy_url(app))
        async with AsyncSession(engine) as session:
            await session.execute(sa.text("SELECT 1"))
            await app.aenqueue("add", {"a": 1}, connection=session)
            await session.rollback()
            kept = await app.aenqueue("add", {"a": 2}, connection=session, idempotency_key="k")
            with pytest.raises(InvalidInput, match=r"connection is an AsyncSession: use `await app\.aenqueue"):
                app.enqueue("add", {"a": 3}, connection=session)
            assert jobs_of(app) == 0
            await session.commit()
        async with engine.connect() as connection:
            again = await app.aenqueue("add", {"a": 2}, connection=connection, idempotency_key="k")
            await connection.commit()
        async with await psycopg.AsyncConnection.connect(dsn(app)) as raw:
            with pytest.raises(InvalidInput, match="connection is AsyncConnection"):
                await app.aenqueue("add", {"a": 3}, connection=raw)
        await engine.dispose()
        return [kept.id, again.id]

    first, second = asyncio.run(story())
    assert first == second
    assert jobs_of(app) == 1


def test_above_read_committed_a_conflict_is_the_callers_to_retry(on_postgres: Tenure) -> None:
    """40001: nobody but the caller can run the caller's transaction again."""
    app = on_postgres
    with psycopg.connect(dsn(app)) as caller:
        caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        caller.execute("SELECT 1 FROM tenure.background_jobs").fetchall()
        app.enqueue("add", {"a": 1}, idempotency_key="k")
        with pytest.raises(sa.exc.OperationalError, match="could not serialize access") as caught:
            app.enqueue("add", {"a": 1}, idempotency_key="k", connection=caller)
        assert getattr(caught.value.orig, "sqlstate", "") == "40001"
        caller.rollback()
        assert app.enqueue("add", {"a": 1}, idempotency_key="k", connection=caller).replayed
        caller.commit()
    assert jobs_of(app) == 1
