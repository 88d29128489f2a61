"""INSERT … ON CONFLICT DO NOTHING without a target, on both databases.

Never a caught violation: that would abort a caller's transaction on PostgreSQL.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert


def insert_if_absent(table: sa.Table) -> Insert:
    """An insert that leaves an existing row alone; its row count says which it was. SQLite renders it too."""
    return insert(table).on_conflict_do_nothing()
