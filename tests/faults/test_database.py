"""PostgreSQL that goes away while a worker claims, renews and completes; and a link that is cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import Tenure, ToolContext
from tests import postgres as harness
from tests.faults.conftest import Crew
from tests.faults.programs.worker import LEASE
from tests.proxy import running
from tests.worker.scene import Notes, Scene, until

pytestmark = pytest.mark.timeout(170)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_goes_is_waited_for(postgres_server: harness.Server, tmp_path: Path, how: str) -> None:
    """B24: while idle, with jobs running, and with results that wait: back within 10 s, nothing is run twice."""
    harness.migrate(postgres_server.url)
    app = Tenure(postgres_server.url, artifacts=str(tmp_path))
    scene = Scene(app, postgres_server.url, Notes(tmp_path / "notes"))
    go = threading.Event()

    @app.tool(max_attempts=1, lease="30s", heartbeat="1s", margin="2s")
    def works(n: int) -> int:
        scene.notes.write(n)
        if n < 3:
            assert go.wait(60)
        return n

    with app.worker(slots=4) as worker:
        assert works.enqueue(n=9).result("20s") == 9
        postgres_server.tell(how)
        time.sleep(2.0)
        postgres_server.tell("start")
        assert until(lambda: enqueued(app, "works", 8), "the database").result("10s") == 8
        running = [works.enqueue(n=n) for n in range(3)]
        for job in running:
            scene.wait_running(job)
        postgres_server.tell(how)
        go.set()  # their results come while the server is away
        time.sleep(3.0)
        postgres_server.tell("start")
        assert [job.result("10s") for job in running] == [0, 1, 2]
        assert works.enqueue(n=7).result("10s") == 7
        assert worker.status == "running"
    assert sorted(scene.notes.lines()) == ["0", "1", "2", "7", "8", "9"]
    assert all((scene.row(job).attempt, scene.outcomes(job)) == (1, []) for job in running)
    app.close()


def enqueued(app: Tenure, tool: str, n: int) -> Any:
    from tenure.errors import DatabaseError

    try:
        return app.enqueue(tool, {"n": n})
    except DatabaseError:
        return None


def test_a_cut_shorter_than_the_lease_costs_nothing(postgres_url: str, tmp_path: Path) -> None:
    """B24: 8 s at a lease of 30 s: unknown, then owned; one attempt."""
    with running(postgres_url) as proxy:
        app = Tenure(proxy.url, artifacts=str(tmp_path))
        scene = Scene(app, proxy.url, Notes(tmp_path / "notes"))
        states: list[str] = []

        @app.tool(max_attempts=3, lease="30s", heartbeat="3s", margin="3s")
        def works(ctx: ToolContext) -> str:
            end = time.monotonic() + 12.0
            while time.monotonic() < end:
                if not states or states[-1] != ctx.ownership:
                    states.append(ctx.ownership)
                time.sleep(0.05)
            ctx.require_ownership()
            return "done"

        with app.worker():
            job = works.enqueue()
            scene.wait_running(job)
            proxy.cut()
            time.sleep(8.0)
            proxy.resume()
            assert job.result("30s") == "done"
        assert states == ["owned", "unknown", "owned"]
        assert (scene.row(job).attempt, scene.outcomes(job)) == (1, [])
        app.close()


def test_a_cut_longer_than_the_lease_fences_the_old_owner(crew_on: Callable[[str], Crew], postgres_url: str) -> None:
    """B24: no external step after the local deadline, `lost`, the job run once more by a worker whose link is whole."""
    with running(postgres_url) as proxy:
        crew = crew_on(postgres_url)
        crew.start("one", proxy.url)
        job = crew.scene.app.enqueue("comes_back", {"seconds": 8.0})
        until(lambda: [line for line in crew.scene.notes.lines() if line.startswith("start")], "a start")
        proxy.cut()
        crew.start("two")
        until(lambda: "refused 4 one" in crew.scene.notes.lines(), "the refusals of the old owner", 30.0)
        proxy.resume()
        assert job.result("40s") == "two"
        until(lambda: "result_rejected" in crew.scene.outcomes(job), "the rejection", 30.0)
        sent = [line.split()[2] for line in crew.scene.notes.lines() if line.startswith("sent")]
        assert sent == ["two"]
        assert crew.scene.outcomes(job) == ["lease_expired", "result_rejected"]
        assert LEASE["lease"] == "5s"
