"""What the tests of the app hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure import Tenure, Turn
from tenure.db.schema import background_jobs
from tenure.records import Approval
from tenure.testing import Driver


@dataclass
class Made:
    app: Tenure
    tools: Any
    worker: Driver
    calls: list[Any]

    def asked(self, session: str = "s", **fields: Any) -> tuple[Turn, Approval]:
        """A turn of the recipe `pay`, worked up to its question."""
        turn = self.app.submit(4, session_id=session, command="pay", **fields)
        self.worker.drain()
        (approval,) = turn.pending()
        return turn, approval


def jobs_of(app: Tenure) -> int:
    """How many jobs there are, by the table."""
    count = sa.select(sa.func.count()).select_from(background_jobs)
    return int(app.program.database.read(lambda tx: tx.execute(count).scalar_one()))
