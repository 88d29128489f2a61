"""A database: from a URL to transactions that are retried where nothing happened, and only there."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from tenure import sqlite
from tenure.db.faults import Fault, fault_of
from tenure.db.schema import SCHEMA
from tenure.db.turnstile import Turnstile
from tenure.db.tx import Tx
from tenure.db.wakeup import Wakeup
from tenure.errors import CommitUnknown, DatabaseError, DatabaseUnavailable, MissingExtra, SettingsError

T = TypeVar("T")
log = logging.getLogger("tenure.db")
Mode = Literal["write", "read", "single"]

TRIES = 6
BUSY_SECONDS = 10.0
MODE = "tenure_mode"


_opening = threading.Lock()
_open_files: weakref.WeakSet[Database] = weakref.WeakSet()  # what SQLite must not carry across a fork


def _before_fork() -> None:
    for database in list(_open_files):
        database._before_fork()


def _forget_parent() -> None:
    """In a forked child: the lock may have been held by a thread that is not there any more."""
    global _opening
    _opening = threading.Lock()


os.register_at_fork(before=_before_fork, after_in_child=_forget_parent)


def parse_url(url: str) -> URL:
    """The URL of a SQLite file or of PostgreSQL; anything else is refused with what would be right."""
    right = "sqlite:///tenure.db or postgresql://user:password@host/database"
    try:
        parsed = make_url(url.replace("postgres://", "postgresql://", 1) if url.startswith("postgres://") else url)
    except (ArgumentError, ValueError):
        raise SettingsError(f"database URL {_safe(url)!r} cannot be read; write {right}") from None
    kind = parsed.get_backend_name()
    if kind == "sqlite" and (not parsed.database or parsed.database == ":memory:"):
        raise SettingsError("a SQLite database must be a file, for example sqlite:///tenure.db")
    if kind not in ("sqlite", "postgresql"):
        raise SettingsError(f"database URL names {kind!r}; write {right}")
    return parsed.set(drivername="postgresql+psycopg") if kind == "postgresql" else parsed


def _safe(url: str) -> str:
    """The URL without what may be a password."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}://{rest.rsplit('@', 1)[-1]}" if found else url[:40]


