"""What the machines of the flow share: a world that is emptied between runs, and how long they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tenure.db.engine import Database
from tenure.db.schema import fencing_token_counter, metadata, tenure_meta
from tenure.db.tx import Tx
from tests.flow.world import World

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
KEPT = {tenure_meta.name, fencing_token_counter.name}
FULL = {"max_examples": 100, "stateful_step_count": 40}


def empty(database: Database) -> None:
    """Deletes every row but the schema's own."""

    def body(tx: Tx) -> None:
        for table in reversed(metadata.sorted_tables):
            if table.name not in KEPT:
                tx.execute(sa.delete(table))

    database.write(body)


def outcome(verb: Callable[[], T], *refusals: type[E]) -> T | E:
    """What the verb returned, or with which of these refusals it answered."""
    try:
        return verb()
    except refusals as error:
        return error


def run(machine: type[RuleBasedStateMachine], made: World, **how: Any) -> None:
    """Runs a machine that has `world`, `max_examples` × `stateful_step_count` steps unless said otherwise."""
    bound = type(machine.__name__, (machine,), {"world": made})
    chosen = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, **{**FULL, **how})
    run_state_machine_as_test(bound, settings=chosen)
