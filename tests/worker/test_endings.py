"""However an attempt ends, the job gets a state, the worker stays, and its next job succeeds."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tenure import AsyncToolContext, ToolContext
from tenure.app import Tool
from tenure.db.engine import Database
from tenure.errors import JobFailed, RetryableError, SettingsError, TerminalError
from tests import factory
from tests.worker import tools
from tests.worker.scene import SHORT, Scene, gone, until
from tests.worker.tools import Order, Part

DUE = dt.date(2031, 2, 3)
AT = dt.datetime(2031, 4, 5, 6, 7, 8, tzinfo=dt.UTC)


# -- typed, both ways --------------------------------------------------------------------------------------------------


def test_arguments_and_results_are_typed_both_ways(scene: Scene) -> None:
    app = scene.app

    @app.tool(**SHORT)
    def in_thread(order: Order, at: dt.datetime) -> Order:
        assert (type(order), type(order.due), at.tzinfo is not None) == (Order, dt.date, True)
        return Order(number=f"{order.number}!", due=at.date(), lines=order.lines)

    @app.tool(**SHORT)
    async def on_loop(order: Order, at: dt.datetime) -> Order:
        assert (type(order), type(order.due), at.tzinfo is not None) == (Order, dt.date, True)
        return Order(number=f"{order.number}!", due=at.date(), lines=order.lines)

    scene.borrow(tools.typed_in_process)
    order = Order(number="A-1", due=DUE, lines=[2**53 + 1])
    with app.worker():
        for tool in (in_thread, on_loop, tools.typed_in_process):
            made = app.enqueue(tool.name, {"order": order, "at": AT}).result("30s")
            assert type(made) is Order
            assert (made.number, made.due, made.lines[0]) == ("A-1!", AT.date(), 2**53 + 1)


def test_where_tools_run(scene: Scene) -> None:
    app = scene.app

    @app.tool(**SHORT)
    def in_thread() -> list[Any]:
        return [os.getpid(), threading.current_thread().name]

    @app.tool(**SHORT)
    async def on_loop() -> list[Any]:
        return [os.getpid(), threading.current_thread().name, asyncio.get_running_loop().is_running()]

    scene.borrow(tools.pid_of)
    with app.worker():
        assert in_thread.enqueue().result("20s") == [os.getpid(), "tenure-tool"]
        assert on_loop.enqueue().result("20s") == [os.getpid(), "tenure-loop", True]
        first, second = (app.enqueue("pid_of", {"n": n}).result("30s") for n in (1, 2))
    assert first == second != os.getpid()  # kept warm
    until(lambda: gone(first), "the end of the tool's process with its worker")


def test_the_tool_gets_exactly_what_was_given(scene: Scene) -> None:
    """B01: nothing that is masked in views is masked in what runs, on no attempt."""
    given = {
        "page_token": "pt_9",
        "connection": "postgres://svc:Pa55@db/x",
        "max_tokens": 512,
        "deep": {"api_key": "k-1"},
    }
    seen: list[Any] = []

    @scene.app.tool(**SHORT)
    def takes(value: dict[str, Any]) -> int:
        seen.append(value)
        if len(seen) == 1:
            raise RetryableError("once more", retry_after=0)
        return len(seen)

    with scene.app.worker():
        assert takes.enqueue(value=given).result("20s") == 2
    assert seen == [given, given]


# -- every ending is an outcome ----------------------------------------------------------------------------------------


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Fatal(BaseException):
    pass


ENDINGS: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    "exception": (lambda: ValueError("no"), "exception", "no"),
    "system exit": (lambda: SystemExit(3), "system_exit", "3"),
    "keyboard interrupt": (lambda: KeyboardInterrupt(), "keyboard_interrupt", ""),
    "cancelled": (lambda: asyncio.CancelledError(), "cancelled_error", ""),
    "generator exit": (lambda: GeneratorExit(), "exception", ""),
    "own base": (lambda: Fatal("deep"), "exception", "deep"),
    "group": (lambda: ExceptionGroup("many", [ValueError("a"), KeyError("b")]), "exception_group", "many"),
    "base group": (lambda: BaseExceptionGroup("m", [KeyboardInterrupt(), ValueError("a")]), "exception_group", "m"),
    "unreadable": (lambda: Unreadable(), "exception", "could not be read"),
    "huge": (lambda: RuntimeError("'\"%s{}\\" + "long text, " * 500_000), "exception", "'\"%s{}"),
    "nul": (lambda: RuntimeError("a\0b \ud800 c"), "exception", "a\u2400b"),
    "terminal": (lambda: TerminalError("no use", code="bad_account"), "bad_account", "no use"),
}


@pytest.mark.parametrize("isolation", ["thread", "async"])
def test_any_exception_is_an_outcome_and_the_worker_stays(scene: Scene, isolation: str) -> None:
    app = scene.app

    @app.tool(max_attempts=1, **SHORT)
    def thread(ending: str) -> None:
        raise ENDINGS[ending][0]()

    @app.tool(name="async", max_attempts=1, **SHORT)
    async def on_loop(ending: str) -> None:
        raise ENDINGS[ending][0]()

    @app.tool(**SHORT)
    def fine() -> str:
        return "fine"

    with app.worker(slots=4) as worker:
        made = {ending: app.enqueue(isolation, {"ending": ending}) for ending in ENDINGS}
        for ending, (_, code, text) in ENDINGS.items():
            row = scene.wait_status(made[ending], "failed")
            assert row.error_code == code, ending
            assert text in (row.error_text or ""), ending
            assert len((row.error_text or "").encode()) < 10_000, ending
            assert "\0" not in (row.error_text or "")
            assert scene.outcomes(made[ending]) == ["failed"]
        assert fine.enqueue().result("20s") == "fine"
        assert worker.status == "running"


def test_any_ending_of_a_process_tool_is_an_outcome(scene: Scene) -> None:
    scene.borrow(tools.ends_badly, tools.pid_of)
    codes = {
        "system_exit": "system_exit",
        "keyboard_interrupt": "keyboard_interrupt",
        "exception": "exception",
        "not_serializable": "result_not_serializable",
    }
    with scene.app.worker():
        for how, code in codes.items():
            job = scene.app.enqueue("ends_badly", {"how": how})
            assert scene.wait_status(job, "failed").error_code == code
        assert scene.app.enqueue("pid_of", {"n": 1}).result("30s") > 0


def test_a_users_own_broken_transaction_does_not_break_ours(scene: Scene) -> None:
    """B18: the tool's database handle is aborted, and by a violation at commit; the failure is written all the same."""

    @scene.app.tool(max_attempts=1, **SHORT)
    def breaks(url: str, statement: str) -> None:
        database = Database(url)
        try:
            database.write(lambda tx: tx.connection.exec_driver_sql(statement))
        finally:
            database.dispose()

    with scene.app.worker():
        for statement in ("SELEC 1", "INSERT INTO nowhere VALUES (1)"):
            row = scene.wait_status(breaks.enqueue(url=scene.url, statement=statement), "failed")
            assert row.error_code == "exception"


