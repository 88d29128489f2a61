"""`tenure doctor`: what is wrong, and what would put it right."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tenure.cli.faults import Code, explained, one_line
from tenure.cli.options import Database, Json
from tenure.cli.output import console, print_json

if TYPE_CHECKING:
    from tenure.db.engine import Database as Place
    from tenure.flow import Program

ABANDONED_S = 5.0
MOST = 1_000


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `facts` are for programs."""

    name: str
    ok: bool
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


def doctor(database: Database = None, as_json: Json = False) -> int:
    """Look the database over: exit 0 when all is well, 1 when something is wrong, 4 when it cannot be used at all."""
    from tenure.cli.loading import database_of, opened
    from tenure.settings import load

    settings = load(database_url=database)
    name = database_of(settings.database_url, settings.schema).name
    try:
        with opened(database) as program:
            checks, code = _examine(program), Code.OK
    except Exception as error:
        code, text = explained(error)
        if code is not Code.DATABASE:
            raise
        checks = [Check("database", False, text)]
    if code is Code.OK and not all(check.ok for check in checks):
        code = Code.FAILED
    _say(name, checks, as_json)
    return code


def _examine(program: Program) -> list[Check]:
    database = program.database
    return [
        Check("database", True, f"{database.name} answers", {"database": database.name}),
        _schema(database),
        _build(database),
        _workers(database),
        _unoffered(database),
        _leases(database),
        _review(database),
        _clock(database),
        _timing(),
    ]


def _schema(database: Place) -> Check:
    from tenure.db.migrate import due, installed
    from tenure.db.migrations import PROGRAM

    version = database.read(installed)
    steps = [step.version for step in due(database)]
    text = f"schema {version}, this program knows {PROGRAM}"
    hint = f"; due: {', '.join(map(str, steps))} (tenure migrate)" if steps else ""
    return Check("schema", not steps, text + hint, {"schema_version": version, "program": PROGRAM, "due": steps})


def _build(database: Place) -> Check:
    from tenure import sqlite
    from tenure.store import views

    build = database.read(views.build)
    if not database.is_sqlite:
        major = int(build.version.split(".")[0].split()[0])
        text = f"PostgreSQL {build.version}" + ("" if major >= 14 else "; Tenure needs 14 or later")
        return Check("build", major >= 14, text, {"version": build.version, "timezone": build.mode})
    fits = sqlite.wal_safe or build.mode != "wal"
    text = f"SQLite {build.version}, journal mode {build.mode}"
    if not fits:
        text += "; this build can lose commits in WAL mode: use 3.51.3 or later"
    return Check("build", fits, text, {"version": build.version, "journal_mode": build.mode})


def _workers(database: Place) -> Check:
    from tenure.store import workers

    present = database.read(workers.present)
    stuck = {each.owner: each.stuck_threads for each in present if each.stuck_threads}
    text = f"{len(present)} present" + ("" if present else " (start one: tenure worker module:app)")
    if stuck:
        text += "; threads that do not return: " + ", ".join(f"{owner} {count}" for owner, count in stuck.items())
    return Check("workers", not stuck, text, {"present": [each.owner for each in present], "stuck_threads": stuck})


def _unoffered(database: Place) -> Check:
    from tenure.store import jobs, views, workers

    def body(tx: Any) -> tuple[dict[str, int], dict[str, int]]:
        offered = {tool for worker in workers.present(tx) for tool in worker.tools}
        return jobs.unknown_tools(tx, offered), views.waiting(tx)

    unknown, waiting = database.read(body)
    listed = ", ".join(f"{count} of {tool!r}" for tool, count in sorted(unknown.items()))
    text = f"no live worker offers {listed} (start: tenure worker module:app)" if unknown else "every tool is offered"
    if waiting:
        text += "; waiting for a key: " + ", ".join(f"{count} at {key}" for key, count in waiting.items())
    return Check("queued jobs", not unknown, text, {"unoffered": unknown, "waiting": waiting})


def _leases(database: Place) -> Check:
    from tenure.store import views

    found = database.read(lambda tx: views.abandoned(tx, ABANDONED_S))
    listed = ", ".join(f"{count} of {tool!r}" for tool, count in found.items())
    text = f"over and not rescued: {listed} (any worker rescues them)" if found else "none is over"
    return Check("leases", not found, text, {"expired": found})


def _review(database: Place) -> Check:
    from tenure.store import views

    found = database.read(lambda tx: views.in_review(tx, MOST))
    named = [{"job_id": each.job_id, "name": each.name, "part": each.part, "state": each.state} for each in found]
    text = "no effect waits for a person"
    if found:
        first = found[0]
        text = f"{len(found)} of unknown outcome, the first {first.name!r} of job {first.job_id} (tenure jobs ID)"
    return Check("effects", not found, text, {"in_review": named})


def _clock(database: Place) -> Check:
    from tenure.leases import DEFAULT_LEASE
    from tenure.store import views

    before = time.clock_gettime(time.CLOCK_REALTIME)
    there = database.read(views.database_time).timestamp()
    here = (before + time.clock_gettime(time.CLOCK_REALTIME)) / 2
    offset = round(there - here, 3)
    text = f"the database's clock is {abs(offset):.3f} s {'ahead' if offset >= 0 else 'behind'}; leases go by it alone"
    fits = abs(offset) <= DEFAULT_LEASE.margin
    return Check("clock", fits, text + ("" if fits else ": set one of the two right"), {"offset_s": offset})


def _timing() -> Check:
    from tenure.leases import DEFAULT_LEASE as CLASS

    text = (
        f"lease {CLASS.lease:g} s > (missed {CLASS.missed} + 1) × heartbeat {CLASS.heartbeat:g} s + margin "
        f"{CLASS.margin:g} s = {CLASS.least:g} s by default; the clocks of a database that has several must agree "
        f"within the margin"
    )
    return Check("timing", CLASS.lease > CLASS.least, text, asdict(CLASS))


def _say(database: str, checks: list[Check], as_json: bool) -> None:
    if as_json:
        listed = [asdict(check) for check in checks]
        print_json({"database": database, "ok": all(check.ok for check in checks), "checks": listed})
        return
    from rich.text import Text

    out = console()
    for check in checks:
        mark = Text("ok   ", style="green") if check.ok else Text("WRONG", style="bold red")
        out.print(Text.assemble(mark, f"  {check.name:<12} {one_line(check.text)}"), soft_wrap=True)
