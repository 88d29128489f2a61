"""Saying that a worker is here and how busy it is. Nobody's recovery depends on it."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version
from typing import Any, Protocol

from tenure.flow import Program
from tenure.store import workers
from tenure.worker.background import Repeating

EVERY_S = 10.0


class Present(Protocol):
    """What presence reads of a worker."""

    owner: str
    name: str
    slots: int

    @property
    def tools(self) -> list[str]: ...
    @property
    def busy(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def stuck_threads(self) -> int: ...


class Presence:
    """Writes the worker's row at start, every ten seconds, and once more at the end."""

    def __init__(self, program: Program, worker: Present) -> None:
        self._program = program
        self._worker = worker
        self.loop = Repeating("tenure-presence", EVERY_S, self.run_once, program)

    def run_once(self) -> None:
        """Writes the row."""
        worker = self._worker
        facts: dict[str, Any] = {
            "name": worker.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("tenure"),
            "tools": worker.tools,
            "slots": worker.slots,
        }
        changing = {"status": worker.status, "busy": worker.busy, "stuck_threads": worker.stuck_threads}
        self._program.database.write(lambda tx: workers.beat(tx, worker.owner, facts, changing))
