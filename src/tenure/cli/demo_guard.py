"""One demo at a time on a database: it kills workers and asks one person, and the workers claim whatever is there."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import TYPE_CHECKING

from tenure import __version__
from tenure.errors import StateConflict
from tenure.flow import PLAN
from tenure.records import Worker
from tenure.store import views, workers
from tenure.worker.background import Repeating

if TYPE_CHECKING:
    from tenure.db.tx import Tx
    from tenure.flow import Program

NAME = "demo"
EVERY_S = 5.0
SILENT_S = 30.0
SETTLED_S = 1.0
"""By then whoever began earlier has said so."""


class Guard:
    """Says on the list of workers that a demo is here, and refuses when an earlier one is."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._owner = f"{NAME}:{secrets.token_hex(6)}"
        self._entered_at = 0.0
        self._beating = Repeating("tenure-demo", EVERY_S, self._beat, program)

    def enter(self) -> None:
        """StateConflict when an earlier demo is running."""
        self._beat()
        self._entered_at = time.monotonic()
        try:
            self._check()
        except StateConflict:
            self.leave()
            raise
        self._beating.start()

    def settle(self) -> None:
        """Looks once more, when two that began in the same moment can see each other. StateConflict."""
        time.sleep(max(0.0, self._entered_at + SETTLED_S - time.monotonic()))
        self._check()

    def leave(self) -> None:
        """The next demo may begin."""
        self._beating.stop()
        self._program.database.write(lambda tx: self._write(tx, "stopped"))

    def _beat(self) -> None:
        self._program.database.write(lambda tx: self._write(tx, "running"))

    def _write(self, tx: Tx, status: str) -> None:
        facts = {
            "name": NAME,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "tools": [],
            "slots": 0,
        }
        workers.beat(tx, self._owner, facts, {"status": status, "busy": 0, "stuck_threads": 0})

    def _check(self) -> None:
        database = self._program.database
        present = database.read(lambda tx: workers.present(tx, SILENT_S))
        self._refuse_company(present)
        demos = sorted((each for each in present if each.name == NAME), key=_age)
        if demos and demos[0].owner != self._owner:
            first = demos[0]
            raise StateConflict(
                f"another demo is running on {database.name} (pid {first.pid} on {first.host}, since "
                f"{first.started_at:%H:%M:%S}Z): wait until it has ended, or give another --database",
                "running",
            )

    def _refuse_company(self, present: list[Worker]) -> None:
        """Its workers would plan another program's turns, by recipes that they do not have."""
        own = {PLAN, *self._program.tools.names()}
        others = [each.owner for each in present if not own.issuperset(each.tools)]
        turns = self._program.database.read(lambda tx: views.open_turns(tx, f"{NAME}-"))
        if others or turns:
            name = self._program.database.name
            seen = f"worker {others[0]}" if others else f"{turns} unfinished turns"
            raise StateConflict(
                f"another program works on {name} ({seen}): give the demo a --database of its own", "busy"
            )


def _age(worker: Worker) -> tuple[float, str]:
    return worker.started_at.timestamp(), worker.owner
