"""The holder's predicate: one wrong part of it, and no verb of a holder moves the row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.records import Held
from tenure.store import endings, holding
from tests import factory

Pairs = list[Held]
Verb = Callable[[Database, str, Pairs], Collection[Held]]


def _renew(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    return [each.held for each in database.single(lambda tx: holding.renew(tx, owner, pairs))]


def _still_held(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    return [each.held for each in database.read(lambda tx: holding.still_held(tx, owner, pairs))]


def _report(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    return database.single(lambda tx: holding.report(tx, owner, {pair: {"done": 1} for pair in pairs}))


def _begin(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    return database.single(lambda tx: holding.begin(tx, owner, pairs))


def _extend(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    found = [database.write(lambda tx, held=pair: holding.extend(tx, owner, held)) for pair in pairs]  # type: ignore[misc]
    return [each.held for each in found if each is not None]


def _guard(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    return database.write(lambda tx: holding.guard(tx, owner, pairs))


def _complete(database: Database, owner: str, pairs: Pairs) -> Collection[Held]:
    return database.single(lambda tx: endings.complete_bare(tx, owner, dict.fromkeys(pairs, "{}")))


VERBS: dict[str, Verb] = {
    "renew": _renew,
    "still_held": _still_held,
    "report": _report,
    "begin": _begin,
    "extend": _extend,
    "guard": _guard,
    "complete_bare": _complete,
}
READERS = {"still_held", "guard"}


@dataclass(frozen=True)
class Wrong:
    """What the row is (`job`), and how the caller names it (`tenant`, `job_id`, `token`: added to the true one)."""

    job: dict[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    other_job: bool = False
    token: int = 0


WRONGS: dict[str, Wrong] = {
    "other tenant": Wrong(tenant="other"),
    "other job": Wrong(other_job=True),
    "other owner": Wrong(job={"owner": "worker-b"}),
    "lower token": Wrong(token=-1),
    "higher token": Wrong(token=1),
    "expired lease": Wrong(job={"lease_in": -0.05}),
    "queued again": Wrong(job={"status": "queued", "owner": factory.OWNER}),
    "completed": Wrong(job={"status": "completed"}),
    "failed": Wrong(job={"status": "failed"}),
    "cancelled": Wrong(job={"status": "cancelled"}),
}


def _named(database: Database, wrong: Wrong) -> Held:
    """Makes the row and returns the pair by which the caller wrongly names it."""
    held = factory.held(factory.job(database, **{"token": 1_000_000, **wrong.job}))
    if wrong.other_job:
        held = held._replace(job_id=uuid7())
    return held._replace(tenant_id=wrong.tenant or held.tenant_id, fencing_token=held.fencing_token + wrong.token)


@pytest.mark.parametrize("verb", VERBS)
def test_the_holder_moves_the_row(database: Database, verb: str) -> None:
    held = factory.held(factory.job(database, status="running"))
    before = factory.rows(database, background_jobs)
    assert list(VERBS[verb](database, factory.OWNER, [held])) == [held]
    assert (factory.rows(database, background_jobs) == before) == (verb in READERS)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("wrong", WRONGS)
def test_nobody_else_moves_it(database: Database, wrong: str, verb: str) -> None:
    pair = _named(database, WRONGS[wrong] if "status" in WRONGS[wrong].job else _running(WRONGS[wrong]))
    before = factory.rows(database, background_jobs)
    assert list(VERBS[verb](database, factory.OWNER, [pair])) == []
    assert factory.rows(database, background_jobs) == before


def _running(wrong: Wrong) -> Wrong:
    return Wrong({"status": "running", **wrong.job}, wrong.tenant, wrong.other_job, wrong.token)


@pytest.mark.parametrize("verb", VERBS)
def test_each_row_of_a_batch_has_its_own_verdict(database: Database, verb: str) -> None:
    """Every wrong at once between two right ones: the right ones move, nothing else does."""
    right = [factory.held(factory.job(database, status="running")) for _ in range(2)]
    wrong = [_named(database, each if "status" in each.job else _running(each)) for each in WRONGS.values()]
    before = {row["job_id"]: row for row in factory.rows(database, background_jobs)}
    moved = VERBS[verb](database, factory.OWNER, [right[0], *wrong, right[1]])
    assert set(moved) == set(right)
    assert len(moved) == 2
    ours = {held.job_id for held in right}
    for row in factory.rows(database, background_jobs):
        assert row["job_id"] in ours or row == before[row["job_id"]]


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_batch_moves_nothing(database: Database, verb: str) -> None:
    factory.job(database, status="running")
    before = factory.rows(database, background_jobs)
    assert list(VERBS[verb](database, factory.OWNER, [])) == []
    assert factory.rows(database, background_jobs) == before


@pytest.mark.parametrize("reason", ["job of a turn", "cancel requested"])
def test_what_is_not_bare_or_is_to_be_cancelled_is_not_completed_in_one_statement(
    database: Database, reason: str
) -> None:
    turn = factory.turn(database, factory.session(database).key)
    if reason == "job of a turn":
        job = factory.job(database, status="running", of=turn)
    else:
        job = factory.job(database, status="running", cancel_requested_in=0.0, cancel_requested_by="someone")
    before = factory.rows(database, background_jobs)
    assert list(_complete(database, factory.OWNER, [factory.held(job)])) == []
    assert factory.rows(database, background_jobs) == before


def test_the_same_pair_twice_is_one_row(database: Database) -> None:
    held = factory.held(factory.job(database, status="running"))
    assert set(_begin(database, factory.OWNER, [held, held])) == {held}
    assert {each.held for each in database.single(lambda tx: holding.renew(tx, factory.OWNER, [held, held]))} == {held}
