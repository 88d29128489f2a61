"""Hints that there may be something to do. A lost hint costs one poll; polling alone is the truth."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import sqlalchemy as sa

from tenure.db.tx import Tx

log = logging.getLogger("tenure.db")
RECONNECT_SECONDS = 2.0


class Source(Protocol):
    """What a Wakeup needs of the database that it belongs to."""

    is_sqlite: bool
    schema: str | None

    def single(self, body: Callable[[Tx], None]) -> None: ...

    def connect(self, mode: Literal["single"]) -> AbstractContextManager[sa.Connection]: ...


class Wakeup:
    """NOTIFY and LISTEN on PostgreSQL; within one process on SQLite.

    A waiter reads `generation` *before* it looks for work and passes it to `wait`, so that a hint in between is not
    lost. `notify=False` (for poolers) leaves polling alone.
    """

    def __init__(self, database: Source, *, notify: bool = True) -> None:
        self._database = database
        self.notify = notify
        self._changed = threading.Condition()
        self._generation = 0
        self._local = threading.local()
        self._owed = False
        self._subscribers: list[Callable[[], None]] = []
        self._stopping = threading.Event()
        self._listener: threading.Thread | None = None

    @property
    def channel(self) -> str:
        return f"tenure_{self._database.schema}"

    @property
    def generation(self) -> int:
        """How many hints have come; grows for ever."""
        return self._generation

    def announce(self, tx: Tx) -> None:
        """Sends one hint with the commit of this transaction."""
        if getattr(self._local, "coalescing", False):
            self._owed = True
        elif self.notify and not self._database.is_sqlite:
            self._send(tx)

    def coalesce(self) -> None:
        """From now on the transactions of this thread send no hint of their own: a worker's, which claims itself."""
        self._local.coalescing = True

    def take_owed(self) -> bool:
        """Whether a coalesced hint is owed to other processes; the caller sends it with `hint` if it will not do the
        work itself."""
        owed, self._owed = self._owed, False
        return owed

    def subscribe(self, woken: Callable[[], None]) -> None:
        """Calls `woken` at each hint, from whichever thread brings it; it must return at once."""
        self._listen()
        self._subscribers.append(woken)

    def unsubscribe(self, woken: Callable[[], None]) -> None:
        """Ends that."""
        self._subscribers.remove(woken)

    def announced(self) -> None:
        """The transaction has committed: wakes the waiters of this process."""
        for woken in list(self._subscribers):
            woken()
        self.changed()

    def changed(self) -> None:
        """Something ended: wakes those who wait in this process, and no worker."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    def hint(self) -> None:
        """Sends one hint now, on a connection of its own."""
        if self.notify and not self._database.is_sqlite:
            self._database.single(self._send)
        self.announced()

    def _send(self, tx: Tx) -> None:
        tx.execute(sa.select(sa.func.pg_notify(self.channel, "")))

    def wait(self, seen: int, timeout: float) -> None:
        """Returns when a hint has come since `seen`, or after `timeout` seconds."""
        self._listen()
        with self._changed:
            self._changed.wait_for(lambda: self._generation != seen, timeout)

    def stop(self) -> None:
        """Ends the listener and wakes every waiter; may be called again."""
        self._stopping.set()
        self.announced()
        if self._listener is not None:
            self._listener.join(timeout=5)
            self._listener = None

    def _listen(self) -> None:
        if self._database.is_sqlite or not self.notify or self._listener is not None:
            return
        self._stopping.clear()
        self._listener = threading.Thread(target=self._follow, name="tenure-listen", daemon=True)
        self._listener.start()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._receive()
            except Exception as error:  # noqa: BLE001  (whatever the driver raises: polling goes on)
                log.info("wake-up connection lost", extra={"error": type(error).__name__})
                self.announced()
                self._stopping.wait(RECONNECT_SECONDS)

    def _receive(self) -> None:
        with self._database.connect("single") as connection:
            connection.exec_driver_sql(f'LISTEN "{self.channel}"')
            driver: Any = connection.connection.driver_connection
            try:
                while not self._stopping.is_set():
                    for _ in driver.notifies(timeout=0.5, stop_after=1):
                        self.announced()
            finally:
                connection.invalidate()  # a pooled connection must not go on listening
