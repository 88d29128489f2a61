"""Stages, artifacts and progress: kept by the holder, and by nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenure import AsyncToolContext, ToolContext
from tenure.context import Attempt, boottime
from tenure.context import ToolContext as Context
from tenure.db.schema import artifacts
from tenure.errors import CancelRequested, OwnershipLost, RetryableError
from tenure.flow import report
from tenure.leases import LeaseClass
from tenure.records import RowKey
from tenure.store import endings, jobs
from tests import factory
from tests.worker.scene import SHORT, Kept, Scene, keep, lease_left, until

ROOMY = LeaseClass(lease=30.0, heartbeat=5.0, missed=1, margin=1.0)


@dataclass
class Point:
    x: int
    name: str | None = None


def again(attempt: int, most: int = 2) -> None:
    if attempt < most:
        raise RetryableError("once more", retry_after=0)


@pytest.mark.parametrize("isolation", ["thread", "async"])
def test_a_stage_that_takes_too_long_ends_its_attempt_and_keeps_what_was_saved(scene: Scene, isolation: str) -> None:
    never = threading.Event()

    @scene.app.tool(name="thread", **SHORT)
    def in_thread(ctx: ToolContext) -> str:
        ctx.stage("before", scene.notes.write, "before")
        ctx.stage("slow", never.wait, 30 if ctx.attempt == 1 else 0, timeout="300ms")
        return f"attempt {ctx.attempt}"

    @scene.app.tool(name="async", **SHORT)
    async def on_loop(ctx: AsyncToolContext) -> str:
        await ctx.stage("before", scene.notes.write, "before")
        await ctx.stage("slow", asyncio.sleep, 30 if ctx.attempt == 1 else 0, timeout="300ms")
        return f"attempt {ctx.attempt}"

    with scene.app.worker():
        job = scene.app.enqueue(isolation, {})
        assert job.result("20s") == "attempt 2"
    (first,) = scene.journal(job)
    assert (first.outcome, first.error_code) == ("retry", "stage_timeout")
    assert scene.notes.lines() == ["before"]


@pytest.mark.parametrize("isolation", ["thread", "async"])
def test_a_stage_is_computed_once_and_its_decoded_value_is_given(scene: Scene, isolation: str) -> None:
    """On the first attempt too the tool gets what was stored, so that all attempts see the same."""

    def compute(n: int) -> Any:
        scene.notes.write(f"computed {n}")
        return Point(n), ("a", 1.5), {"deep": {1: None}}

    @scene.app.tool(name="thread", **SHORT)
    def in_thread(ctx: ToolContext) -> Any:
        found = ctx.stage("one", compute, 7)
        scene.notes.write(f"got {found}")
        assert ctx.stage("nothing", lambda: None) is None
        again(ctx.attempt)
        return found

    @scene.app.tool(name="async", **SHORT)
    async def on_loop(ctx: AsyncToolContext) -> Any:
        async def slow(n: int) -> Any:
            return compute(n)

        found = await ctx.stage("one", slow, 7)
        scene.notes.write(f"got {found}")
        assert await ctx.stage("nothing", lambda: None) is None
        again(ctx.attempt)
        return found

    with scene.app.worker():
        job = scene.app.enqueue(isolation, {})
        stored = [{"x": 7, "name": None}, ["a", 1.5], {"deep": {"1": None}}]
        assert job.result("20s") == stored
    assert scene.notes.lines() == ["computed 7", f"got {stored}", f"got {stored}"]
    assert sorted((stage.name, stage.answer) for stage in scene.stages(job)) == [("nothing", None), ("one", stored)]


def test_a_stage_that_returned_none_is_not_computed_again(scene: Scene) -> None:
    @scene.app.tool(**SHORT)
    def twice(ctx: ToolContext) -> int:
        ctx.stage("nothing", lambda: scene.notes.write("computed"))
        again(ctx.attempt)
        return ctx.attempt

    with scene.app.worker():
        assert twice.enqueue().result("20s") == 2
    assert scene.notes.lines() == ["computed"]


def test_other_arguments_are_computed_anew(scene: Scene) -> None:
    @scene.app.tool(**SHORT)
    def changes(ctx: ToolContext) -> int:
        found: int = ctx.stage("square", lambda n: n * n, ctx.attempt)
        again(ctx.attempt, 3)
        return found

    with scene.app.worker():
        job = changes.enqueue()
        assert job.result("20s") == 9
    assert [stage.answer for stage in scene.stages(job)] == [9]


def test_a_name_is_entered_once_an_attempt(scene: Scene) -> None:
    @scene.app.tool(**SHORT)
    def parts(ctx: ToolContext) -> list[int]:
        return [ctx.stage("one", lambda n: n, n, part=str(n)) for n in range(3)]

    @scene.app.tool(**SHORT)
    def twice(ctx: ToolContext) -> None:
        for _ in range(2):
            ctx.stage("one", lambda: 1)

    with scene.app.worker():
        assert parts.enqueue().result("20s") == [0, 1, 2]
        row = scene.wait_status(twice.enqueue(), "failed")
    assert (row.error_code, row.attempt) == ("entered_twice", 1)


# -- without a worker: one attempt and its context ---------------------------------------------------------------------


def context_of(scene: Scene, kept: Kept) -> Context:
    return ToolContext(Attempt(scene.app.program, kept.keeper.owner, kept.hold_of()))


def taken_away(scene: Scene, kept: Kept) -> None:
    """The job is ended behind the holder's back; the holder has not heard of it."""
    lease = kept.hold_of().lease
    scene.database.write(lambda tx: endings.quarantine(tx, RowKey(lease.tenant_id, lease.job_id)))