class Database:
    """One SQLite file or one PostgreSQL schema. Opens nothing until its first use, and opens anew after a fork."""

    def __init__(self, url: str, *, schema: str = SCHEMA, pool_size: int = 10, prepare: bool = True) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.schema = None if self.is_sqlite else schema
        self._wakeup = Wakeup(self)
        self.clock_shift: str | None = None  # SQL for seconds; only tenure.testing sets it
        self.checkpoint: Callable[[str, str], None] | None = None  # hears of each commit; only tenure.testing sets it
        self._pool_size = pool_size
        self._prepare = prepare
        self._turnstile = Turnstile()
        self._engine: sa.Engine | None = None
        self._pid = 0
        self._carried = 0

    @property
    def name(self) -> str:
        """What a person is told: an absolute path, or a URL without its password."""
        if self.is_sqlite:
            return os.path.abspath(self.url.database or "")
        return self.url.render_as_string(hide_password=True).replace("+psycopg", "")

    @property
    def wakeup(self) -> Wakeup:
        """The hints of this process: after a fork anew, like the engine."""
        if self._engine is not None and self._pid != os.getpid():
            self._open_once()
        return self._wakeup

    @property
    def engine(self) -> sa.Engine:
        if self._engine is None or self._pid != os.getpid():
            self._open_once()
        assert self._engine is not None
        return self._engine

    def _open_once(self) -> None:
        with _opening:
            self._open()

    def _open(self) -> None:
        if self._pid == os.getpid():
            return
        if self._carried:
            raise DatabaseError(
                f"{self.name} was in use when this process was forked, which SQLite does not bear: "
                "fork before its first use, or start a new process"
            )
        if self._engine is not None:
            self._engine.dispose(close=False)  # the parent's connections stay the parent's
            self._turnstile = Turnstile()
            self._wakeup = Wakeup(self, notify=self._wakeup.notify)
        self._engine = self._create()
        self._pid = os.getpid()
        if self.is_sqlite:
            _open_files.add(self)

    def _before_fork(self) -> None:
        """Closes idle connections, and notes for the child whether others are in use.

        SQLite keeps its file locks by process and inherits the belief to hold them: with a connection that was carried
        across a fork, parent and child take the write-ahead log away from each other, and commits are lost.
        """
        if self._engine is not None and self._pid == os.getpid():
            pool: Any = self._engine.pool
            self._carried = pool.checkedout()
            self._engine.dispose()

    def _create(self) -> sa.Engine:
        engine = self._create_sqlite() if self.is_sqlite else self._create_postgresql()
        if self.clock_shift is not None:
            engine.dialect.tenure_clock_shift = self.clock_shift  # type: ignore[attr-defined]
        return engine

    def _create_sqlite(self) -> sa.Engine:
        if not sqlite.wal_safe:
            log.warning("SQLite %s is not safe in WAL mode: using a rollback journal, which is slower", sqlite.version)
        engine = sa.create_engine(
            self.url,
            module=sqlite.sqlite3,
            pool_size=self._pool_size,
            max_overflow=20,
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        )
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _create_postgresql(self) -> sa.Engine:
        try:
            return sa.create_engine(
                self.url,
                isolation_level="READ COMMITTED",
                pool_size=self._pool_size,
                max_overflow=20,
                connect_args={"prepare_threshold": 5 if self._prepare else None, "connect_timeout": 10},
            )
        except ImportError:
            raise MissingExtra("PostgreSQL support is not installed: pip install 'tenure[postgres]'") from None

    # -- transactions ----------------------------------------------------------------------------------------------

    def write(self, body: Callable[[Tx], T], *, lookup: bool = False, urgent: bool = False) -> T:
        """Runs `body` in one write transaction and returns what it returned.

        Where nothing can have happened (a conflict, a connection lost before COMMIT was sent) it is run again. Where
        the answer to COMMIT was lost, `lookup=True` says that `body` finds its own earlier commit and may run again;
        otherwise CommitUnknown is raised. DatabaseUnavailable after the last try.
        """
        return self._retried(lambda: self._once(body, "write", urgent), lookup)

    def single(self, body: Callable[[Tx], T], *, lookup: bool = False, urgent: bool = False) -> T:
        """Runs a verb of one guarded statement: without BEGIN and COMMIT where the database allows it."""
        return self._retried(lambda: self._once(body, "single", urgent), lookup)

    def read(self, body: Callable[[Tx], T]) -> T:
        """Runs a body that only reads, in one snapshot."""
        return self._retried(lambda: self._once(body, "read", False), lookup=True)

    def keep(self) -> Kept:
        """A connection of one's own that stays open between uses."""
        return Kept(self)

    @contextmanager
    def bounded(self, connection: sa.Connection, seconds: float) -> Iterator[None]:
        """Whatever waits on this connection longer than that fails: a lock, or a link that has gone silent."""
        driver: Any = connection.connection.driver_connection
        if self.is_sqlite:
            driver.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            yield
            driver.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
            return
        limit = threading.Timer(seconds, _break_off, [driver])
        limit.daemon = True
        limit.start()
        try:
            yield
        finally:
            limit.cancel()

    def _once(self, body: Callable[[Tx], T], mode: Mode, urgent: bool) -> T:
        with self.writing(mode, urgent=urgent), self.connect(mode) as connection:
            return self.run_on(connection, body, mode)

    @contextmanager
    def connect(self, mode: Mode) -> Iterator[sa.Connection]:
        """A pooled connection set up for the mode."""
        with self.engine.connect() as connection:
            yield connection.execution_options(**self._options(mode))

    def _options(self, mode: Mode) -> dict[str, Any]:
        if self.is_sqlite:
            return {MODE: mode}
        if mode == "single":
            return {"isolation_level": "AUTOCOMMIT"}
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True} if mode == "read" else {}

    def writing(self, mode: Mode, *, urgent: bool = False) -> AbstractContextManager[None]:
        """The turnstile for SQLite's writers; nothing elsewhere."""
        if not self.is_sqlite or mode == "read":
            return nullcontext()
        if self._pid != os.getpid():
            self._open_once()  # first of all: the parent's turnstile may have been taken when it forked
        return self._turnstile.passing(urgent=urgent)

    def run_on(self, connection: sa.Connection, body: Callable[[Tx], T], mode: Mode) -> T:
        """One run of `body` on a connection, up to and with the commit."""
        tx = Tx(connection, self.schema, autocommit=mode == "single" and not self.is_sqlite)
        try:
            if tx.autocommit:
                self._reach("before", body, mode)
            result = body(tx)
            tx.finish()
            if tx.wakes:
                self.wakeup.announce(tx)
            if not tx.autocommit:
                self._reach("before", body, mode)
        except DBAPIError as error:
            self._roll_back(connection)
            # A single statement is its own commit: once sent, nobody knows.
            if tx.autocommit and fault_of(error) is Fault.LOST:
                raise CommitUnknown(f"connection to {self.name} lost in a statement") from error
            raise
        except BaseException:
            self._roll_back(connection)
            raise
        self._commit(connection)
        self._reach("after", body, mode)
        if tx.wakes:
            self.wakeup.announced()
        return result

    def _reach(self, when: str, body: Any, mode: Mode) -> None:
        if self.checkpoint is not None and mode != "read":
            function = getattr(body, "func", body)
            verb = f"{function.__module__}.{function.__qualname__}".partition(".<locals>")[0]
            self.checkpoint(when, verb.removeprefix("tenure."))

    def _commit(self, connection: sa.Connection) -> None:
        try:
            connection.commit()
        except DBAPIError as error:
            self._roll_back(connection)
            if fault_of(error) is Fault.LOST:
                raise CommitUnknown(f"connection to {self.name} lost while committing") from error
            raise

    @staticmethod
    def _roll_back(connection: sa.Connection) -> None:
        try:
            connection.rollback()
        except DBAPIError:
            connection.invalidate()

    def _retried(self, once: Callable[[], T], lookup: bool) -> T:
        for tried in range(1, TRIES + 1):
            try:
                return once()
            except CommitUnknown:
                if not lookup or tried == TRIES:
                    raise
            except DBAPIError as error:
                fault = fault_of(error)
                if fault is Fault.OTHER:
                    raise
                if tried == TRIES or fault is Fault.UNUSABLE:
                    raise self._unavailable(error) from error
            time.sleep(random.uniform(0, 0.02 * 2**tried))
        raise AssertionError("unreachable: the last try returns or raises")

    def _unavailable(self, error: DBAPIError) -> DatabaseError:
        first_line = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        return DatabaseUnavailable(f"{self.name}: {first_line}")

    # -- a caller's connection -------------------------------------------------------------------------------------

    def dispose(self) -> None:
        """Closes every pooled connection; the next use opens anew."""
        self.wakeup.stop()
        if self._engine is not None and self._pid == os.getpid():
            self._engine.dispose()