class Measure(BaseModel):
    value: float


def test_a_result_that_is_not_json_is_terminal(scene: Scene) -> None:
    values: dict[str, Any] = {
        "object": [object()],
        "nan": float("nan"),
        "deep infinity": {"a": [1.0, {"b": float("inf")}]},
        "in a model": Measure(value=float("nan")),
        "bytes": b"\xff\xfe",
        "itself": [],
    }
    values["itself"].append(values["itself"])

    @scene.app.tool(**SHORT)
    def gives(what: str) -> Any:
        return values[what]

    with scene.app.worker():
        for what in values:
            row = scene.wait_status(gives.enqueue(what=what), "failed")
            assert (row.error_code, row.error_kind, row.attempt) == ("result_not_serializable", "terminal", 1), what


def test_nul_in_a_result_gets_a_marker_in_every_shape(scene: Scene) -> None:
    """B07 (a): dicts, models and dataclasses alike, on both databases."""
    app = scene.app

    @app.tool(**SHORT)
    def a_dict() -> dict[str, Any]:
        return {"out": "a\0b", "k\0": ["\0"]}

    @app.tool(**SHORT)
    def a_model() -> Order:
        return Order(number="a\0b", due=DUE)

    @app.tool(**SHORT)
    def a_dataclass() -> Part:
        return Part("a\0b")

    with app.worker():
        assert a_dict.enqueue().result("20s") == {"out": "a\u2400b", "k\u2400": ["\u2400"]}
        assert a_model.enqueue().result("20s").number == "a\u2400b"
        assert a_dataclass.enqueue().result("20s").name == "a\u2400b"


def test_an_old_row_that_no_longer_fits_is_input_invalid(scene: Scene) -> None:
    @scene.app.tool(name="thread", **SHORT)
    def in_thread(n: int) -> int:
        return n

    @scene.app.tool(name="async", **SHORT)
    async def on_loop(n: int) -> int:
        return n

    scene.borrow(tools.pid_of)
    rows = [factory.job(scene.database, tool=tool, input={"n": "many"}) for tool in ("thread", "async", "pid_of")]
    with scene.app.worker():
        for row in rows:
            job = scene.app.job(row.job_id)
            with pytest.raises(JobFailed) as told:
                job.result("30s")
            assert told.value.error_code == "input_invalid", row.tool
            assert (scene.row(job).error_kind, scene.row(job).attempt) == ("terminal", 1)


