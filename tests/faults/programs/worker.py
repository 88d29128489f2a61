"""A worker process: `python -m tests.faults.programs.worker URL NOTES NAME`. SIGTERM stops it with a grace.

Its tools write one line each time they begin and end, for tests to count; everything else is judged by rows.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tenure import Tenure, ToolContext
from tenure.errors import OwnershipLost
from tests.worker.scene import Notes
from tests.worker.tools import lingers

LEASE: dict[str, Any] = {"lease": "5s", "heartbeat": "1s", "margin": "1s"}
GRACE_S = 20.0


def build(url: str, notes: Notes, name: str) -> Tenure:
    """The app whose tools the tests enqueue."""
    app = Tenure(url, artifacts=str(notes.path.parent / "artifacts"))

    @app.tool(max_attempts=3, **LEASE)
    def staged(ctx: ToolContext, n: int, seconds: float) -> dict[str, Any]:
        """Two stages with a wait between them."""

        def stage(which: str) -> dict[str, str]:
            notes.write(f"{which} {ctx.job_id} {name}")
            return {"by": name}

        first = ctx.stage("first", stage, "first")
        notes.write(f"between {ctx.job_id} {name}")
        time.sleep(seconds)
        second = ctx.stage("second", stage, "second")
        return {"n": n, "first": first["by"], "second": second["by"]}

    @app.tool(max_attempts=3, **LEASE)
    def comes_back(ctx: ToolContext, seconds: float) -> str:
        """The process may stand still in here. Whoever comes back too late can do nothing any more."""
        notes.write(f"start {ctx.job_id} {name}")
        time.sleep(seconds)
        refused = 0
        for write in (
            lambda: ctx.stage("late", lambda: 1),
            lambda: ctx.artifact("late.txt", b"late"),
            lambda: ctx.effect("send", lambda call: notes.write(f"sent {ctx.job_id} {name}")),
            ctx.require_ownership,
        ):
            try:
                write()
            except OwnershipLost:
                refused += 1
        notes.write(f"refused {refused} {name}")
        return name

    @app.tool(max_attempts=3, **LEASE)
    def kills_its_worker(ctx: ToolContext) -> None:
        notes.write(f"start {ctx.job_id} {name}")
        os.kill(os.getpid(), signal.SIGKILL)

    @app.tool(max_attempts=1, **LEASE)
    def kills_its_worker_once(ctx: ToolContext) -> None:
        notes.write(f"start {ctx.job_id} {name}")
        os.kill(os.getpid(), signal.SIGKILL)

    @app.tool(max_attempts=10, **LEASE)
    def quick(n: int) -> int:
        return n

    @app.tool(max_attempts=20, **LEASE)
    def tortured(ctx: ToolContext, n: int) -> int:
        """Short, in two stages; dies often."""
        one = ctx.stage("one", lambda: _noted(notes, f"one {ctx.job_id}", n + 1))
        ctx.progress(n)
        time.sleep(0.15)
        return int(ctx.stage("two", lambda: _noted(notes, f"two {ctx.job_id}", one + 1)))

    app.program.tools.add(lingers.spec)
    return app


def _noted(notes: Notes, line: str, value: int) -> int:
    notes.write(line)
    return value


def main(url: str, notes: str, name: str) -> None:
    logging.basicConfig(level=logging.INFO, format=f"{name} %(message)s")
    worker = build(url, Notes(Path(notes)), name).new_worker(name=name, slots=8)
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    worker.start()
    Notes(Path(notes)).write(f"up {name}")
    while not asked.wait(0.1):
        pass
    worker.stop(GRACE_S)
    Notes(Path(notes)).write(f"down {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
