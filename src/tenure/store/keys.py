"""Keys: what a job must hold beside its lease, who holds them, and who is next.

A job holds its limits while it is queued or running with `blocked_by` NULL. It holds its slot from its first admission
(`slot_held_at`) until it is terminal: a retry gives its limits back and keeps the slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
from tenure.db.rows import pack, table_of
from tenure.db.schema import background_jobs, job_keys
from tenure.db.tx import Tx
from tenure.db.types import Id, Key
from tenure.records import HeldKey, Job, RowKey
from tenure.store.jobs import jobs

WHOLE_DATABASE = "*"
_k = job_keys.c


def limit_key(tool: str) -> str:
    return f"limit/{tool}"


def user_limit_key(tool: str, user_id: str) -> str:
    return f"limit/{tool}/user/{user_id}"


def slot_key(area: str, slot: str) -> str:
    return f"slot/{area}/{slot}"


def place(tenant_id: str, key: str) -> RowKey:
    """The row of a key: limits belong to the whole database, slots to their tenant."""
    return RowKey(tenant_id if key.startswith("slot/") else WHOLE_DATABASE, key)


_wanted = table_of("wanted", {"tenant_id": Key(), "key": Key(), "places": sa.Integer()})
_ensure = insert_if_absent(job_keys).from_select(
    ["tenant_id", "key", "places", "created_at"],
    sa.select(_wanted.c.tenant_id, _wanted.c.key, _wanted.c.places, now()).where(sa.true()),
)
_named = table_of("named", {"tenant_id": Key(), "key": Key()})
_lock = (
    sa.select(*columns_of(job_keys, HeldKey))
    .join(_named, sa.and_(_k.tenant_id == _named.c.tenant_id, _k.key == _named.c.key))
    .order_by(_k.tenant_id, _k.key)
    .with_for_update(key_share=True, of=job_keys)
)


def ensure(tx: Tx, places: dict[RowKey, int]) -> None:
    """Creates the keys that are absent; the places of one that is there stay as they are."""
    tx.execute(_ensure, {"wanted": pack([[*key, number] for key, number in sorted(places.items())])})


def set_places(tx: Tx, tool: str, limit: int | None, limit_per_user: int | None) -> int:
    """Gives the keys of a tool the places that its declaration says now; returns how many changed."""
    of_users = _k.key.startswith(user_limit_key(tool, ""), autoescape=True)
    limits = [(_k.key == limit_key(tool), limit), (of_users, limit_per_user)]
    return sum(
        tx.count(
            sa.update(job_keys).where(_k.tenant_id == WHOLE_DATABASE, named, _k.places != places).values(places=places)
        )
        for named, places in limits
        if places is not None
    )


def lock(tx: Tx, keys: Iterable[RowKey]) -> dict[RowKey, HeldKey]:
    """Locks keys in key order to the end of the transaction."""
    found = many(HeldKey, tx.rows(_lock, {"named": pack(sorted(set(keys)))}))
    return {RowKey(key.tenant_id, key.key): key for key in found}


_active = sa.and_(
    jobs.blocked_by.is_(None), jobs.status.in_([sa.literal_column("'queued'"), sa.literal_column("'running'")])
)


def _holders(key: RowKey) -> sa.Select[Any]:
    if key.id.startswith("slot/"):
        return sa.select(sa.func.count()).where(
            jobs.slot_key == key.id, jobs.tenant_id == key.tenant_id, jobs.slot_held_at.is_not(None)
        )
    column = jobs.user_limit_key if "/user/" in key.id else jobs.limit_key
    return sa.select(sa.func.count()).where(column == key.id, _active)


def room(tx: Tx, key: HeldKey) -> int:
    """Free places of a locked key; none while a person holds it. A further statement than the lock's."""
    if key.held_by is not None:
        return 0
    held: int = tx.execute(_holders(RowKey(key.tenant_id, key.key))).scalar_one()
    return key.places - held


