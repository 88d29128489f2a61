"""Artifacts, stages and the presence of workers as rows."""

from __future__ import annotations

from typing import Any

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import job_stages, worker_heartbeats
from tenure.records import Held, RowKey
from tenure.store import artifacts, stages, views, workers
from tenure.store.artifacts import NewArtifact
from tenure.store.database import identity
from tests import factory


def test_artifacts(database: Database) -> None:
    job_id, turn_id = uuid7(), uuid7()
    made = [
        NewArtifact("default", uuid7(), "x.csv", "text/csv", 5, "s", "l", "s", turn_id, job_id, "p", "u", 7),
        NewArtifact("default", uuid7(), "y.csv", "text/csv", 0, "s", "l", turn_id=turn_id),
        NewArtifact("other", uuid7(), "z.csv", "text/csv", 1, "s", "l", turn_id=turn_id, job_id=job_id),
    ]
    for new in made:
        database.write(lambda tx, new=new: artifacts.insert(tx, new))  # type: ignore[misc]
    found = database.read(lambda tx: artifacts.get(tx, RowKey("default", made[0].artifact_id)))
    assert found is not None
    names = NewArtifact.__dataclass_fields__
    assert {name: getattr(found, name) for name in names} == {name: getattr(made[0], name) for name in names}
    of_job = database.read(lambda tx: artifacts.of_job(tx, RowKey("default", job_id)))
    of_turn = database.read(lambda tx: artifacts.of_turn(tx, RowKey("default", turn_id)))
    assert [each.name for each in of_job] == ["x.csv"]
    assert [each.name for each in of_turn] == ["x.csv", "y.csv"]
    assert database.read(lambda tx: artifacts.get(tx, RowKey("other", made[0].artifact_id))) is None


def test_a_stage_is_saved_exactly_and_replaced(database: Database) -> None:
    job = factory.job(database, status="running")
    held = factory.held(job)

    def save(name: str, part: str, digest: str, answer: str) -> None:
        database.write(lambda tx: stages.save(tx, held, name, part, digest, answer))

    save("one", "", "d1", '{"b":1.0,"a":[null]}')
    save("one", "p", "d2", "null")
    save("one", "", "d3", '{"b":2}')
    found = {stage.part: stage for stage in database.read(lambda tx: stages.of_job(tx, job.key))}
    assert set(found) == {"", "p"}
    assert (found[""].answer, found[""].digest, found[""].state) == ({"b": 2}, "d3", "done")
    assert (found["p"].answer, found["p"].kind, found["p"].fencing_token) == (None, "stage", held.fencing_token)
    assert database.read(lambda tx: stages.of_job(tx, RowKey("other", job.job_id))) == []


def test_a_stage_does_not_replace_an_effect_of_the_same_name(database: Database) -> None:
    job = factory.job(database, status="running")
    held = factory.held(job)
    database.write(lambda tx: stages.save(tx, held, "one", "", "d", "1"))
    effect = {"kind": "effect", "effect_key": "k", "state": "started", "answer": None, "finished_at": None}
    database.write(lambda tx: tx.execute(job_stages.update().values(**effect)))
    before = factory.rows(database, job_stages)
    assert database.write(lambda tx: stages.save(tx, held, "one", "", "d", "2")) is False
    assert factory.rows(database, job_stages) == before


def test_an_effect_belongs_to_the_token_that_started_it(database: Database) -> None:
    job = factory.job(database, status="running")
    held = factory.held(job)
    newer = held._replace(fencing_token=held.fencing_token + 1)
    how = {"digest": "d", "effect_key": "k", "resource": "r", "repeat": "never"}

    def now() -> Any:
        return database.read(lambda tx: stages.effect(tx, job.key, "e", "p"))

    def finish(by: Held, state: str, **what: Any) -> bool:
        return database.write(lambda tx: stages.finish_effect(tx, by, "e", "p", state, **what))

    assert now() is None
    assert finish(held, "done", answer="1") is False
    database.write(lambda tx: stages.start_effect(tx, held, "e", "p", **how))
    started = now()
    assert (started.state, started.fencing_token, started.finished_at) == ("started", held.fencing_token, None)
    assert {name: getattr(started, name) for name in how} == how
    assert finish(newer, "done", answer="1") is False
    assert now() == started
    assert finish(held, "unknown", error_code="c", error_text="t", external_id="x") is True
    assert (now().state, now().error_code, now().external_id, now().answer) == ("unknown", "c", "x", None)
    database.write(lambda tx: stages.start_effect(tx, newer, "e", "p", **{**how, "digest": "other"}))
    again = now()
    assert (again.state, again.fencing_token, again.digest) == ("started", newer.fencing_token, "d")
    assert (again.error_code, again.answer, again.finished_at) == (None, None, None)
    assert finish(held, "done", answer="1") is False
    assert finish(newer, "done", answer='{"b":1.0,"a":2}') is True
    assert (now().state, list(now().answer)) == ("done", ["b", "a"])
    assert database.read(lambda tx: stages.effect(tx, job.key, "e", "")) is None


