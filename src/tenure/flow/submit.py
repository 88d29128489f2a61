"""1. A request becomes a turn: inserted first, then judged; the session starts it or it waits or it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tenure import canon
from tenure.db.clock import now
from tenure.db.tx import Tx
from tenure.errors import IdempotencyConflict, SessionBusy
from tenure.flow import facts
from tenure.flow.enqueue import check_size
from tenure.flow.program import Program
from tenure.flow.turns import start
from tenure.payload import sanitize_text
from tenure.planner import Step
from tenure.records import DEFAULT_TENANT, RowKey, Turn
from tenure.store import projects, sessions, turns
from tenure.store.turns import NewTurn

OnBusy = Literal["reject", "queue"]
CARD_TEXT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A user's request. `command` names a recipe; `steps` are a given plan, as stored JSON values."""

    session_id: str
    input: Any = None
    tenant_id: str = DEFAULT_TENANT
    command: str | None = None
    profile: str | None = None
    steps: list[dict[str, Any]] | None = None
    project_id: str | None = None
    user_id: str | None = None
    idempotency_key: str | None = None
    on_busy: OnBusy = "reject"
    traceparent: str | None = None


def submit(program: Program, request: Request) -> tuple[Turn, bool]:
    """Makes the turn and returns it with False, or the one that the same key made before with True.

    InvalidInput, SessionBusy, IdempotencyConflict; nothing is written then, and no key is consumed.
    """
    new = _prepared(program, request)

    def body(tx: Tx) -> tuple[Turn, bool]:
        sessions.ensure(tx, new.session, project_id=new.project_id, user_id=new.user_id, profile=new.profile)
        if new.project_id is not None:
            projects.ensure(tx, RowKey(new.tenant_id, new.project_id))
        if not turns.insert(tx, new):
            return _found(tx, new)
        _admit(tx, program, new, request.on_busy)
        turn = turns.get(tx, new.key)
        assert turn is not None
        return turn, False

    return program.database.write(body, lookup=True)


def _prepared(program: Program, request: Request) -> NewTurn:
    canon.encode(request.input)
    check_size(program, [request.input, request.steps])
    session_id = canon.name(request.session_id, "session_id")
    project_id = None if request.project_id is None else canon.name(request.project_id, "project_id")
    for place, step in enumerate(request.steps or []):
        program.tools.get(Step.read(step, f"steps[{place}]").tool)
    body = {
        "input": request.input,
        "command": request.command,
        "profile": request.profile,
        "steps": request.steps,
        "project": project_id,
    }
    return NewTurn(
        tenant_id=request.tenant_id,
        turn_id=canon.uuid7(),
        session_id=session_id,
        input=request.input,
        command=request.command,
        profile=request.profile,
        steps=request.steps,
        project_id=project_id,
        user_id=request.user_id,
        idempotency_key=request.idempotency_key,
        request_digest=None if request.idempotency_key is None else canon.digest(body),
        traceparent=request.traceparent,
    )


def _found(tx: Tx, new: NewTurn) -> tuple[Turn, bool]:
    own = turns.get(tx, new.key)
    if own is not None:  # an earlier run of this very call, whose answer was lost
        return own, False
    assert new.idempotency_key is not None, "only an id or a key can be there already"
    found = turns.by_idempotency_key(tx, new.session, new.idempotency_key)
    assert found is not None
    if found.request_digest != new.request_digest:
        raise IdempotencyConflict(f"idempotency key {new.idempotency_key!r} was used with another request")
    return found, True


def _admit(tx: Tx, program: Program, new: NewTurn, on_busy: OnBusy) -> None:
    session = sessions.lock(tx, [new.session])[new.session]
    if session.active_turn_id is not None and on_busy == "reject":
        raise SessionBusy(
            f"session {session.session_id!r} is busy with turn {session.active_turn_id}", session.active_turn_id
        )
    turn = turns.get(tx, new.key)
    assert turn is not None
    facts.of_turn(tx, turn, "turn_created", command=turn.command, queued=session.active_turn_id is not None)
    sessions.change(tx, new.session, last_user_text=_card_text(new.input), last_user_at=now())
    if session.active_turn_id is None:
        start(tx, program, turn)


def _card_text(value: Any) -> str:
    text = value if isinstance(value, str) else canon.encode(value)
    return sanitize_text(text, CARD_TEXT)
