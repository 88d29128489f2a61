"""Effects: entered by one guarded, committed write before the request leaves, ended by another when it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tenure.db.tx import Tx
from tenure.errors import OwnershipLost, TerminalError
from tenure.flow import facts
from tenure.flow.during import StagePlace, guarded
from tenure.flow.program import Program
from tenure.records import Lease, RowKey, Stage
from tenure.store import database as database_of
from tenure.store import stages

Repeat = Literal["never", "safe", "reconcile"]
EVENTS = {"done": "effect_done", "unknown": "effect_unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRequest:
    """One effect as it is to be sent. `key`: the same on every attempt; `resource`: what the fence is about."""

    place: StagePlace
    digest: str
    key: str
    resource: str
    repeat: Repeat


@dataclass(frozen=True, slots=True)
class EffectEnd:
    """What became of it; `answer` is encoded JSON."""

    state: Literal["done", "unknown", "not_done"]
    answer: str | None = None
    external_id: str | None = None
    error_code: str | None = None
    error_text: str | None = None


def database_id(program: Program) -> str:
    """The first part of every fence resource."""
    return program.database.read(database_of.identity)


def enter(program: Program, owner: str, lease: Lease, request: EffectRequest) -> Stage | None:
    """Enters the effect: None says send. A Stage is an earlier ending that decides: `done` gives its answer, `started`
    by an earlier token or `unknown` asks the reconcile function.

    TerminalError `effect_changed` for another request under the same name, `outcome_unknown` where nobody knows what
    an earlier attempt did and it must not be repeated. OwnershipLost, CancelRequested: nothing was entered.
    """
    found, error = program.database.write(lambda tx: _enter(tx, owner, lease, request), lookup=True)
    if error is not None:
        raise error
    return found


def _enter(tx: Tx, owner: str, lease: Lease, request: EffectRequest) -> tuple[Stage | None, TerminalError | None]:
    guarded(tx, owner, lease)
    name, part = request.place.name, request.place.part
    found = stages.effect(tx, RowKey(lease.tenant_id, lease.job_id), name, part)
    if found is not None and found.digest != request.digest:
        return None, TerminalError(
            f"effect {request.place}: another request under the same name", code="effect_changed"
        )
    if found is not None and found.state == "done":
        return found, None
    doubtful = found is not None and found.state in ("started", "unknown")
    if doubtful and found is not None and found.fencing_token != lease.fencing_token:
        if request.repeat == "never":
            return None, _unknown(tx, lease, request)
        if request.repeat == "reconcile":
            return found, None
    start(tx, lease, request)
    return None, None


def start(tx: Tx, lease: Lease, request: EffectRequest) -> None:
    """Writes `started` under this token; the job's row is held."""
    stages.start_effect(
        tx,
        lease.held,
        request.place.name,
        request.place.part,
        digest=request.digest,
        effect_key=request.key,
        resource=request.resource,
        repeat=request.repeat,
    )
    facts.of_attempt(tx, lease, "effect_started", effect=str(request.place), key=request.key)


def _unknown(tx: Tx, lease: Lease, request: EffectRequest) -> TerminalError:
    facts.of_attempt(tx, lease, "effect_unknown", effect=str(request.place), key=request.key)
    text = f"effect {request.place}: an earlier attempt sent it and its outcome is unknown; a person must look"
    return TerminalError(text, code="outcome_unknown")


def restart(program: Program, owner: str, lease: Lease, request: EffectRequest) -> None:
    """A reconcile function said that it was not done: marks it started again, under this token."""

    def body(tx: Tx) -> None:
        guarded(tx, owner, lease)
        start(tx, lease, request)

    program.database.write(body, lookup=True)


def finish(program: Program, owner: str, lease: Lease, request: EffectRequest, ended: EffectEnd) -> None:
    """Records the ending. OwnershipLost when another owner has the job: its own attempt decides then."""

    def body(tx: Tx) -> None:
        guarded(tx, owner, lease)
        if request.repeat == "reconcile":
            stages.adopt_effect(tx, lease.held, request.place.name, request.place.part)
        moved = stages.finish_effect(
            tx,
            lease.held,
            request.place.name,
            request.place.part,
            ended.state,
            answer=ended.answer,
            external_id=ended.external_id,
            error_code=ended.error_code,
            error_text=ended.error_text,
        )
        if not moved:
            raise OwnershipLost(f"effect {request.place}: another attempt has it")
        kind = EVENTS.get(ended.state)
        if kind is not None:
            facts.of_attempt(tx, lease, kind, effect=str(request.place), key=request.key, external_id=ended.external_id)

    program.database.write(body, lookup=True)