def test_an_effect_in_doubt_is_adopted_by_a_newer_token(database: Database) -> None:
    job = factory.job(database, status="running")
    held = factory.held(job)
    newer = held._replace(fencing_token=held.fencing_token + 1)
    how = {"digest": "d", "effect_key": "k", "resource": "r", "repeat": "never"}
    for name in ("e", "other"):
        database.write(lambda tx, name=name: stages.start_effect(tx, held, name, "", **how))  # type: ignore[misc]
    database.write(lambda tx: stages.adopt_effect(tx, newer, "e", ""))
    assert database.write(lambda tx: stages.finish_effect(tx, held, "e", "", "done", answer="1")) is False
    assert database.write(lambda tx: stages.finish_effect(tx, newer, "e", "", "done", answer="1")) is True
    assert database.write(lambda tx: stages.finish_effect(tx, held, "other", "", "done", answer="1")) is True


def test_what_an_operator_asks_of_the_whole_database(database: Database) -> None:
    over = factory.job(database, status="running", lease_in=-70.0, tool="b", tenant="other")
    factory.job(database, status="running", lease_in=-50.0)
    for tenant in ("default", "other"):
        factory.job(database, tenant=tenant, blocked_by="limit/a", limit_key="limit/a")
    assert database.read(lambda tx: views.abandoned(tx, 60.0)) == {over.tool: 1}
    assert database.read(views.waiting) == {"limit/a": 2}
    assert abs((database.read(views.database_time) - factory.job(database, claim_in=0.0).claim_at).total_seconds()) < 5
    assert database.read(views.build).mode == ("wal" if database.is_sqlite else database.read(views.build).mode)


def test_effects_of_unknown_outcome_whose_job_has_ended_are_in_review(database: Database) -> None:
    how = {"digest": "d", "effect_key": "k", "resource": "r", "repeat": "never"}
    made = {status: factory.job(database, status=status) for status in ("running", "failed", "cancelled", "completed")}
    for job in made.values():
        held = factory.held(job)
        for name in ("started", "unknown", "done", "not_done"):
            database.write(lambda tx, held=held, name=name: stages.start_effect(tx, held, name, "", **how))  # type: ignore[misc]
            if name != "started":
                database.write(lambda tx, held=held, name=name: stages.finish_effect(tx, held, name, "", name))  # type: ignore[misc]
        database.write(lambda tx, held=held: stages.save(tx, held, "stage", "", "d", "1"))  # type: ignore[misc]
    found = {(stage.job_id, stage.name) for stage in database.read(lambda tx: views.in_review(tx, 50))}
    ended = [made[status].job_id for status in ("failed", "cancelled", "completed")]
    assert found == {(job_id, name) for job_id in ended for name in ("started", "unknown")}
    assert len(database.read(lambda tx: views.in_review(tx, 2))) == 2


def test_a_stage_is_no_effect(database: Database) -> None:
    job = factory.job(database, status="running")
    held = factory.held(job)
    database.write(lambda tx: stages.save(tx, held, "one", "", "d", "1"))
    before = factory.rows(database, job_stages)
    assert database.read(lambda tx: stages.effect(tx, job.key, "one", "")) is None
    assert database.write(lambda tx: stages.finish_effect(tx, held, "one", "", "done", answer="2")) is False
    assert factory.rows(database, job_stages) == before


def test_the_identity_of_the_database_stays(database: Database) -> None:
    assert len({database.read(identity) for _ in range(2)}) == 1
    assert len(database.read(identity)) == 36


FACTS: dict[str, Any] = {"name": "n", "host": "h", "pid": 5, "version": "0", "tools": ["a"], "slots": 2, "app": None}


def test_a_worker_says_that_it_is_there(database: Database) -> None:
    other = factory.worker(database, "other")

    def beat(status: str, busy: int) -> None:
        changing = {"status": status, "busy": busy, "stuck_threads": 0}
        database.write(lambda tx: workers.beat(tx, "w", FACTS, changing))

    beat("running", 0)
    first = factory.rows(database, worker_heartbeats, worker_heartbeats.c.owner == "w")[0]
    beat("draining", 2)
    [again] = factory.rows(database, worker_heartbeats, worker_heartbeats.c.owner == "w")
    assert {name: again[name] for name in FACTS} == FACTS
    assert (again["status"], again["busy"], again["started_at"]) == ("draining", 2, first["started_at"])
    assert again["beat_at"] > first["beat_at"]
    assert [worker.owner for worker in database.read(workers.present)] == ["w", other.owner]
    beat("stopped", 0)
    assert [worker.owner for worker in database.read(workers.present)] == ["other"]


def test_silent_workers_are_not_present_and_are_forgotten(database: Database) -> None:
    for owner, ago in (("a", 5.0), ("b", 59.0), ("c", 61.0), ("d", 500.0)):
        factory.worker(database, owner, beat_in=-ago)
    assert [worker.owner for worker in database.read(workers.present)] == ["a", "b"]
    assert [worker.owner for worker in database.read(lambda tx: workers.present(tx, 10.0))] == ["a"]
    assert database.write(lambda tx: workers.forget(tx, 100.0)) == 1
    assert [row["owner"] for row in factory.rows(database, worker_heartbeats)] == ["a", "b", "c"]