def asked_to_cancel(scene: Scene, kept: Kept) -> None:
    lease = kept.hold_of().lease
    scene.database.write(lambda tx: jobs.request_cancel(tx, RowKey(lease.tenant_id, lease.job_id), "someone"))


def stored_files(scene: Scene) -> list[Path]:
    root = Path(scene.app.settings.artifacts)
    return [path for path in root.rglob("*") if path.is_file()] if root.exists() else []


def test_saving_a_stage_renews_and_counts_as_progress(scene: Scene) -> None:
    kept = keep(scene.database, 1, ROOMY)
    hold, context = kept.hold_of(), context_of(scene, kept)
    hold.progressed_at = hold.confirmed_at = boottime() - 5.0
    hold.failed_try = True
    hold.fail_try(60.0)
    kept.tick()
    before = lease_left(scene.database, hold.lease)
    context.stage("one", lambda: 1)
    assert lease_left(scene.database, hold.lease) > before - 0.5
    assert boottime() - hold.progressed_at < 5.0
    assert scene.database.read(lambda tx: jobs.get(tx, RowKey("default", hold.lease.job_id))).progress_seq == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("happens", "raised"), [(taken_away, OwnershipLost), (asked_to_cancel, CancelRequested)], ids=["lost", "cancel"]
)
def test_who_may_not_write_writes_nothing(
    scene: Scene, happens: Callable[[Scene, Kept], None], raised: type[Exception]
) -> None:
    kept = keep(scene.database, 1, ROOMY)
    context, lease = context_of(scene, kept), kept.hold_of().lease
    happens(scene, kept)
    with pytest.raises(raised):
        context.stage("one", lambda: 1)
    with pytest.raises(raised):
        context.artifact("report.txt", b"stale")
    with pytest.raises(raised):
        context.effect("send", lambda call: scene.notes.write("sent"))
    assert stored_files(scene) == []
    assert factory.rows(scene.database, artifacts) == []
    assert scene.notes.lines() == []
    job = factory.job_now(scene.database, RowKey(lease.tenant_id, lease.job_id))
    assert job.progress_seq == 0


def test_progress_of_a_stale_owner_is_not_stored(scene: Scene) -> None:
    kept = keep(scene.database, 2, ROOMY)
    taken_away(scene, kept)
    leases = [hold.lease for hold in kept.holds]
    stored = report(scene.app.program, kept.keeper.owner, {lease.held: (lease, {"n": 1}) for lease in leases})
    assert stored == {leases[1].held}
    rows = [factory.job_now(scene.database, RowKey(lease.tenant_id, lease.job_id)) for lease in leases]
    assert [(row.progress, row.progress_seq) for row in rows] == [(None, 0), ({"n": 1}, 1)]


def test_progress_is_coalesced_and_the_latest_wins(scene: Scene) -> None:
    go = threading.Event()

    @scene.app.tool(**SHORT)
    def busy(ctx: ToolContext) -> None:
        for n in range(1000):
            ctx.progress(n / 1000, at=n)
        ctx.progress("nearly", password="hunter2!")
        assert go.wait(20)

    with scene.app.worker():
        job = busy.enqueue()
        until(lambda: (scene.row(job).progress or {}).get("value") == "nearly", "the latest progress")
        go.set()
        job.result("20s")
    row = scene.row(job)
    assert row.progress_seq <= 5
    assert "hunter2!" not in str(row.progress)


def test_artifacts_are_published_whole(scene: Scene, tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(b"x" * 3_000_000)

    @scene.app.tool(**SHORT)
    def makes(ctx: ToolContext) -> list[str]:
        made = [ctx.artifact("../../etc/p\0asswd", b"one"), ctx.artifact("b.bin", source)]
        assert ctx.artifact_path(made[1].artifact_id).read_bytes() == source.read_bytes()
        return [each.artifact_id for each in made]

    with scene.app.worker():
        job = makes.enqueue()
        ids = job.result("20s")
    found = scene.app.artifacts(job.id)
    assert [each.artifact_id for each in found] == ids
    assert "/" not in found[0].name
    assert [scene.app.artifact_path(each).stat().st_size for each in found] == [3, 3_000_000]
    assert len(stored_files(scene)) == 2
