"""The token source: it only grows, is drawn at claim and never set back. Gaps mean nothing."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from tenure.db.schema import fencing_token_counter, fencing_token_sequence
from tenure.db.tx import Tx

RESTORE_LEAP = 10**9


def next_token() -> ColumnElement[Any]:
    """PostgreSQL: the next token, drawn for each row of the statement."""
    return fencing_token_sequence.next_value()


_raise = (
    sa.update(fencing_token_counter)
    .values(last=fencing_token_counter.c.last + sa.bindparam("n", type_=sa.BigInteger()))
    .returning(fencing_token_counter.c.last)
)


def draw(tx: Tx, count: int) -> range:
    """SQLite: raises the counter once and returns `count` new tokens."""
    last = tx.execute(_raise, {"n": count}).scalar_one()
    return range(last - count + 1, last + 1)
