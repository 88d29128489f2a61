"""Kill points: before and after each commit of a program, and each call of a tool.

    points = KillPoints().watch(database)      # lists what a story reaches
    points = KillPoints(at=7).watch(database)  # the process dies at the seventh

With `how="raise"` the death is a `Killed` that no code of Tenure catches; with `how="kill"` it is SIGKILL.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import Literal

from tenure.db.engine import Database


class Killed(BaseException):
    """The process died here. What it held stays as it is: nothing may clean up after it."""


@dataclass(slots=True)
class KillPoints:
    """`reached` lists the points in the order in which they were passed; the `at`-th, from 0, is deadly."""

    at: int | None = None
    how: Literal["raise", "kill"] = "raise"
    reached: list[str] = field(default_factory=list)

    def watch(self, database: Database) -> KillPoints:
        """Lists every commit of this database in this process from now on."""
        database.checkpoint = self.reach
        return self

    def reach(self, when: str, what: str) -> None:
        """A point is passed, or is the last."""
        self.reached.append(f"{when} {what}")
        if self.at is not None and len(self.reached) == self.at + 1:
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise Killed(self.reached[-1])
