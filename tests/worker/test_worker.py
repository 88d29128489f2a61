"""The worker: what it claims, how it settles, what it does when the database goes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tenure import Tenure, ToolContext
from tenure.app import Job
from tenure.context import boottime
from tenure.db.schema import worker_heartbeats
from tenure.errors import JobCancelled, NotFound, RetryableError, StateConflict, TerminalError, WaitTimeout
from tenure.planner import Final, TurnView
from tenure.records import RowKey
from tenure.store import claims, endings, journal
from tenure.worker import Worker
from tests import factory
from tests import postgres as harness
from tests.proxy import Proxy, running
from tests.worker.scene import SHORT, Scene, stepping, until

ROOMY: dict[str, Any] = {"lease": "30s", "heartbeat": "5s", "margin": "2s"}
MakeScene = Callable[[str], Scene]


# -- what it claims ----------------------------------------------------------------------------------------------------


def test_many_jobs_in_batches_each_once(scene: Scene) -> None:
    ran: list[int] = []

    @scene.app.tool(**ROOMY)
    def one(n: int) -> int:
        ran.append(n)
        return n * 2

    made = [one.enqueue(n=n) for n in range(60)]
    with scene.app.worker(slots=25):
        assert [job.result("25s") for job in made] == [n * 2 for n in range(60)]
    assert sorted(ran) == list(range(60))
    tokens = [scene.row(job).fencing_token for job in made]
    assert len(set(tokens)) == 60
    assert all(scene.row(job).attempt == 1 and scene.outcomes(job) == [] for job in made)


def test_never_more_than_its_slots(scene: Scene) -> None:
    here, most, guard = [0], [0], threading.Lock()

    @scene.app.tool(**ROOMY)
    def counts() -> None:
        with guard:
            here[0] += 1
            most[0] = max(most[0], here[0])
        time.sleep(0.03)
        with guard:
            here[0] -= 1

    made = [counts.enqueue() for _ in range(20)]
    with scene.app.worker(slots=3):
        for job in made:
            job.result("20s")
    assert most == [3]


def test_only_and_without_narrow_what_it_offers(scene: Scene) -> None:
    @scene.app.tool(aliases=["old_a"], **ROOMY)
    def a() -> str:
        return "a"

    @scene.app.tool(**ROOMY)
    def b() -> str:
        return "b"

    assert scene.app.new_worker(only=["a"]).tools == ["a", "old_a"]
    assert scene.app.new_worker(without=["a"]).tools == ["b", "tenure.plan"]
    with pytest.raises(NotFound, match="known: a, b"):
        scene.app.new_worker(only=["c"])
    renamed = factory.job(scene.database, tool="old_a")
    with scene.app.worker(only=["a"]):
        other, mine = b.enqueue(), a.enqueue()
        assert mine.result("20s") == "a"
        assert scene.app.job(renamed.job_id).result("20s") == "a"
        assert scene.row(other).status == "queued"


def test_an_unknown_tool_stays_queued_and_says_why(scene: Scene) -> None:
    """B73: no attempt is burned, and whoever waits is told what is missing."""

    @scene.app.tool(name="v1", **ROOMY)
    def old() -> str:
        return "v1"

    old_row = factory.job(scene.database, tool="v2", attempt=0)
    with scene.app.worker():
        assert old.enqueue().result("20s") == "v1"
        with pytest.raises(WaitTimeout) as told:
            scene.app.job(old_row.job_id).result("300ms")
    assert "queued: no worker offers 'v2' (start: tenure worker" in str(told.value)
    row = factory.job_now(scene.database, old_row.key)
    assert (row.status, row.attempt, row.fencing_token) == ("queued", 0, None)


def test_without_a_worker_waiting_says_so(scene: Scene) -> None:
    @scene.app.tool(**ROOMY)
    def charge() -> None: ...

    with pytest.raises(WaitTimeout, match=r"queued: no worker offers 'charge'"):
        charge.enqueue().result("200ms")


def test_failing_jobs_at_the_head_starve_nobody(scene: Scene) -> None:
    """B23: a retry moves the due time, and the due time is the order."""
    order: list[str] = []

    @scene.app.tool(max_attempts=100, **ROOMY)
    def bad(n: int) -> None:
        order.append("bad")
        raise RetryableError("again", retry_after=0.05)

    @scene.app.tool(**ROOMY)
    def good(n: int) -> None:
        order.append("good")

    for n in range(20):
        bad.enqueue(n=n)
    made = [good.enqueue(n=n) for n in range(100)]
    with scene.app.worker(slots=5, grace="1s"):
        for job in made:
            job.result("25s")
    before = order[: len(order) - order[::-1].index("good")]
    assert before.count("bad") <= 20 + 100  # never more than one failing job before each good one
    assert scene.by_status("good") == {"completed": 100}


def test_a_job_that_still_runs_here_is_not_started_twice(scene: Scene) -> None:
    """B19: lost and claimed again, it is refused, given back with refund, and run when the first attempt ended."""
    go, starts = threading.Event(), list[int]()

    @scene.app.tool(max_attempts=3, **SHORT)
    def long(ctx: ToolContext) -> str:
        starts.append(ctx.fencing_token)
        if len(starts) == 1:
            assert go.wait(25)
        return f"start {len(starts)}"

    with scene.app.worker() as worker:
        job = long.enqueue()
        scene.notes.path.touch()
        until(lambda: starts, "the first start")
        key = RowKey("default", job.id)
        expire = sa.text("UPDATE tenure.background_jobs SET lease_expires_at = claimed_at WHERE job_id = :id")
        if scene.database.is_sqlite:
            expire = sa.text("UPDATE background_jobs SET lease_expires_at = claimed_at WHERE job_id = :id")
        scene.database.write(lambda tx: tx.execute(expire, {"id": job.id}))
        until(lambda: "released" in scene.outcomes(job), "the twin given back")
        assert len(starts) == 1
        assert worker.busy == 1
        go.set()
        assert job.result("20s") == "start 2"
        until(lambda: "result_rejected" in scene.outcomes(job), "the rejection of the first")
    assert factory.job_now(scene.database, key).attempt == 2  # the twins were refunded
    assert [word for word in scene.outcomes(job) if word != "released"] == ["lease_expired", "result_rejected"]


# -- settling ----------------------------------------------------------------------------------------------------------


def test_one_settlement_that_cannot_be_written_takes_no_neighbour_down(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even by the constant that is tried last: then the lease runs out, and rescue ends the job."""
    go = threading.Event()

    @scene.app.tool(max_attempts=1, **SHORT)
    def ends(n: int) -> int:
        assert go.wait(20)
        if n == 3:
            raise TerminalError("cursed")
        return n

    real = endings.apply
    cursed: list[str] = []

    def apply(tx: Any, listed: Any) -> Any:
        if any(each.held.job_id in cursed and each.error_code != "lease_expired" for each in listed):
            raise ValueError("this row cannot be written")
        return real(tx, listed)

    monkeypatch.setattr("tenure.store.endings.apply", apply)
    made = [ends.enqueue(n=n) for n in range(6)]
    cursed.append(made[3].id)
    with scene.app.worker(slots=10) as worker:
        for job in made:
            scene.wait_running(job)
        go.set()
        for n, job in enumerate(made):
            if n != 3:
                assert job.result("20s") == n
        assert scene.wait_status(made[3], "failed").error_code == "lease_expired"
        until(lambda: worker.busy == 0, "an idle worker")
        assert ends.enqueue(n=9).result("20s") == 9


