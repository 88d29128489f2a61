"""Real processes that die, stand still and come back, in real time; judged by rows, journal and what tools wrote."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

import pytest
import sqlalchemy as sa

from tenure.db.clock import seconds_until
from tenure.db.schema import agent_events, artifacts, background_jobs, job_attempts, job_stages
from tenure.states import is_terminal
from tests import factory
from tests.faults.conftest import Crew
from tests.worker.scene import gone, until

pytestmark = pytest.mark.timeout(170)


def lines(crew: Crew, word: str) -> list[str]:
    return [line for line in crew.scene.notes.lines() if line.split()[0] == word]


def lease_is_over(crew: Crew, job_id: str) -> bool:
    c = background_jobs.c
    wanted = sa.select(seconds_until(c.lease_expires_at)).where(c.job_id == job_id)
    left = crew.scene.database.read(lambda tx: tx.execute(wanted).scalar_one())
    return left is not None and left < 0


def test_sigkill_in_the_middle_and_another_takes_over(crew: Crew) -> None:
    """No finished stage is repeated, the result exists once."""
    crew.start("one")
    job = crew.scene.app.enqueue("staged", {"n": 7, "seconds": 2.0})
    until(lambda: lines(crew, "between"), "the middle of the job")
    crew.kill("one")
    token = crew.scene.row(job).fencing_token or 0
    crew.start("two")
    assert job.result("30s") == {"n": 7, "first": "one", "second": "two"}
    row = crew.scene.row(job)
    assert (row.attempt, (row.fencing_token or 0) > token) == (2, True)
    (entry,) = crew.scene.journal(job)
    assert (entry.outcome, entry.fencing_token, entry.owner.partition(":")[0]) == ("lease_expired", token, "one")
    assert [len(lines(crew, word)) for word in ("first", "between", "second")] == [1, 2, 1]


def test_a_killed_worker_leaves_no_tool_process_behind(crew: Crew) -> None:
    crew.start("one")
    crew.scene.app.enqueue("lingers", {"notes": str(crew.scene.notes.path)})
    until(lambda: any(line.isdigit() for line in crew.scene.notes.lines()), "the tool's process")
    (pid,) = [int(line) for line in crew.scene.notes.lines() if line.isdigit()]
    assert not gone(pid)
    crew.kill("one")
    until(lambda: gone(pid), "its end")


def test_a_job_that_kills_its_worker_is_not_handed_out_for_ever(crew: Crew) -> None:
    """B04: exactly max_attempts starts, and other jobs keep flowing."""
    good = [crew.scene.app.enqueue("quick", {"n": n}) for n in range(5)]
    number = 0
    for tool, most in (("kills_its_worker", 3), ("kills_its_worker_once", 1)):
        job = crew.scene.app.enqueue(tool, {})
        while not is_terminal(crew.scene.row(job).status):
            if all(process.poll() is not None for process in crew.processes.values()):
                number += 1
                assert number < 10
                crew.start(f"w{number}", wait=False)
            time.sleep(0.05)
        row = crew.scene.row(job)
        assert len([line for line in lines(crew, "start") if job.id in line]) == row.attempt == most
        assert (row.status, row.error_code) == ("failed", "lease_expired")
        assert f"worker lost {most} time" in (row.error_text or "")
        assert crew.scene.outcomes(job) == ["lease_expired"] * most
    until(lambda: crew.scene.by_status("quick") == {"completed": 5}, "the other jobs")
    assert [job.result("1s") for job in good] == list(range(5))


def test_who_stands_still_past_the_lease_comes_back_to_nothing(crew: Crew) -> None:
    """B06 with a second worker: every write of the old owner is refused, one `result_rejected`, done by the new one."""
    crew.start("one")
    job = crew.scene.app.enqueue("comes_back", {"seconds": 1.0})
    until(lambda: lines(crew, "start"), "a start")
    crew.signal("one", signal.SIGSTOP)
    crew.start("two")
    assert job.result("40s") == "two"
    crew.signal("one", signal.SIGCONT)
    until(lambda: "refused 4 one" in crew.scene.notes.lines(), f"refusals, has {crew.scene.notes.lines()}")
    until(lambda: "result_rejected" in crew.scene.outcomes(job), "the rejection")
    row, journal = crew.scene.row(job), crew.scene.journal(job)
    assert (row.status, row.output, (row.lease_owner or "").partition(":")[0]) == ("completed", "two", "two")
    assert [(entry.outcome, entry.owner.partition(":")[0]) for entry in journal] == [
        ("lease_expired", "one"),
        ("result_rejected", "one"),
    ]
    assert len(lines(crew, "start")) == 2
    assert [line.split()[2] for line in lines(crew, "sent")] == ["two"]
    names = [row["name"] for row in factory.rows(crew.scene.database, artifacts)]
    assert names == ["late.txt"]
    assert {stage.fencing_token for stage in crew.scene.stages(job)} == {row.fencing_token}  # all of the new owner's
    assert crew.scene.app.enqueue("quick", {"n": 1}).result("20s") == 1


def test_who_stands_still_past_the_lease_alone_gives_back(crew: Crew) -> None:
    """B06 without a second worker: the lease is over though nobody claimed; away is refunded, and the job is done."""
    crew.start("one")
    job = crew.scene.app.enqueue("comes_back", {"seconds": 1.0})
    until(lambda: lines(crew, "start"), "a start")
    crew.signal("one", signal.SIGSTOP)
    until(lambda: lease_is_over(crew, job.id), "the end of the lease")
    time.sleep(1.0)  # stood still for more than the lease
    crew.signal("one", signal.SIGCONT)
    assert job.result("40s") == "one"
    until(lambda: "result_rejected" in crew.scene.outcomes(job), "the rejection")
    outcomes = crew.scene.outcomes(job)
    assert (outcomes.count("away"), outcomes.count("result_rejected")) == (1, 1)
    assert "lease_expired" not in outcomes
    assert crew.scene.row(job).attempt == 1  # not charged
    assert len(lines(crew, "start")) == 2
    assert len(lines(crew, "sent")) == 1


def test_sigterm_drains(crew: Crew) -> None:
    """B14: the lease is renewed until the last settlement; nothing new is claimed; the process ends by itself."""
    crew.start("one")
    job = crew.scene.app.enqueue("staged", {"n": 1, "seconds": 6.5})
    until(lambda: lines(crew, "between"), "the middle of the job")
    crew.start("two")
    crew.signal("one", signal.SIGTERM)
    assert crew.ended("one") == 0
    assert job.result("5s") == {"n": 1, "first": "one", "second": "one"}
    assert (crew.scene.row(job).attempt, crew.scene.outcomes(job)) == (1, [])
    assert "down one" in crew.scene.notes.lines()
    crew.signal("two", signal.SIGTERM)
    assert crew.ended("two") == 0


@pytest.mark.parametrize("seed", [1])
def test_torture(crew: Crew, seed: int) -> None:
    """Workers are killed and stopped at random; all ends as if nothing had happened, and the journal says what did."""
    chance = random.Random(seed)
    made = [crew.scene.app.enqueue("tortured", {"n": n}) for n in range(200)]
    names = [f"w{number}" for number in range(3)]
    for name in names:
        crew.start(name)
    end = time.monotonic() + 25.0
    while time.monotonic() < end:
        name = chance.choice(names)
        if chance.random() < 0.5:
            crew.kill(name)
            time.sleep(chance.uniform(0.1, 0.8))
            crew.start(name, wait=False)
        else:
            crew.signal(name, signal.SIGSTOP)
            time.sleep(chance.choice([0.3, 6.0]))
            crew.signal(name, signal.SIGCONT)
        time.sleep(chance.uniform(0.2, 1.0))
    for name in names:
        if crew.processes[name].poll() is not None:
            crew.start(name)
    until(lambda: crew.scene.by_status("tortured") == {"completed": len(made)}, "the end of all jobs", 60.0)
    for name in names:
        crew.signal(name, signal.SIGTERM)
        assert crew.ended(name) == 0
    judge(crew, {job.id: n + 2 for n, job in enumerate(made)})


def judge(crew: Crew, wanted: dict[str, int]) -> None:
    database = crew.scene.database
    rows = {row["job_id"]: row for row in factory.rows(database, background_jobs)}
    journal = factory.rows(database, job_attempts)
    stages = factory.rows(database, job_stages)
    assert {job_id: (row["status"], row["output"]) for job_id, row in rows.items()} == {
        job_id: ("completed", value) for job_id, value in wanted.items()
    }
    # Each stage is kept once. It was computed again only where the process died before it was saved.
    assert Counter((stage["job_id"], stage["name"]) for stage in stages) == {
        (job_id, name): 1 for job_id in wanted for name in ("one", "two")
    }
    computed = Counter(tuple(line.split()) for line in crew.scene.notes.lines() if line.split()[0] in ("one", "two"))
    for job_id in wanted:
        lost = sum(entry["job_id"] == job_id and entry["outcome"] != "result_rejected" for entry in journal)
        assert all(1 <= computed[name, job_id] <= 1 + lost for name in ("one", "two")), (job_id, lost)
    # Every token was handed out once, and its fate is known: the row's, or one entry that ended it.
    ended = [entry for entry in journal if entry["outcome"] != "result_rejected"]
    tokens = [(entry["job_id"], entry["fencing_token"]) for entry in ended]
    tokens += [(job_id, row["fencing_token"]) for job_id, row in rows.items()]
    assert len({token for _, token in tokens}) == len(tokens)
    rejected = {(entry["job_id"], entry["fencing_token"]) for entry in journal if entry["outcome"] == "result_rejected"}
    assert rejected <= {(entry["job_id"], entry["fencing_token"]) for entry in ended}
    # Attempts are the charged ones and the last.
    refunded = {"released", "away"}
    for job_id, row in rows.items():
        charged = sum(entry["job_id"] == job_id and entry["outcome"] not in refunded for entry in ended)
        assert (row["attempt"], row["refunds"]) == (
            charged + 1,
            sum(entry["job_id"] == job_id and entry["outcome"] in refunded for entry in ended),
        )
    assert factory.rows(database, agent_events) == []  # bare jobs write none
