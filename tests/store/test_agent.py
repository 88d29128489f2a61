"""Sessions, projects, turns and plan items as rows."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import agent_plan_items, agent_turns, project_contexts, session_contexts
from tenure.records import RowKey, SessionKey
from tenure.states import ItemStatus, TurnStatus
from tenure.store import plans, projects, sessions, turns
from tenure.store.plans import NewItem
from tenure.store.turns import NewTurn
from tests import factory

KEY = SessionKey("default", "s")


# -- sessions and projects ---------------------------------------------------------------------------------------------


def test_a_session_is_made_once(database: Database) -> None:
    for user in ("u", "v"):
        database.write(lambda tx, user=user: sessions.ensure(tx, KEY, project_id="p", user_id=user, profile="f"))  # type: ignore[misc]
    [row] = factory.rows(database, session_contexts)
    assert (row["project_id"], row["user_id"], row["agent_profile"]) == ("p", "u", "f")
    found = database.read(lambda tx: sessions.get(tx, KEY))
    assert found is not None
    assert (found.last_event_seq, found.oldest_event_seq, found.pending_approval, found.epoch) == (
        0,
        1,
        [],
        row["epoch"],
    )
    assert database.read(lambda tx: sessions.get(tx, SessionKey("other", "s"))) is None


def test_each_session_has_an_epoch_of_its_own(database: Database) -> None:
    for name in ("s", "t"):
        database.write(lambda tx, name=name: sessions.ensure(tx, SessionKey("default", name)))  # type: ignore[misc]
    assert len({row["epoch"] for row in factory.rows(database, session_contexts)}) == 2


def test_sessions_are_locked_in_lock_order(database: Database) -> None:
    made = [factory.session(database, name, tenant=tenant) for name, tenant in (("b", "t"), ("a", "t"), ("z", "s"))]
    wanted = [each.key for each in made] + [made[0].key, SessionKey("t", "absent")]
    found = database.write(lambda tx: sessions.lock(tx, wanted))
    assert list(found) == sorted(each.key for each in made)
    assert found == {each.key: each for each in made}
    assert database.write(lambda tx: sessions.lock(tx, [])) == {}


def test_a_change_is_a_new_context_version(database: Database) -> None:
    other = factory.session(database, "other")
    factory.session(database)
    database.write(lambda tx: sessions.change(tx, KEY, summary="x", pending_approval=[{"a": 1}]))
    found = database.read(lambda tx: sessions.get(tx, KEY))
    assert found is not None
    assert (found.summary, found.pending_approval, found.context_version) == ("x", [{"a": 1}], 2)
    assert database.read(lambda tx: sessions.get(tx, other.key)) == other


def test_sessions_listed_by_last_change(database: Database) -> None:
    for name, ago in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        factory.session(database, name, updated_in=-ago)
    factory.session(database, "d", tenant="other")
    assert [each.session_id for each in database.read(lambda tx: sessions.listed(tx, "default", 2))] == ["b", "c"]


def test_projects(database: Database) -> None:
    key, other = RowKey("default", "p"), factory.project(database, "q")
    for _ in range(2):
        database.write(lambda tx: projects.ensure(tx, key))
    artifact = uuid7()
    database.write(lambda tx: projects.set_settings(tx, key, {"b": 1.0, "a": 2}))
    database.write(lambda tx: projects.set_latest_output(tx, key, artifact))
    found = database.read(lambda tx: projects.get(tx, key))
    assert found is not None
    assert (found.settings, found.settings_version, found.latest_output_file_id) == ({"b": 1.0, "a": 2}, 2, artifact)
    assert database.read(lambda tx: projects.listed(tx, "default")) == [found, other]
    assert database.read(lambda tx: projects.get(tx, RowKey("other", "p"))) is None
    assert len(factory.rows(database, project_contexts)) == 2


# -- turns -------------------------------------------------------------------------------------------------------------


def new_turn(**columns: Any) -> NewTurn:
    return NewTurn(**{"tenant_id": "default", "turn_id": uuid7(), "session_id": "s", "input": {"text": "x"}, **columns})


def test_a_turn_is_made_once_by_id_and_by_key_on_its_session(database: Database) -> None:
    factory.session(database)
    factory.session(database, "other")
    first = new_turn(idempotency_key="k", request_digest="d", steps=[{"tool": "a"}], command="c", user_id="u")

    def insert(new: NewTurn) -> bool:
        return database.write(lambda tx: turns.insert(tx, new))

    assert insert(first) is True
    before = factory.rows(database, agent_turns)
    assert insert(new_turn(turn_id=first.turn_id)) is False
    assert insert(new_turn(idempotency_key="k", request_digest="e")) is False
    assert factory.rows(database, agent_turns) == before
    assert insert(new_turn(idempotency_key="k", request_digest="d", session_id="other")) is True
    found = database.read(lambda tx: turns.by_idempotency_key(tx, KEY, "k"))
    assert found is not None
    assert (found.key, found.status, found.steps, found.input) == (first.key, "created", [{"tool": "a"}], {"text": "x"})
    assert database.read(lambda tx: turns.by_idempotency_key(tx, KEY, "l")) is None
    assert database.read(lambda tx: turns.get(tx, first.key)) == found


def test_turns_are_locked_in_lock_order(database: Database) -> None:
    factory.session(database)
    made = [factory.turn(database, KEY) for _ in range(3)]
    keys = [turn.key for turn in made[::-1]]
    found = database.write(lambda tx: turns.lock(tx, [*keys, RowKey("other", made[0].turn_id)]))
    assert list(found.items()) == [(turn.key, turn) for turn in made]
    assert database.write(lambda tx: turns.lock_one(tx, made[1].key)) == made[1]
    assert database.write(lambda tx: turns.lock_one(tx, RowKey("default", uuid7()))) is None


def test_the_oldest_created_turn_of_a_session(database: Database) -> None:
    for session in ("s", "other"):
        factory.session(database, session)
    factory.turn(database, KEY, status="planning")
    created = [factory.turn(database, KEY, status="created") for _ in range(2)]
    factory.turn(database, SessionKey("default", "other"), status="created")
    assert database.write(lambda tx: turns.lock_oldest_created(tx, KEY)) == created[0]
    assert database.write(lambda tx: turns.lock_oldest_created(tx, SessionKey("other", "s"))) is None


def test_a_turn_starts_and_ends_with_its_stamps(database: Database) -> None:
    factory.session(database)
    turn = factory.turn(database, KEY, status="created")
    database.write(lambda tx: turns.start(tx, turn.key))
    started = database.read(lambda tx: turns.get(tx, turn.key))
    assert started is not None
    assert started.status == "planning"
    assert started.started_at is not None
    database.write(lambda tx: turns.change(tx, turn.key, round=2))
    failed = {"error_code": "c", "error_text": "t"}
    database.write(lambda tx: turns.end(tx, turn.key, TurnStatus.FAILED, **failed))
    ended = database.read(lambda tx: turns.get(tx, turn.key))
    assert ended is not None
    assert (ended.status, ended.round, ended.error_code, ended.error_text) == ("failed", 2, "c", "t")
    assert ended.finished_at is not None


def test_turns_listed_newest_first(database: Database) -> None:
    for session in ("s", "other"):
        factory.session(database, session)
    made = [factory.turn(database, KEY, status=status) for status in ("created", "planning", "completed")]
    made.append(factory.turn(database, SessionKey("default", "other")))

    def listed(**wanted: Any) -> list[str]:
        return [turn.turn_id for turn in database.read(lambda tx: turns.listed(tx, "default", **wanted))]

    assert listed() == [turn.turn_id for turn in made[::-1]]
    assert listed(limit=1) == [made[3].turn_id]
    assert listed(session_id="s") == [turn.turn_id for turn in made[2::-1]]
    assert listed(status="planning") == [made[3].turn_id, made[1].turn_id]


WORK: dict[str, tuple[str, dict[str, Any] | None, dict[str, Any] | None, bool]] = {
    # the turn's status; an item; a job; whether nobody goes on with the turn
    "nothing": ("running", None, None, True),
    "in its first round": ("planning", None, None, True),
    "waiting for a person, of nothing": ("awaiting_approval", None, None, True),
    "an open item": ("running", {"status": "pending"}, None, False),
    "a finished item": ("running", {"status": "completed"}, {"status": "completed"}, True),
    "a queued job": ("planning", None, {"status": "queued"}, False),
    "a running job": ("planning", None, {"status": "running", "lease_in": -60.0}, False),
    "not started": ("created", None, None, False),
    "ended": ("completed", None, None, False),
}


@pytest.mark.parametrize("work", WORK)
def test_a_turn_is_stalled_when_it_runs_with_nothing_open(database: Database, work: str) -> None:
    status, item, job, stalled = WORK[work]
    factory.session(database)
    factory.session(database, "other")
    turn = factory.turn(database, KEY, status=status)
    busy = factory.turn(database, SessionKey("default", "other"))
    factory.item(database, busy)
    if item is not None:
        factory.item(database, turn, **item)
    if job is not None:
        factory.job(database, of=turn, **job)
    assert database.read(lambda tx: turns.stalled(tx, 10)) == ([turn.key] if stalled else [])
    assert database.read(lambda tx: turns.has_open_work(tx, turn.key)) is ("open" in work or work.endswith(" job"))
    assert database.read(lambda tx: turns.has_open_work(tx, busy.key)) is True


@pytest.mark.parametrize(
    ("turn_status", "job", "found"),
    [
        ("completed", {"status": "queued"}, True),
        ("cancelled", {"status": "running"}, True),
        ("failed", {"status": "running", "cancel_requested_in": 0.0}, False),
        ("completed", {"status": "completed"}, False),
        ("running", {"status": "running"}, False),
    ],
)
def test_ended_turns_with_live_jobs(database: Database, turn_status: str, job: dict[str, Any], found: bool) -> None:
    factory.session(database)
    turn = factory.turn(database, KEY, status=turn_status)
    for _ in range(2):
        factory.job(database, of=turn, **job)
    factory.job(database)
    assert database.read(lambda tx: turns.with_live_jobs_after_end(tx, 10)) == ([turn.key] if found else [])


def test_sessions_with_a_created_turn_and_no_active_one(database: Database) -> None:
    keys = [factory.session(database, name).key for name in ("idle", "busy", "ended", "empty")]
    for _ in range(2):
        factory.turn(database, keys[0], status="created")
    factory.turn(database, keys[1], status="planning")
    factory.turn(database, keys[1], status="created")
    factory.turn(database, keys[2], status="completed")
    assert database.read(lambda tx: turns.sessions_waiting_to_start(tx, 10)) == [keys[0]]


# -- plan items --------------------------------------------------------------------------------------------------------


def new_item(turn_id: str, position: int, **columns: Any) -> NewItem:
    given = {"tenant_id": "default", "item_id": uuid7(), "turn_id": turn_id, "round": 1, "position": position}
    given |= {"name": f"n{position}", "tool": "a", "mode": "write", "arguments": {"b": 1.0, "a": "é"}}
    return NewItem(**{**given, "depends_on": ["n0"], **columns})


@pytest.mark.parametrize("same", ["item_id", "place", "name"])
def test_items_are_made_once(database: Database, same: str) -> None:
    factory.session(database)
    turn = factory.turn(database, KEY)
    first = new_item(turn.turn_id, 1, optional=True)
    again = {
        "item_id": new_item(turn.turn_id, 2, item_id=first.item_id),
        "place": new_item(turn.turn_id, 1, name="x"),
        "name": new_item(turn.turn_id, 2, name=first.name),
    }[same]
    assert database.write(lambda tx: plans.insert(tx, [first])) == 1
    before = factory.rows(database, agent_plan_items)
    assert database.write(lambda tx: plans.insert(tx, [again, new_item(turn.turn_id, 3)])) == 1
    assert [row for row in factory.rows(database, agent_plan_items) if row["position"] == 1] == before
    found = database.read(lambda tx: plans.get(tx, RowKey("default", first.item_id)))
    assert found is not None
    assert (found.status, found.optional, found.depends_on) == ("pending", True, ["n0"])
    assert list(found.arguments.items()) == [("b", 1.0), ("a", "é")]


def test_items_of_a_turn_by_round_and_position(database: Database) -> None:
    factory.session(database)
    turn, other = (factory.turn(database, KEY) for _ in range(2))
    made = [factory.item(database, turn, round=r, position=p) for r, p in ((2, 1), (1, 2), (1, 1))]
    factory.item(database, other)
    assert database.read(lambda tx: plans.of_turn(tx, turn.key)) == made[::-1]


@pytest.mark.parametrize("status", list(ItemStatus))
def test_an_item_changes_with_its_stamp(database: Database, status: ItemStatus) -> None:
    factory.session(database)
    turn = factory.turn(database, KEY)
    item, other = factory.item(database, turn), factory.item(database, turn)
    ids = {"job_id": uuid7(), "approval_id": uuid7()}
    database.write(lambda tx: plans.change(tx, item.key, status, **ids))
    found = database.read(lambda tx: plans.get(tx, item.key))
    assert found is not None
    assert (found.status, found.job_id) == (status, ids["job_id"])
    assert (found.finished_at is not None) == (status in ("completed", "failed", "skipped", "cancelled"))
    assert database.read(lambda tx: plans.get(tx, other.key)) == other


READY: dict[str, tuple[list[str], list[tuple[str, str]], bool]] = {
    # what the item depends on; the other items by name and status; whether the item can go on
    "on nothing": ([], [], True),
    "on a completed one": (["x"], [("x", "completed")], True),
    "on a running one": (["x"], [("x", "running")], False),
    "on one of two": (["x", "y"], [("x", "completed"), ("y", "failed")], False),
    "on two": (["x", "y"], [("y", "completed"), ("x", "completed")], True),
    "on a skipped one": (["x"], [("x", "skipped")], False),
    "on one that is not there": (["x"], [], False),
}


@pytest.mark.parametrize("ready", READY)
def test_turns_with_an_item_that_can_go_on(database: Database, ready: str) -> None:
    depends_on, others, expected = READY[ready]
    factory.session(database)
    turn, other = (factory.turn(database, KEY) for _ in range(2))
    factory.item(database, turn, depends_on=depends_on)
    for name, status in others:
        factory.item(database, turn, name=name, status=status)
        factory.item(database, other, name=name, status="completed")
    for status in ("queued", "awaiting_approval", "failed", "cancelled"):
        factory.item(database, other, status=status)
    found = database.read(lambda tx: plans.turns_with_ready_items(tx, 10))
    assert found == ([turn.key] if expected else [])
