"""Facts of the database as a whole."""

from __future__ import annotations

import sqlalchemy as sa

from tenure.db.schema import tenure_meta
from tenure.db.tx import Tx


def identity(tx: Tx) -> str:
    """The database's own id: fences of different databases are never compared."""
    found: str = tx.execute(sa.select(tenure_meta.c.database_id)).scalar_one()
    return found