class Kept:
    """A connection that stays open between uses, for one thread; it reconnects by itself after a loss."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: sa.Connection | None = None
        self._mode: Mode | None = None
        self._pid = 0

    def single(self, body: Callable[[Tx], T], *, urgent: bool = False, within_s: float | None = None) -> T:
        """Runs a verb of one guarded statement once. DatabaseUnavailable, CommitUnknown: the caller decides.

        With `within_s` the connection is broken off when no answer has come by then: a link can go silent for long.
        """
        return self._run(body, "single", urgent, within_s)

    def write(self, body: Callable[[Tx], T], *, urgent: bool = False) -> T:
        """Runs one write transaction once."""
        return self._run(body, "write", urgent)

    def _run(self, body: Callable[[Tx], T], mode: Mode, urgent: bool, within_s: float | None = None) -> T:
        database = self._database
        try:
            with database.writing(mode, urgent=urgent):
                connection = self._connection(mode)
                with nullcontext() if within_s is None else database.bounded(connection, within_s):
                    return database.run_on(connection, body, mode)
        except DBAPIError as error:
            self.close()
            if fault_of(error) is Fault.OTHER:
                raise
            raise database._unavailable(error) from error
        except CommitUnknown:
            self.close()
            raise

    def _connection(self, mode: Mode) -> sa.Connection:
        if self._pid != os.getpid():
            self._open = None
        if self._open is None or self._mode != mode:
            self.close()
            self._open = self._database.engine.connect().execution_options(**self._database._options(mode))
            self._mode, self._pid = mode, os.getpid()
        return self._open

    def close(self) -> None:
        """Gives the connection back."""
        if self._open is None:
            return
        try:
            if self._database.is_sqlite:
                self._open.invalidate()  # its busy timeout may be another
            self._open.close()
        except DBAPIError:
            self._open.invalidate()
        finally:
            self._open = None


def _break_off(driver: Any) -> None:
    """From another thread: whoever waits for this connection's answer hears an error at once."""
    with suppress(Exception), socket.socket(fileno=os.dup(driver.fileno())) as link:  # it may have closed just now
        link.shutdown(socket.SHUT_RDWR)


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin_sqlite` alone
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    connection.execute(f"PRAGMA journal_mode = {'WAL' if sqlite.wal_safe else 'DELETE'}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    """Writers begin as writers: a read that turns into a write fails at once, whatever the busy timeout."""
    mode = connection.get_execution_options().get(MODE, "write")
    connection.exec_driver_sql("BEGIN" if mode == "read" else "BEGIN IMMEDIATE")
