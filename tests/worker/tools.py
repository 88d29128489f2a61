"""Tools for processes, which find them by module and name. `Notes` files come as arguments."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tenure import Tenure, ToolContext
from tests.worker.scene import SHORT, Notes

shelf = Tenure("sqlite:////nowhere/never-opened.db")


class Order(BaseModel):
    number: str
    due: dt.date
    lines: list[int] = []


@dataclass
class Part:
    name: str


@shelf.tool(isolation="process", **SHORT)
def typed_in_process(order: Order, at: dt.datetime) -> Order:
    assert type(order) is Order
    assert type(order.due) is dt.date
    assert type(at) is dt.datetime
    return Order(number=f"{order.number}!", due=at.date(), lines=[*order.lines, os.getpid()])


@shelf.tool(isolation="process", max_attempts=1, **SHORT)
def ends_badly(how: str) -> Any:
    match how:
        case "system_exit":
            sys.exit(3)
        case "keyboard_interrupt":
            raise KeyboardInterrupt
        case "not_serializable":
            return {"a": object()}
        case "exception":
            raise ValueError("no \0 'way' %s {}")
        case _:
            raise AssertionError(how)


@shelf.tool(isolation="process", max_attempts=3, **SHORT)
def dies_once(notes: str, how: str) -> str:
    seen = Notes(Path(notes))
    seen.write("start")
    if len(seen.lines()) == 1:
        if how == "exit":
            os._exit(7)
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"


@shelf.tool(isolation="process", timeout="1500ms", max_attempts=1, **SHORT)
def with_a_child(notes: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    Notes(Path(notes)).write(f"{os.getpid()} {child.pid}")
    time.sleep(120)


@shelf.tool(isolation="process", max_attempts=1, **SHORT)
def leaves_a_child_and_dies(notes: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    Notes(Path(notes)).write(f"{os.getpid()} {child.pid}")
    os._exit(1)


@shelf.tool(isolation="process", **SHORT)
def pid_of(n: int) -> int:
    return os.getpid()


@shelf.tool(isolation="process", **SHORT)
def pools(n: int) -> list[int]:
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(abs, [-n, -n - 1]))


@shelf.tool(isolation="process", **SHORT)
def uses_context(ctx: ToolContext, notes: str) -> dict[str, Any]:
    seen = Notes(Path(notes))

    def computed() -> Part:
        seen.write("computed")
        return Part("a part")

    part = ctx.stage("one", computed)
    ctx.progress(0.5, stage="half")
    ctx.require_ownership()
    made = ctx.artifact("made.txt", b"made in a process")
    return {
        "part": part,
        "artifact": made.artifact_id,
        "bytes": Path(ctx.artifact_path(made.artifact_id)).read_bytes().decode(),
        "settings": dict(ctx.settings),
        "ownership": ctx.ownership,
        "cancelled": ctx.cancelled,
        "ids": [ctx.job_id, ctx.attempt, ctx.fencing_token],
    }


@shelf.tool(isolation="process", **SHORT)
def chats(ctx: ToolContext, threads: int) -> int:
    """Several threads of one process tool ask their context at once."""
    wrong: list[str] = []

    def ask() -> None:
        for _ in range(20):
            if ctx.ownership != "owned":
                wrong.append("ownership")
            if ctx.cancelled is not False:
                wrong.append("cancelled")

    started = [threading.Thread(target=ask) for _ in range(threads)]
    for each in started:
        each.start()
    for each in started:
        each.join()
    return len(wrong)


@shelf.tool(isolation="process", max_attempts=1, **SHORT)
def lingers(ctx: ToolContext, notes: str) -> None:
    Notes(Path(notes)).write(os.getpid())
    time.sleep(120)


def plain(n: int) -> int:
    return n


unlike = shelf.tool(isolation="process", name="elsewhere", **SHORT)(plain)