def slot_holders(tx: Tx, tenant_id: str, key: str) -> list[Job]:
    """The jobs that hold a slot."""
    statement = sa.select(*columns_of(background_jobs, Job)).where(
        jobs.slot_key == key, jobs.tenant_id == tenant_id, jobs.slot_held_at.is_not(None)
    )
    return many(Job, tx.rows(statement))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that waits at a key."""

    tenant_id: str
    job_id: str
    limit_key: str | None
    user_limit_key: str | None
    slot_key: str | None
    holds_slot: bool

    @property
    def needs(self) -> list[RowKey]:
        """The keys in which it needs a place, in lock order."""
        slot = None if self.holds_slot else self.slot_key
        return sorted(place(self.tenant_id, key) for key in (self.limit_key, self.user_limit_key, slot) if key)


_waiting = [
    jobs.tenant_id,
    jobs.job_id,
    jobs.limit_key,
    jobs.user_limit_key,
    jobs.slot_key,
    jobs.slot_held_at.is_not(None),
]


def waiting_at(tx: Tx, key: RowKey, limit: int, *, lock: bool = False) -> list[Candidate]:
    """The oldest due jobs blocked by a key; with `lock`, those that nobody else is at."""
    statement = (
        sa.select(*_waiting)
        .where(jobs.blocked_by == key.id, jobs.blocked_by.is_not(None), jobs.claim_at <= now())
        .order_by(jobs.claim_at, jobs.job_id)
        .limit(limit)
    )
    if key.tenant_id != WHOLE_DATABASE:
        statement = statement.where(jobs.tenant_id == key.tenant_id)
    if lock:
        statement = statement.with_for_update(key_share=True, skip_locked=True)
    return [Candidate(row[0], row[1], row[2], row[3], row[4], bool(row[5])) for row in tx.rows(statement)]


def blocking(tx: Tx, limit: int) -> list[RowKey]:
    """Keys at which due jobs wait."""
    statement = (
        sa.select(jobs.tenant_id, jobs.blocked_by)
        .distinct()
        .where(jobs.blocked_by.is_not(None), jobs.claim_at <= now())
        .limit(limit)
    )
    return sorted({place(row[0], row[1]) for row in tx.rows(statement)})


_moved = table_of("moved", {"tenant_id": Key(), "job_id": Id(), "blocked_by": Key()})
_move = (
    sa.update(background_jobs)
    .where(
        jobs.tenant_id == _moved.c.tenant_id,
        jobs.job_id == _moved.c.job_id,
        jobs.status == "queued",
        jobs.blocked_by.is_not(None),
    )
    .values(
        blocked_by=_moved.c.blocked_by,
        slot_held_at=sa.case(
            (
                sa.and_(_moved.c.blocked_by.is_(None), jobs.slot_key.is_not(None)),
                sa.func.coalesce(jobs.slot_held_at, now()),
            ),
            else_=jobs.slot_held_at,
        ),
    )
)


def move(tx: Tx, blocked_by: Sequence[tuple[Candidate, str | None]]) -> int:
    """Admits (None) or sets down at another key the candidates that this transaction has locked."""
    rows = [[candidate.tenant_id, candidate.job_id, key] for candidate, key in blocked_by]
    return tx.count(_move, {"moved": pack(rows)}) if rows else 0


def hold(tx: Tx, key: RowKey, by: str, reason: str) -> bool:
    """A person takes a key: nobody is admitted, nobody is ended. False: a person holds it already."""
    return _set_hold(tx, key, _k.held_by.is_(None), held_by=by, reason=reason, held_at=now())


def resume(tx: Tx, key: RowKey) -> bool:
    """Gives back a person's hold. False: nobody held it."""
    return _set_hold(tx, key, _k.held_by.is_not(None), held_by=None, reason=None, held_at=None)


def _set_hold(tx: Tx, key: RowKey, condition: sa.ColumnElement[bool], **values: Any) -> bool:
    statement = sa.update(job_keys).where(_k.tenant_id == key.tenant_id, _k.key == key.id, condition).values(**values)
    return tx.count(statement) == 1


def get(tx: Tx, key: RowKey) -> HeldKey | None:
    """The key as it is, without a lock."""
    statement = sa.select(*columns_of(job_keys, HeldKey)).where(_k.tenant_id == key.tenant_id, _k.key == key.id)
    return one(HeldKey, tx.first(statement))
