"""The fair lock that SQLite's writers of one process pass, in which the keeper goes first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turnstile:
    """First come, first served, but urgent ones before all others.

    SQLite's own busy handler is neither fair nor aware of urgency: without this, a burst of writers in one process
    could keep the keeper waiting until its leases are over.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._busy = False
        self._urgent: deque[threading.Event] = deque()
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def passing(self, *, urgent: bool = False) -> Iterator[None]:
        """Holds the turnstile for the body."""
        self._enter(urgent)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, urgent: bool) -> None:
        with self._guard:
            if not self._busy:
                self._busy = True
                return
            turn = threading.Event()
            (self._urgent if urgent else self._waiting).append(turn)
        turn.wait()

    def _leave(self) -> None:
        with self._guard:
            queue = self._urgent or self._waiting
            if queue:
                queue.popleft().set()  # handed over: it stays busy
            else:
                self._busy = False
