"""What the database says of the demo's turn: now, and when it has ended."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from tenure.cli.ownership import Holding, holdings
from tenure.errors import NotFound, StateConflict
from tenure.records import Approval, Artifact, Event, Job, RowKey, Turn
from tenure.store import approvals, artifacts, events, jobs, journal, turns, views, workers
from tenure.store.views import Mark
from tenure.toolkit.outputs import written_whole

if TYPE_CHECKING:
    from tenure.db.tx import Tx
    from tenure.flow import Program

STEPS = ("parse", "normalise", "draft", "publish")


@dataclass(frozen=True, slots=True)
class State:
    """The turn in one snapshot. `jobs` by step, `saved` the stages of normalise, `events` those that came since the
    last look, `now` the database's time."""

    turn: Turn
    jobs: dict[str, Job]
    saved: list[Mark]
    pending: list[Approval]
    events: list[Event]
    now: datetime
    owners: list[str]

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs when anything moved."""
        moved = [(job.status, job.fencing_token, job.progress_seq) for job in self.jobs.values()]
        return self.turn.status, len(self.saved), len(self.pending), tuple(moved)


def state_of(program: Program, key: RowKey, after: int) -> State:
    """A look at the turn, with the events after a cursor."""

    def body(tx: Tx) -> State:
        turn = turns.get(tx, key)
        if turn is None:
            raise NotFound(f"no turn {key.id!r}")
        by_tool = {job.tool: job for job in jobs.of_turn(tx, key)}
        normalise = by_tool.get("normalise")
        saved = [] if normalise is None else views.marks(tx, normalise.key)
        present = [worker.owner for worker in workers.present(tx)]
        pending = approvals.pending_of_turn(tx, key)
        news = events.page(tx, turn.session, after).events
        return State(turn, by_tool, saved, pending, news, views.database_time(tx), present)

    return program.database.read(body)


@dataclass(frozen=True, slots=True)
class Killed:
    """The worker that was killed: its process, and what it held. `stage` is the one that it did not finish."""

    pid: int
    returncode: int
    stage: str
    owner: str
    fencing_token: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Result:
    """Everything about the turn when it has ended."""

    database: str
    turn: Turn
    killed: Killed | None
    jobs: list[Job]
    owners: list[Holding]
    events: list[Event]
    stages: list[Mark]
    files: list[dict[str, Any]]

    @property
    def rows(self) -> dict[str, int]:
        """in, kept, merged, rejected; empty when normalise did not complete."""
        outputs = [job.output for job in self.jobs if job.tool == "normalise" and job.output is not None]
        return dict(outputs[0]["rows"]) if outputs else {}

    @property
    def is_dense(self) -> bool:
        return [event.event_seq for event in self.events] == list(range(1, len(self.events) + 1))

    @property
    def saved_twice(self) -> list[str]:
        """Stages of normalise with more than one `stage_saved`: work that was repeated although it was finished."""
        saved = Counter(
            event.payload["stage"]
            for event in self.events
            if event.type == "stage_saved" and event.payload.get("tool") == "normalise"
        )
        return sorted(stage for stage, count in saved.items() if count > 1)

    def as_dict(self) -> dict[str, Any]:
        """The one object of `--json`."""
        turn, killed = self.turn, self.killed
        return {
            "database": self.database,
            "turn": {"turn_id": turn.turn_id, "session_id": turn.session_id, "status": turn.status},
            "killed": None if killed is None else {name: getattr(killed, name) for name in Killed.__slots__},
            "owners": [holding.as_dict() for holding in self.owners],
            "jobs": [
                {name: getattr(job, name) for name in ("job_id", "tool", "status", "attempt", "fencing_token")}
                for job in self.jobs
            ],
            "stages": [
                {"name": stage.name, "part": stage.part, "fencing_token": stage.fencing_token} for stage in self.stages
            ],
            "events": {"count": len(self.events), "dense": self.is_dense},
            "artifacts": self.files,
            "rows": self.rows,
        }


def result_of(program: Program, key: RowKey, killed: Killed | None, out: Path) -> Result:
    """Reads everything about the ended turn, and copies what it published to `out`."""

    def body(tx: Tx) -> tuple[Turn, list[Job], list[Holding], list[Mark], list[Event], list[Artifact]]:
        turn = turns.get(tx, key)
        assert turn is not None
        made = jobs.of_turn(tx, key)
        held = [each for job in made for each in holdings(job, journal.of_job(tx, job.key), views.marks(tx, job.key))]
        saved = [stage for job in made if job.tool == "normalise" for stage in views.marks(tx, job.key)]
        log = _log(tx, turn)
        return turn, made, held, saved, log, artifacts.of_turn(tx, key)

    turn, made, held, saved, log, published = program.database.read(body)
    held.sort(key=lambda holding: holding.fencing_token)
    files = _copied(program, _results(turn, published), out)
    return Result(program.database.name, turn, killed, made, held, log, saved, files)


def _log(tx: Tx, turn: Turn) -> list[Event]:
    found: list[Event] = []
    while True:
        page = events.page(tx, turn.session, found[-1].event_seq if found else 0)
        found += page.events
        if not page.events:
            return found


def _results(turn: Turn, published: list[Artifact]) -> list[Artifact]:
    """The workbook and the report, as the turn's answer names them."""
    answer: Mapping[str, Any] = turn.output or {}
    named = list((answer.get("publish") or {}).values())
    return [artifact for artifact in published if artifact.artifact_id in named]


def _copied(program: Program, published: list[Artifact], out: Path) -> list[dict[str, Any]]:
    """Copies beside one another: all of them are there, whole, before the first takes its place."""
    with ExitStack() as drafts:
        for artifact in published:
            draft = drafts.enter_context(written_whole(out / artifact.name))
            copyfile(program.runtime.files.path(artifact.location), draft)
            if hashlib.sha256(draft.read_bytes()).hexdigest() != artifact.sha256:
                raise StateConflict(f"artifact {artifact.name!r} is not what was published: its bytes changed")
    return [
        {
            "artifact_id": artifact.artifact_id,
            "name": artifact.name,
            "path": str(out / artifact.name),
            "sha256": artifact.sha256,
            "bytes": artifact.bytes,
        }
        for artifact in published
    ]