# -- time --------------------------------------------------------------------------------------------------------------


def test_timeout_bounds_an_attempt_in_a_thread(scene: Scene) -> None:
    """What the thread returns after its time is not the job's result; told, counted, and the slot free once it ends."""
    told, go = threading.Event(), threading.Event()

    @scene.app.tool(timeout="400ms", max_attempts=1, **SHORT)
    def slow(ctx: ToolContext) -> str:
        while not ctx.cancelled:
            time.sleep(0.01)
        told.set()
        assert go.wait(20)
        return "late"

    with scene.app.worker() as worker:
        job = slow.enqueue()
        assert told.wait(20)
        until(lambda: worker.stuck_threads == 1, "one stuck thread")
        go.set()
        row = scene.wait_status(job, "failed")
        assert (row.error_code, row.output) == ("timeout", None)
        assert scene.outcomes(job) == ["timed_out"]
        until(lambda: worker.stuck_threads == 0 and worker.busy == 0, "no stuck thread")


def test_the_late_result_of_a_stuck_thread_is_fenced_out(scene: Scene) -> None:
    """After the timeout renewal stops: rescue takes the job, the second attempt counts, the first is put on record."""
    go, returned = threading.Event(), threading.Event()

    @scene.app.tool(timeout="300ms", max_attempts=2, **SHORT)
    def stuck(ctx: ToolContext) -> str:
        if ctx.attempt == 1:
            assert go.wait(30)
            returned.set()
            return "first"
        return "second"

    with scene.app.worker(name="one"):
        job = stuck.enqueue()
        scene.wait_running(job)
        with scene.app.worker(name="two"):
            assert job.result("25s") == "second"
            go.set()
            assert returned.wait(10)
            until(lambda: "result_rejected" in scene.outcomes(job), "the rejection")
    # A worker that claims what still runs in it gives that back, with refund.
    assert [word for word in scene.outcomes(job) if word != "released"] == ["lease_expired", "result_rejected"]
    assert (scene.row(job).output, scene.row(job).attempt) == ("second", 2)


def test_timeout_ends_an_async_tool(scene: Scene) -> None:
    ended = threading.Event()

    @scene.app.tool(timeout="400ms", max_attempts=1, **SHORT)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with scene.app.worker():
        job = slow.enqueue()
        row = scene.wait_status(job, "failed")
    assert ended.is_set()
    assert (row.error_code, scene.outcomes(job)) == ("timeout", ["timed_out"])


def test_an_attempt_that_waits_for_a_blocked_loop_loses_none_of_its_time(scene: Scene) -> None:
    """One tool that blocks the loop must not fail its neighbours: their time begins when they do."""

    @scene.app.tool(**SHORT)
    async def blocks() -> None:
        time.sleep(2.5)  # noqa: ASYNC251  (what users do)

    @scene.app.tool(timeout="300ms", max_attempts=1, **SHORT)
    async def waits() -> str:
        return "ran"

    with scene.app.worker() as worker:
        first = blocks.enqueue()
        scene.wait_running(first)
        second = waits.enqueue()
        assert second.result("20s") == "ran"
        assert worker.stuck_threads == 0
        assert scene.wait_status(first, "completed").attempt == 1
    assert (scene.row(second).attempt, scene.outcomes(second)) == (1, [])


def test_timeout_kills_a_process_tool_with_its_children(scene: Scene) -> None:
    scene.borrow(tools.with_a_child, tools.pid_of)
    with scene.app.worker():
        scene.app.enqueue("pid_of", {"n": 1}).result("30s")  # warm: the process itself takes its time
        job = scene.app.enqueue("with_a_child", {"notes": str(scene.notes.path)})
        pid, child = map(int, scene.notes.wait()[0].split())
        assert scene.wait_status(job, "failed").error_code == "timeout"
        until(lambda: gone(pid) and gone(child), "the end of the process and its child")


def test_a_process_that_died_leaves_no_child_behind(scene: Scene) -> None:
    scene.borrow(tools.leaves_a_child_and_dies)
    with scene.app.worker():
        job = scene.app.enqueue("leaves_a_child_and_dies", {"notes": str(scene.notes.path)})
        pid, child = map(int, scene.notes.wait()[0].split())
        assert scene.wait_status(job, "failed").error_code == "process_died"
        until(lambda: gone(pid) and gone(child), "the end of the orphan")


