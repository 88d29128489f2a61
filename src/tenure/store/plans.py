"""Plan items: the steps of a turn, with their exact arguments and what they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
from tenure.db.rows import pack, table_of, texts_of
from tenure.db.schema import agent_plan_items
from tenure.db.tx import Tx
from tenure.db.types import Id, Json, Key, encode_json
from tenure.records import PlanItem, RowKey
from tenure.states import ItemStatus, is_terminal

_i = agent_plan_items.c
_all = columns_of(agent_plan_items, PlanItem)
_this = sa.and_(_i.tenant_id == sa.bindparam("tenant"), _i.item_id == sa.bindparam("item", type_=Id()))
_get = sa.select(*_all).where(_this)


@dataclass(frozen=True, slots=True)
class NewItem:
    """What a plan item is made from. `arguments` may hold references; final ones are set when it is assessed."""

    tenant_id: str
    item_id: str
    turn_id: str
    round: int
    position: int
    name: str
    tool: str
    mode: str
    arguments: dict[str, Any]
    depends_on: list[str]
    optional: bool = False


_new = table_of(
    "new",
    {
        "tenant_id": Key(),
        "item_id": Id(),
        "turn_id": Id(),
        "round": sa.Integer(),
        "position": sa.Integer(),
        "name": sa.Text(),
        "tool": sa.Text(),
        "mode": sa.Text(),
        "arguments": Json(),
        "depends_on": Json(),
        "optional": sa.Boolean(),
    },
)
_insert = insert_if_absent(agent_plan_items).from_select(
    [*_new.c.keys(), "status", "created_at"],
    sa.select(*_new.c, sa.literal("pending"), now()).where(sa.true()),
)


def _names(key: RowKey) -> dict[str, str]:
    return {"tenant": key.tenant_id, "item": key.id}


def insert(tx: Tx, new: Sequence[NewItem]) -> int:
    """Inserts the items that are absent by id and by place in their turn; returns how many."""
    rows = [
        [
            item.tenant_id,
            item.item_id,
            item.turn_id,
            item.round,
            item.position,
            item.name,
            item.tool,
            item.mode,
            encode_json(item.arguments),
            encode_json(item.depends_on),
            int(item.optional),
        ]
        for item in new
    ]
    return tx.count(_insert, {"new": pack(rows)})


def get(tx: Tx, key: RowKey) -> PlanItem | None:
    """The item as it is, without a lock: whoever changes one holds the lock of its turn."""
    return one(PlanItem, tx.first(_get, _names(key)))


def of_turn(tx: Tx, turn: RowKey) -> list[PlanItem]:
    """The items of a turn by round and position."""
    statement = (
        sa.select(*_all).where(_i.tenant_id == turn.tenant_id, _i.turn_id == turn.id).order_by(_i.round, _i.position)
    )
    return many(PlanItem, tx.rows(statement))


def change(tx: Tx, key: RowKey, status: ItemStatus, **values: Any) -> None:
    """Moves an item of a turn that this transaction has locked."""
    finished_at = now() if is_terminal(status) else None
    statement = sa.update(agent_plan_items).where(_this).values(status=status, finished_at=finished_at, **values)
    tx.execute(statement, _names(key))


def turns_with_ready_items(tx: Tx, limit: int) -> list[RowKey]:
    """Turns that have a `pending` item whose dependencies are all completed."""
    completed = agent_plan_items.alias("completed")
    needed = texts_of(_i.depends_on, "needed")
    # Correlated by hand: two levels down, SQLAlchemy would read the items anew.
    is_completed = (
        sa.exists()
        .where(
            completed.c.tenant_id == _i.tenant_id,
            completed.c.turn_id == _i.turn_id,
            completed.c.name == needed.c.value,
            completed.c.status == sa.literal_column("'completed'"),
        )
        .correlate(agent_plan_items, needed)
    )
    missing = sa.exists(sa.select(sa.literal(1)).select_from(needed).where(sa.not_(is_completed)))
    statement = (
        sa.select(_i.tenant_id, _i.turn_id)
        .distinct()
        .where(_i.status == sa.literal_column("'pending'"), sa.not_(missing))
        .limit(limit)
    )
    return [RowKey(row[0], row[1]) for row in tx.rows(statement)]