def test_a_settlement_that_cannot_be_written_ends_by_a_constant(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    @scene.app.tool(max_attempts=1, **SHORT)
    def ends() -> None:
        raise TerminalError("cursed")

    real = endings.apply

    def apply(tx: Any, listed: Any) -> Any:
        if any(each.error_text == "cursed" for each in listed):
            raise ValueError("this text cannot be written")
        return real(tx, listed)

    monkeypatch.setattr("tenure.store.endings.apply", apply)
    with scene.app.worker():
        row = scene.wait_status(ends.enqueue(), "failed")
    assert (row.error_code, row.error_text) == ("settlement_failed", "the result could not be recorded")


# -- cancel (B13) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["returns", "retryable", "terminal"])
def test_cancel_is_never_overwritten(scene: Scene, then: str) -> None:
    seen = threading.Event()

    @scene.app.tool(**SHORT)
    def ignores(ctx: ToolContext) -> str:
        while not ctx.cancelled:
            time.sleep(0.01)
        seen.set()
        time.sleep(0.3)
        if then == "retryable":
            raise RetryableError("again", retry_after=0)
        if then == "terminal":
            raise TerminalError("no")
        return "a result"

    with scene.app.worker():
        job = ignores.enqueue()
        scene.wait_running(job)
        job.cancel(by="me")
        assert seen.wait(20)
        with pytest.raises(JobCancelled):
            job.result("20s")
    row = scene.row(job)
    assert (row.status, row.attempt, row.output) == ("cancelled", 1, None)
    (entry,) = scene.journal(job)
    assert entry.outcome == "cancelled"
    assert (entry.result_sha256 is not None) == (then == "returns")
    with pytest.raises(StateConflict) as told:
        job.cancel()
    assert told.value.state == "cancelled"


def test_cancel_of_an_async_tool_cancels_it(scene: Scene) -> None:
    heard = threading.Event()

    @scene.app.tool(**SHORT)
    async def sleeps() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.set()
            raise

    with scene.app.worker():
        job = sleeps.enqueue()
        scene.wait_running(job)
        job.cancel()
        scene.wait_status(job, "cancelled")
    assert heard.is_set()
    assert scene.outcomes(job) == ["cancelled"]


def test_cancel_after_success_is_a_conflict(scene: Scene) -> None:
    @scene.app.tool(**SHORT)
    def fine() -> int:
        return 1

    with scene.app.worker():
        job = fine.enqueue()
        job.result("20s")
        with pytest.raises(StateConflict) as told:
            job.cancel()
    assert told.value.state == "completed"


# -- leases are kept (B05) ---------------------------------------------------------------------------------------------


def test_blocking_code_costs_no_lease(scene: Scene) -> None:
    """Longer than the lease each: a blocked event loop, a pure Python loop that holds the GIL in slices."""
    starts: list[str] = []

    @scene.app.tool(**SHORT)
    async def blocks() -> str:
        starts.append("blocks")
        time.sleep(4.5)  # noqa: ASYNC251  (what users do)
        return "blocks"

    @scene.app.tool(**SHORT)
    def spins() -> str:
        starts.append("spins")
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            sum(range(1000))
        return "spins"

    with scene.app.worker(name="one", slots=2), scene.app.worker(name="two", slots=2):
        made = [blocks.enqueue(), spins.enqueue()]
        assert [job.result("25s") for job in made] == ["blocks", "spins"]
    assert sorted(starts) == ["blocks", "spins"]
    assert [(scene.row(job).attempt, scene.outcomes(job)) for job in made] == [(1, []), (1, [])]


# -- the end (B14) -----------------------------------------------------------------------------------------------------


def test_a_graceful_stop_settles_what_runs_and_claims_no_more(scene: Scene) -> None:
    """The lease outlives itself twice while the worker drains, and an idle second worker starts nothing."""
    starts: list[int] = []

    @scene.app.tool(**SHORT)
    def long(n: int) -> str:
        starts.append(n)
        time.sleep(5.0)
        return "done"

    first = scene.app.new_worker(name="one")
    first.start()
    job = long.enqueue(n=1)
    until(lambda: starts, "a start")
    stopping = threading.Thread(target=first.stop, args=(20.0,))
    stopping.start()
    until(lambda: first.status == "draining", "draining")
    with scene.app.worker(name="two", without=["long"]):
        late = long.enqueue(n=2)
        assert job.result("20s") == "done"
        stopping.join(20)
        assert (first.status, first.busy) == ("stopped", 0)
    assert starts == [1]
    assert (scene.row(job).attempt, scene.outcomes(job)) == (1, [])
    assert scene.row(late).status == "queued"


def test_a_failure_while_draining_is_settled_too(scene: Scene) -> None:
    started = threading.Event()

    @scene.app.tool(max_attempts=1, **SHORT)
    def fails() -> None:
        started.set()
        time.sleep(0.5)
        raise TerminalError("no", code="bad")

    worker = scene.app.new_worker()
    worker.start()
    job = fails.enqueue()
    assert started.wait(20)
    worker.stop(10.0)
    assert (scene.row(job).status, scene.row(job).error_code) == ("failed", "bad")


def test_when_the_grace_is_over_the_rest_is_given_back(scene: Scene) -> None:
    """Async tools are cancelled, threads lose their jobs; at once visible, attempt refunded, late result fenced out."""
    go, ended = threading.Event(), list[str]()

    @scene.app.tool(**SHORT)
    def thread(ctx: ToolContext) -> str:
        if not go.is_set():
            go.wait(25)
            ended.append("thread")
            with contextlib.suppress(Exception):
                ctx.stage("late", lambda: ended.append("stage"))
        return "second"

    @scene.app.tool(**SHORT)
    async def on_loop() -> str:
        try:
            if not go.is_set():
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("loop")
            raise
        return "second"

    worker = scene.app.new_worker(name="one")
    worker.start()
    made = [thread.enqueue(), on_loop.enqueue()]
    for job in made:
        scene.wait_running(job)
    worker.stop(0.2)
    assert ended == ["loop"]
    for job in made:
        row = scene.row(job)
        assert (row.status, row.attempt, row.refunds, scene.outcomes(job)) == ("queued", 0, 1, ["released"])
    go.set()
    with scene.app.worker(name="two"):
        assert [job.result("20s") for job in made] == ["second", "second"]
    until(lambda: "thread" in ended, "the end of the first thread")
    assert ended == ["loop", "thread"]  # no stage after the loss
    assert [(scene.row(job).attempt, scene.outcomes(job)) for job in made] == [(1, ["released"])] * 2


def test_leaving_the_with_block_releases(scene: Scene) -> None:
    @scene.app.tool(**ROOMY)
    async def sleeps() -> None:
        await asyncio.sleep(60)

    job = sleeps.enqueue()

    def leave() -> None:
        with scene.app.worker(grace="100ms"):
            scene.wait_running(job)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave()
    assert (scene.row(job).status, scene.outcomes(job)) == ("queued", ["released"])


def test_the_worker_says_that_it_is_here_and_that_it_went(scene: Scene) -> None:
    @scene.app.tool(**ROOMY)
    def fine() -> None: ...

    def present() -> dict[str, Any]:
        return next(iter(factory.rows(scene.database, worker_heartbeats)), {})

    with scene.app.worker(name="here", slots=7):
        row = until(present, "presence")
        assert (row["name"], row["slots"], row["pid"], row["status"]) == ("here", 7, os.getpid(), "running")
        assert "fine" in row["tools"]
    assert present()["status"] == "stopped"


def test_stopping_twice_and_stopping_unstarted_is_fine(scene: Scene) -> None:
    worker = scene.app.new_worker()
    worker.stop(0.1)
    worker.start()
    worker.start()
    worker.stop(0.1)
    worker.stop(0.1)
    assert worker.status == "stopped"


def was_away(scene: Scene, worker: Worker, job: Job[Any], times: int) -> None:
    """Makes the keeper find a gap between its ticks, until the job was given back so many times."""

    def returned() -> bool:
        if scene.outcomes(job).count("away") >= times:
            return True
        worker._keeper.last_tick = boottime() - 60.0  # a tick that is under way overwrites it
        return False

    until(returned, f"return {times}")


# -- away (rule 20) ----------------------------------------------------------------------------------------------------


def test_a_process_that_was_away_gives_back_with_refund(scene: Scene) -> None:
    """Five times: a laptop that is closed again and again must not end a job."""
    starts, heard, returned = list[int](), list[bool](), [threading.Event() for _ in range(5)]

    @scene.app.tool(max_attempts=2, **SHORT)
    def works(ctx: ToolContext) -> int:
        starts.append(ctx.fencing_token)
        if len(starts) <= 5:
            number = len(starts)
            until(lambda: ctx.cancelled, "being told")
            assert returned[number - 1].wait(20)
            heard.append(True)
        return len(starts)

    with scene.app.worker() as worker:
        job = works.enqueue()
        for number in range(1, 6):
            until(partial(lambda n: len(starts) >= n, number), f"start {number}")
            was_away(scene, worker, job, number)
            returned[number - 1].set()
        assert job.result("25s") >= 6
    row = scene.row(job)
    assert (row.attempt, row.refunds) == (1, scene.outcomes(job).count("away"))
    assert row.refunds >= len(heard) == 5


def test_what_was_away_keeps_its_refund_while_the_database_is_away(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network of a laptop comes back later than the laptop."""
    from tenure import flow
    from tenure.errors import DatabaseUnavailable

    starts, returned = list[int](), threading.Event()

    @scene.app.tool(max_attempts=1, **ROOMY)
    def works(ctx: ToolContext) -> int:
        starts.append(ctx.fencing_token)
        if len(starts) == 1:
            until(lambda: ctx.cancelled, "being told")
            assert returned.wait(20)
        return len(starts)

    failures = [2]
    real = flow.give_back

    def give_back(*args: Any, **keywords: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise DatabaseUnavailable("no network yet")
        return real(*args, **keywords)

    monkeypatch.setattr("tenure.flow.give_back", give_back)
    with scene.app.worker() as worker:
        job = works.enqueue()
        until(lambda: starts, "a start")
        was_away(scene, worker, job, 1)
        returned.set()
        assert job.result("25s") == 2
    assert (scene.row(job).attempt, scene.row(job).refunds, scene.outcomes(job)) == (1, 1, ["away", "result_rejected"])


def test_after_being_away_maintenance_waits_one_heartbeat(scene: Scene) -> None:
    @scene.app.tool(**ROOMY)
    def fine() -> None: ...

    worker = scene.app.new_worker()
    expired = factory.job(scene.database, status="running", owner="gone:1", lease_in=-5.0, tool="fine")
    maintenance = worker._maintenance
    maintenance._here_at = boottime() - 60.0
    time.sleep(1.05)  # a sweep a second in the whole database: it would be this worker's turn
    maintenance.run_once()
    assert factory.job_now(scene.database, expired.key).status == "running"
    maintenance._quiet_until = boottime()
    maintenance.run_once()
    assert factory.job_now(scene.database, expired.key).status == "queued"


# -- recovery needs no registry ----------------------------------------------------------------------------------------


def test_rescue_depends_on_the_jobs_own_lease_alone(scene: Scene) -> None:
    """B61: neither a worker's row that is gone nor one that never was hides an orphan."""
    ran: list[int] = []

    @scene.app.tool(**SHORT)
    def works(n: int) -> int:
        ran.append(n)
        return n

    orphan = factory.job(
        scene.database, tool="works", input={"n": 1}, status="running", owner="dead:1", lease_in=-0.1, max_attempts=2
    )
    assert factory.rows(scene.database, worker_heartbeats) == []
    with scene.app.worker():
        assert scene.app.job(orphan.job_id).result("20s") == 1
    assert scene.outcomes(scene.app.job(orphan.job_id)) == ["lease_expired"]


def test_an_exhausted_orphan_ends_though_nobody_offers_its_tool(scene: Scene) -> None:
    """B04: the sweep ends it, in the words of what happened."""
    orphan = factory.job(
        scene.database, tool="unknown", status="running", owner="dead:1", lease_in=-0.1, attempt=3, max_attempts=3
    )
    with scene.app.worker():
        row = scene.wait_status(scene.app.job(orphan.job_id), "failed")
    assert row.error_code == "lease_expired"
    assert "worker lost 3 times" in (row.error_text or "")


# -- the database goes (B24) -------------------------------------------------------------------------------------------


@pytest.fixture
def link(postgres_url: str) -> Iterator[Proxy]:
    with running(postgres_url) as proxy:
        yield proxy


def test_claims_whose_answer_was_lost_are_given_back(link: Proxy, make_scene: MakeScene) -> None:
    """The commit happened, the answer never came: nobody runs the job, so the owner returns it, with refund."""
    scene = make_scene(link.url)

    @scene.app.tool(max_attempts=1, **ROOMY)
    def works() -> str:
        return "done"

    job = works.enqueue()
    link.cut_at(b"background_jobs SET status='running'", delivered=True)
    link.cut_at(b"first_claimed_at", delivered=True)
    with scene.app.worker():
        assert link.fired.wait(20)
        assert job.result("25s") == "done"
    row = scene.row(job)
    assert (row.attempt, row.refunds, scene.outcomes(job)) == (1, 1, ["released"])
    assert scene.journal(job)[0].note == "ghost"


def test_a_ghost_claim_is_given_back_by_a_worker_that_drains(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.errors import CommitUnknown

    go, lost = threading.Event(), list[str]()

    @scene.app.tool(max_attempts=1, **ROOMY)
    def works(n: int) -> str:
        assert n == 0 or lost
        assert go.wait(25)
        return "done"

    with stepping(scene.app.new_worker()) as worker:
        busy = works.enqueue(n=0)
        scene.wait_running(busy)
        real = worker._claiming.single

        def loses(body: Any, **options: Any) -> Any:
            found = real(body, **options)
            if isinstance(found, list) and found and not lost:
                lost.extend(lease.job_id for lease in found)
                worker._draining = True
                raise CommitUnknown("the answer to the claim is lost")
            return found

        monkeypatch.setattr(worker._claiming, "single", loses)
        ghost = works.enqueue(n=1)
        until(lambda: lost, "a lost claim")
        until(lambda: scene.row(ghost).refunds == 1, "the return")
        assert scene.row(ghost).status == "queued"
        go.set()
        assert busy.result("20s") == "done"


def test_a_completion_whose_answer_was_lost_is_looked_up(link: Proxy, make_scene: MakeScene) -> None:
    scene = make_scene(link.url)
    go = threading.Event()

    @scene.app.tool(max_attempts=1, **ROOMY)
    def works() -> str:
        scene.notes.write("run")
        assert go.wait(20)
        return "done"

    with scene.app.worker():
        job = works.enqueue()
        scene.wait_running(job)
        link.cut_at(b"SET status='completed'", delivered=True)
        link.cut_at(b"finished_at=", delivered=True)
        go.set()
        assert link.fired.wait(20)
        assert job.result("20s") == "done"
        scene.notes.wait(1)
    assert (scene.notes.lines(), scene.row(job).attempt, scene.outcomes(job)) == (["run"], 1, [])


@pytest.mark.parametrize("moment", ["idle", "running"])
def test_the_worker_is_back_by_itself_when_its_link_is(link: Proxy, make_scene: MakeScene, moment: str) -> None:
    scene = make_scene(link.url)
    go = threading.Event()

    @scene.app.tool(max_attempts=1, **ROOMY)
    def works(n: int) -> int:
        if n == 0:
            assert go.wait(25)
        return n

    with scene.app.worker() as worker:
        assert works.enqueue(n=1).result("20s") == 1
        job = works.enqueue(n=0)
        if moment == "running":
            scene.wait_running(job)
        link.cut()
        time.sleep(2.5)  # the length of the outage
        link.resume()
        go.set()
        assert job.result("10s") == 0  # "within 10 s" is the rule
        assert works.enqueue(n=2).result("10s") == 2
        assert worker.status == "running"
    assert scene.row(job).attempt == 1


def test_a_begin_that_fails_leaves_nothing_running_here(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare jobs of the same batch were claimed too: all of it comes back as ghost claims."""
    from tenure import Step, flow
    from tenure.errors import DatabaseUnavailable

    @scene.app.tool(max_attempts=1, **ROOMY)
    def works(n: int) -> int:
        return n

    failures, real = [1], flow.begin

    def begin(*args: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise DatabaseUnavailable("gone for a moment")
        return real(*args)

    monkeypatch.setattr("tenure.flow.begin", begin)
    bare = works.enqueue(n=1)
    turn = scene.app.submit(session_id="s", steps=[Step("one", works, n=2)])
    with scene.app.worker():
        assert bare.result("20s") == 1
        assert turn.result("20s") == {"one": 2}
    assert (scene.row(bare).attempt, scene.row(bare).refunds) == (1, 1)


# -- lifespan and embedding --------------------------------------------------------------------------------------------


def test_the_lifespan_opens_once_on_the_tools_loop_and_closes(database_url: str, tmp_path: Any) -> None:
    seen: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[dict[str, Any]]:
        seen.append(f"open on {threading.current_thread().name}")
        async with asyncio.TaskGroup() as group:  # must be left by the coroutine that entered it
            ticking = group.create_task(asyncio.sleep(60))
            yield {"loop": asyncio.get_running_loop()}
            ticking.cancel()
        seen.append("closed")

    app = Tenure(database_url, lifespan=lifespan, artifacts=str(tmp_path))

    @app.tool(**ROOMY)
    async def on_loop(ctx: Any) -> bool:
        return ctx.state["loop"] is asyncio.get_running_loop()

    @app.tool(**ROOMY)
    def in_thread(ctx: ToolContext) -> bool:
        return bool(ctx.state["loop"].is_running())

    with app.worker():
        assert [job.result("20s") for job in (on_loop.enqueue(), in_thread.enqueue(), on_loop.enqueue())] == [True] * 3
        assert seen == ["open on tenure-loop"]
    assert seen == ["open on tenure-loop", "closed"]
    app.close()


def test_a_lifespan_that_fails_stops_the_start(database_url: str, tmp_path: Any) -> None:
    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        if app.settings.poll_s:
            raise LookupError("no such bank")
        yield

    app = Tenure(database_url, lifespan=lifespan, artifacts=str(tmp_path))
    with pytest.raises(LookupError, match="no such bank"):
        app.new_worker().start()
    app.close()


def test_two_workers_in_one_process_share_the_work(scene: Scene) -> None:
    @scene.app.tool(**ROOMY)
    def slow(n: int) -> int:
        time.sleep(0.1)
        return n

    made = [slow.enqueue(n=n) for n in range(12)]
    with scene.app.worker(name="one", slots=2), scene.app.worker(name="two", slots=2):
        assert [job.result("20s") for job in made] == list(range(12))
    owners = {(scene.row(job).lease_owner or "").partition(":")[0] for job in made}
    assert owners == {"one", "two"}


def test_a_web_frameworks_lifespan_runs_a_worker(scene: Scene) -> None:
    @scene.app.tool(**ROOMY)
    async def fine(n: int) -> int:
        return n

    async def serve() -> int:
        async with scene.app.lifespan(worker=True)(None):
            job = await scene.app.aenqueue(fine, {"n": 4})
            found: int = await job.aresult("20s")
            return found

    assert asyncio.run(serve()) == 4
    assert factory.rows(scene.database, worker_heartbeats)[0]["status"] == "stopped"


FORKS = """
import os, signal, sys
from tenure import Tenure
signal.alarm(50)
app = Tenure(sys.argv[1])

@app.tool()
def where() -> int:
    return os.getpid()

def run():
    with app.worker(grace="1s"):
        return where.enqueue().result("20s")

assert run() == os.getpid()
pid = os.fork()
if pid == 0:
    signal.alarm(40)
    os._exit(0 if run() == os.getpid() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert run() == os.getpid()
"""


def test_a_fork_after_use_has_a_worker_of_its_own(database_url: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, database_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, cwd=harness.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# -- slots (B74) -------------------------------------------------------------------------------------------------------


def test_a_slot_is_freed_when_its_job_ends_by_whichever_way(scene: Scene) -> None:
    """The holder dies: its slot passes on with the end of its job, not with some other clean-up."""
    from tenure import Step

    @scene.app.tool(writes="output", max_attempts=1, **SHORT)
    def writes(n: int) -> int:
        return n

    first = scene.app.submit(session_id="a", project_id="p", steps=[Step("one", writes, n=1)])
    with scene.app.worker(only=None, without=["writes"]):
        until(lambda: [job for job in first.jobs() if job.tool == "writes"], "the first writer's job")
    dead = scene.database.single(lambda tx: claims.claim(tx, "dead:1", {"writes": 0.5}, 1))
    assert len(dead) == 1
    second = scene.app.submit(session_id="b", project_id="p", steps=[Step("one", writes, n=2)])
    with scene.app.worker():
        assert second.result("20s") == {"one": 2}
        until(lambda: first.status == "failed", "the end of the first")


def test_a_planner_that_takes_too_long_is_asked_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.PLAN_TIMEOUT_S", 0.3)
    asked = threading.Event()
    late = threading.Event()

    @scene.app.recipe("think")
    def think(turn: TurnView) -> Final:
        if not asked.is_set():
            asked.set()
            late.wait(2.5)
        return Final("thought")

    with scene.app.worker():
        turn = scene.app.submit(session_id="s", command="think")
        assert turn.result("30s") == "thought"
    (job,) = turn.jobs()
    found = scene.database.read(lambda tx: journal.of_job(tx, job.key))
    assert [(entry.outcome, entry.error_code) for entry in found] == [("timed_out", "timeout")]