@pytest.mark.parametrize("isolation", ["thread", "async"])
def test_idle_timeout_is_the_time_without_stored_progress(scene: Scene, isolation: str) -> None:
    quiet = threading.Event()
    options: dict[str, Any] = {"idle_timeout": "1500ms", "max_attempts": 1, **SHORT}

    @scene.app.tool(name="thread", **options)
    def in_thread(ctx: ToolContext, busy: bool) -> str:
        for n in range(30):
            if busy:
                ctx.progress(n)
            elif ctx.cancelled:
                break
            time.sleep(0.1)
        quiet.wait(0 if busy else 20)
        return "done"

    @scene.app.tool(name="async", **options)
    async def on_loop(ctx: AsyncToolContext, busy: bool) -> str:
        for n in range(30 if busy else 300):
            if busy:
                ctx.progress(n)
            await asyncio.sleep(0.1)
        return "done"

    with scene.app.worker():
        busy, idle = (scene.app.enqueue(isolation, {"busy": busy}) for busy in (True, False))
        assert busy.result("25s") == "done"
        quiet.set()
        assert scene.wait_status(idle, "failed").error_code == "timeout"
    assert scene.row(busy).progress_seq > 1


# -- processes ---------------------------------------------------------------------------------------------------------


def test_a_process_tool_that_crashes_is_tried_again(scene: Scene) -> None:
    scene.borrow(tools.dies_once)
    with scene.app.worker():
        made = [
            scene.app.enqueue("dies_once", {"notes": f"{scene.notes.path}.{how}", "how": how})
            for how in ("exit", "kill")
        ]
        assert [job.result("40s") for job in made] == ["second", "second"]
    for job, status in zip(made, ("7", "-9"), strict=True):
        (entry,) = scene.journal(job)
        assert (entry.outcome, entry.error_code) == ("retry", "process_died")
        assert f"ended with {status}" in (entry.error_text or "")
        assert scene.row(job).attempt == 2


def test_the_context_in_a_process(scene: Scene) -> None:
    scene.borrow(tools.uses_context)
    scene.app.set_project("p1", {"currency": "EUR"})
    with scene.app.worker():
        job = scene.app.enqueue("uses_context", {"notes": str(scene.notes.path)}, project_id="p1")
        found = job.result("30s")
    row = scene.row(job)
    assert found["part"] == {"name": "a part"}
    assert (found["bytes"], found["settings"]) == ("made in a process", {"currency": "EUR"})
    assert (found["ownership"], found["cancelled"]) == ("owned", False)
    assert found["ids"] == [job.id, 1, row.fencing_token]
    assert [stage.name for stage in scene.stages(job)] == ["one"]
    assert [artifact.artifact_id for artifact in scene.app.artifacts(job.id)] == [found["artifact"]]
    assert scene.notes.lines() == ["computed"]


def test_threads_of_a_process_tool_share_its_context(scene: Scene) -> None:
    scene.borrow(tools.chats)
    with scene.app.worker():
        assert scene.app.enqueue("chats", {"threads": 8}).result("40s") == 0


def test_a_process_tool_may_have_processes(scene: Scene) -> None:
    scene.borrow(tools.pools)
    with scene.app.worker():
        assert scene.app.enqueue("pools", {"n": 4}).result("40s") == [4, 5]


def test_cancel_kills_a_process_tool(scene: Scene) -> None:
    scene.borrow(tools.lingers)
    with scene.app.worker():
        job = scene.app.enqueue("lingers", {"notes": str(scene.notes.path)})
        pid = int(scene.notes.wait()[0])
        job.cancel()
        scene.wait_status(job, "cancelled")
        until(lambda: gone(pid), "the end of the process")
    assert scene.outcomes(job) == ["cancelled"]


def test_a_function_that_no_process_can_import_is_refused_at_registration(scene: Scene) -> None:
    def local(n: int) -> int:
        return n

    for fn in (local, lambda n: n):
        with pytest.raises(SettingsError, match="isolation='process'"):
            scene.app.tool(isolation="process", name="refused")(fn)
    assert "refused" not in scene.app.program.tools


def test_a_tool_that_is_not_found_under_its_name_stops_the_start(scene: Scene) -> None:
    elsewhere: Tool[..., Any] = tools.unlike
    scene.borrow(elsewhere)
    with pytest.raises(SettingsError, match=r"tests\.worker\.tools\.plain"):
        scene.app.new_worker()


def test_a_result_that_is_too_large_or_merges_keys_ends_the_job_for_good(scene: Scene) -> None:
    @scene.app.tool(**SHORT)
    def huge() -> str:
        return "x" * 1_000_001

    @scene.app.tool(**SHORT)
    def merging() -> Any:
        return {"deep": [{1: "a", "1": "b"}]}

    with scene.app.worker():
        jobs = [huge.enqueue(), merging.enqueue()]
        codes = [scene.wait_status(job, "failed").error_code for job in jobs]
    assert codes == ["result_too_large", "result_not_serializable"]
    assert [scene.row(job).attempt for job in jobs] == [1, 1]
