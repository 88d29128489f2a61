"""The working process: an app's worker from its start to its drain."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from tenure.cli import logs
from tenure.cli.faults import Code, say
from tenure.cli.supervise import PARENT
from tenure.cli.watching import Watch

if TYPE_CHECKING:
    from tenure import Tenure
    from tenure.leases import LeaseClass
    from tenure.worker import Worker

POLL_S = 0.25
DEV_LEASE = (6.0, 1.0, 1, 2.0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for."""

    app: str
    concurrency: int
    only: list[str] | None
    without: tuple[str, ...]
    name: str
    grace_s: float
    dev: bool
    database: str | None
    as_json: bool


class Signals:
    """Counts the requests to stop: signals, and the end of the parent."""

    def __init__(self) -> None:
        self.count = 0
        self._come = threading.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._note)
        parent = os.environ.pop(PARENT, None)
        if parent is not None:
            threading.Thread(target=self._watch_parent, args=(int(parent),), name="tenure-parent", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Waits for the first request, at most so long; whether it has come."""
        return self._come.wait(seconds)

    def _note(self, number: int, _: Any) -> None:
        self.count += 1
        self._come.set()

    def _watch_parent(self, end: int) -> None:
        with contextlib.suppress(OSError):
            os.read(end, 1)  # returns when nobody holds the other end any more
        os.kill(os.getpid(), signal.SIGTERM)


def serve(wanted: Wanted) -> int:
    """Works until it is told to stop, and then ends the process: a thread that never returns must not keep it."""
    signals = Signals()
    logs.configure(as_json=wanted.as_json)
    watch = Watch() if wanted.dev else None
    try:
        app, worker = _opened(wanted)
    except Exception as error:
        if watch is None:
            raise
        _end(_await_change(error, watch, signals))
    worker.start()
    _announce(app, worker, wanted)
    code = _until_told(app, worker, signals, watch)
    _drain(worker, signals, wanted.grace_s)
    app.close()
    _end(code)


def _opened(wanted: Wanted) -> tuple[Tenure, Worker]:
    from tenure.cli.loading import explaining, load_app
    from tenure.errors import InvalidInput, NotFound

    app = load_app(wanted.app, wanted.database)
    if wanted.dev:
        _shorten(app)
    options: dict[str, Any] = {"only": wanted.only, "without": wanted.without}
    try:
        with explaining(_name(app)):
            worker = app.new_worker(name=wanted.name, slots=wanted.concurrency, **options)
    except NotFound as error:
        raise InvalidInput(str(error), field="only") from error
    return app, worker


def _name(app: Tenure) -> str:
    from tenure.cli.loading import database_of

    return database_of(app.settings.database_url, app.settings.schema).name


def _shorten(app: Tenure) -> None:
    """Every tool with a short lease, so that what a crash left behind is taken over within seconds."""
    from tenure.flow import Program
    from tenure.leases import LeaseClass
    from tenure.tools import Registry

    tools = Registry()
    for spec in app.program.tools.specs():
        tools.add(replace(spec, lease=LeaseClass(*DEV_LEASE)))
    app.program = Program(app.program.runtime, tools, app.program.planners)


def _until_told(app: Tenure, worker: Worker, signals: Signals, watch: Watch | None) -> int:
    most = app.settings.stuck_threads
    while not signals.wait(POLL_S):
        if worker.stuck_threads >= most:
            logging.getLogger("tenure.worker").error(
                "%d threads do not return; this process is to be replaced", worker.stuck_threads
            )
            return Code.REPLACE
        changed = watch.changed() if watch is not None else None
        if changed is not None:
            say(f"tenure worker: {changed} changed")
            return Code.REPLACE
    return Code.OK


def _drain(worker: Worker, signals: Signals, grace_s: float) -> None:
    """Lets running tools end within the grace, or until a second signal; gives back the rest."""
    heard = signals.count
    worker.drain()
    until = time.monotonic() + grace_s
    while worker.busy and time.monotonic() < until and signals.count <= max(heard, 1):
        time.sleep(0.02)
    worker.stop(0.0)


def _await_change(error: Exception, watch: Watch, signals: Signals) -> int:
    """With --dev an app that cannot be loaded is waited for."""
    from tenure.cli.faults import reported

    code = reported(error)
    say("tenure worker: waiting for a change")
    while not signals.wait(POLL_S):
        if watch.changed() is not None:
            return Code.REPLACE
    return code


def _end(code: int) -> NoReturn:
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


# -- what it says at its start -----------------------------------------------------------------------------------------


def _announce(app: Tenure, worker: Worker, wanted: Wanted) -> None:
    tools = {name: _class(app, name) for name in worker.tools}
    facts = {
        "owner": worker.owner,
        "pid": os.getpid(),
        "database": app.program.database.name,
        "slots": worker.slots,
        "tools": {name: _numbers(each) for name, each in tools.items()},
    }
    if wanted.as_json:
        print(json.dumps(facts), flush=True)
        return
    print(f"tenure worker {worker.owner}, pid {os.getpid()}, {worker.slots} at a time")
    print(f"database  {facts['database']}")
    width = max(map(len, tools), default=0)
    for name, each in tools.items():
        print(f"tool      {name:<{width}}  {described(each)}")
    sys.stdout.flush()


def _class(app: Tenure, name: str) -> LeaseClass:
    from tenure.flow import PLAN
    from tenure.leases import DEFAULT_LEASE

    return DEFAULT_LEASE if name == PLAN else app.program.tools.get(name).lease


def _numbers(lease: LeaseClass) -> dict[str, float]:
    return {"lease_s": lease.lease, "heartbeat_s": lease.heartbeat, "missed": lease.missed, "margin_s": lease.margin}


def described(lease: LeaseClass) -> str:
    """A lease class on one line."""
    return f"lease {lease.lease:g} s, heartbeat {lease.heartbeat:g} s, missed {lease.missed}, margin {lease.margin:g} s"
