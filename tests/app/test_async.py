"""The hops from async code, and a worker beside a web application."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenure import AsyncToolContext, Step, Tenure, ToolContext
from tenure.errors import InvalidInput, JobFailed, SessionBusy
from tests.app.running import Made


def test_submit_enqueue_result_and_follow(made: Made) -> None:
    async def story() -> None:
        with made.app.worker():
            job = await made.app.aenqueue(made.tools.add, {"a": 1}, idempotency_key="k")
            again = await made.app.aenqueue("add", {"a": 1}, idempotency_key="k")
            turn = await made.app.asubmit(session_id="s", steps=[Step("a", made.tools.add, a=job.id and 5)])
            assert again.replayed
            assert await job.aresult("20s") == 3
            kinds = [event.type async for event in made.app.afollow("s", timeout="2s") if event.turn_id == turn.id]
            assert kinds[-1] == "turn_completed"
            failed = await made.app.aenqueue("fail", {"text": "x"})
            with pytest.raises(JobFailed):
                await failed.aresult("20s")

    asyncio.run(story())


def test_waiting_holds_up_no_loop(made: Made) -> None:
    """While one coroutine waits for a job, the others go on: one of them makes the job end."""

    async def story() -> list[str]:
        order: list[str] = []
        job = await made.app.aenqueue("add", {"a": 1})

        async def wait() -> None:
            order.append("waiting")
            await job.aresult("20s")
            order.append("result")

        async def work() -> None:
            order.append("working")
            await asyncio.to_thread(made.worker.drain)

        await asyncio.gather(wait(), work())
        return order

    assert asyncio.run(story()) == ["waiting", "working", "result"]


def test_errors_are_the_same(made: Made) -> None:
    async def story() -> None:
        with pytest.raises(InvalidInput):
            await made.app.aenqueue("add", {"a": "x"})
        await made.app.asubmit(4, session_id="s", command="pay")
        with pytest.raises(SessionBusy):
            await made.app.asubmit(4, session_id="s", command="pay")

    asyncio.run(story())


def test_breaking_off_a_follow_leaves_nothing_behind(made: Made) -> None:
    async def story() -> list[int]:
        seen = []
        await made.app.asubmit(4, session_id="s", command="pay")
        async for event in made.app.afollow("s"):
            seen.append(event.event_seq)
            if event.event_seq == 2:
                break
        return seen

    assert asyncio.run(story()) == [1, 2]


def test_a_web_applications_lifespan_runs_a_worker(made: Made) -> None:
    before = {thread.name for thread in threading.enumerate()}

    async def story() -> Any:
        async with made.app.lifespan(worker=True)(object()):
            job = await made.app.aenqueue("add", {"a": 1})
            return await job.aresult("20s")

    assert asyncio.run(story()) == 3
    left = {thread.name for thread in threading.enumerate()} - before
    assert not {name for name in left if name.startswith("tenure-worker")}, left


def test_a_lifespan_without_a_worker_runs_nothing(made: Made) -> None:
    async def story() -> str:
        async with made.app.lifespan()(object()):
            job = await made.app.aenqueue("add", {"a": 1})
            return str(job.row.status)

    assert asyncio.run(story()) == "queued"
    assert made.calls == []


def test_what_the_apps_lifespan_yields_is_the_state_of_the_context(database_url: str, tmp_path: Any) -> None:
    opened: list[str] = []

    @contextlib.asynccontextmanager
    async def clients() -> AsyncIterator[dict[str, str]]:
        opened.append("opened")
        yield {"bank": "client"}
        opened.append("closed")

    app = Tenure(database_url, lifespan=clients, artifacts=str(tmp_path / "artifacts"))

    @app.tool()
    def plain(ctx: ToolContext) -> str:
        return f"{ctx.state['bank']} {ctx.attempt} {ctx.project_id} {dict(ctx.settings)}"

    @app.tool()
    async def asynchronous(ctx: AsyncToolContext) -> str:
        return f"{ctx.state['bank']} {ctx.attempt} {dict(await ctx.settings())}"

    assert opened == []
    app.set_project("p", {"currency": "EUR"})
    with app.worker():
        jobs = [app.enqueue(plain, {}, project_id="p"), app.enqueue(asynchronous, {}, project_id="p")]
        assert jobs[0].result("20s") == "client 1 p {'currency': 'EUR'}"
        assert jobs[1].result("20s") == "client 1 {'currency': 'EUR'}"
    assert opened == ["opened", "closed"]
    app.close()


@pytest.mark.parametrize("options", [{"grace": "5"}, {"name": "a b"}, {"only": ["nothing"]}], ids=str)
def test_a_worker_that_cannot_be_is_refused_before_it_starts(made: Made, options: dict[str, Any]) -> None:
    with (
        pytest.raises((InvalidInput, LookupError, Exception), match=r"expected|no tool 'nothing'"),
        made.app.worker(**options),
    ):
        raise AssertionError("it started")
