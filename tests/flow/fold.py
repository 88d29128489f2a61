"""The fold: what the events of a session say about its rows. An event moves every row that it names.

It refuses what no log may say: a second terminal event without a reopening between, a move that the tables of
`tenure.states` do not know, an event of a row that no earlier event has named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tenure.records import Event
from tenure.states import ApprovalStatus, ItemStatus, JobStatus, TurnStatus, can_move, is_terminal


@dataclass(slots=True)
class FoldedTurn:
    status: TurnStatus = TurnStatus.CREATED
    round: int = 0


@dataclass(slots=True)
class FoldedItem:
    turn_id: str
    name: str
    status: ItemStatus = ItemStatus.PENDING


@dataclass(slots=True)
class FoldedJob:
    item_id: str | None
    status: JobStatus = JobStatus.QUEUED
    attempt: int = 0
    output_sha256: str | None = None
    grant_id: str | None = None
    begun: bool = False


@dataclass(slots=True)
class FoldedApproval:
    item_ids: list[str]
    status: ApprovalStatus = ApprovalStatus.PENDING


@dataclass(slots=True)
class Fold:
    """Rows by id, as far as the events tell."""

    turns: dict[str, FoldedTurn] = field(default_factory=dict)
    items: dict[str, FoldedItem] = field(default_factory=dict)
    jobs: dict[str, FoldedJob] = field(default_factory=dict)
    approvals: dict[str, FoldedApproval] = field(default_factory=dict)
    uses: dict[str, int | None] = field(default_factory=dict)


def fold(events: Iterable[Event]) -> Fold:
    """The rows of one session from its events, oldest first."""
    state = Fold()
    for event in events:
        move = MOVES.get(event.type)
        if move is not None:
            move(state, event)
            _restate(state, event)
    return state


def _restate(state: Fold, event: Event) -> None:
    turn = state.turns.get(event.turn_id or "")
    if turn is None or is_terminal(turn.status) or turn.round == 0:
        return
    statuses = [item.status for item in state.items.values() if item.turn_id == event.turn_id]
    moves = any(status in (ItemStatus.QUEUED, ItemStatus.RUNNING) for status in statuses)
    waits = ItemStatus.AWAITING_APPROVAL in statuses and not moves
    turn.status = TurnStatus.AWAITING_APPROVAL if waits else TurnStatus.RUNNING


def _turn(state: Fold, event: Event, status: TurnStatus) -> None:
    turn = state.turns[event.turn_id or ""]
    assert can_move(turn.status, status, reopen=bool(event.payload.get("reopened"))), (turn, event)
    turn.status = status


def _item(state: Fold, item_id: str | None, status: ItemStatus, event: Event) -> None:
    item = state.items[item_id or ""]
    reopened = event.type == "item_reopened"
    assert item.status == status or can_move(item.status, status, reopen=reopened), (item, event)
    item.status = status


def _job(state: Fold, event: Event, status: JobStatus) -> FoldedJob:
    job = state.jobs[event.job_id or ""]
    reopened = event.type == "job_reopened"
    same = job.status == status == JobStatus.QUEUED  # a claim that has not begun folds as queued
    assert same or can_move(job.status, status, reopen=reopened), (job, event)
    job.status = status
    job.attempt = event.payload.get("attempt", job.attempt)
    return job


# -- by type -----------------------------------------------------------------------------------------------------------


def _turn_created(state: Fold, event: Event) -> None:
    assert event.turn_id not in state.turns, event
    state.turns[event.turn_id or ""] = FoldedTurn()


def _turn_running(state: Fold, event: Event) -> None:
    goes_on = state.turns[event.turn_id or ""].round > 0
    _turn(state, event, TurnStatus.RUNNING if goes_on else TurnStatus.PLANNING)


def _plan_created(state: Fold, event: Event) -> None:
    turn = state.turns[event.turn_id or ""]
    assert event.payload["round"] == turn.round + 1, (turn, event)
    turn.round, turn.status = event.payload["round"], TurnStatus.RUNNING
    for item in event.payload["items"]:
        assert item["item_id"] not in state.items, event
        state.items[item["item_id"]] = FoldedItem(event.turn_id or "", item["name"])


def _job_queued(state: Fold, event: Event) -> None:
    job = state.jobs.setdefault(event.job_id or "", FoldedJob(event.item_id))
    _job(state, event, JobStatus.QUEUED)
    job.grant_id, job.begun = event.grant_id, False
    _use(state, job, -1)


def _use(state: Fold, job: FoldedJob, number: int) -> None:
    if job.grant_id is not None:
        left = state.uses[job.grant_id]
        state.uses[job.grant_id] = None if left is None else left + number


def _job_started(state: Fold, event: Event) -> None:
    _job(state, event, JobStatus.RUNNING).begun = True
    if event.item_id is not None:
        _item(state, event.item_id, ItemStatus.RUNNING, event)


def _job_queued_again(state: Fold, event: Event) -> None:
    _job(state, event, JobStatus.QUEUED)
    if event.item_id is not None:
        _item(state, event.item_id, ItemStatus.QUEUED, event)


def _job_completed(state: Fold, event: Event) -> None:
    _job(state, event, JobStatus.COMPLETED).output_sha256 = event.payload["output_sha256"]
    if event.item_id is not None:
        _item(state, event.item_id, ItemStatus.COMPLETED, event)


def _job_ended(status: JobStatus) -> Callable[[Fold, Event], None]:
    def ended(state: Fold, event: Event) -> None:
        job = _job(state, event, status)
        if not job.begun:
            _use(state, job, 1)

    return ended


def _job_reopened(state: Fold, event: Event) -> None:
    job = _job(state, event, JobStatus.QUEUED)
    job.attempt, job.begun = 0, False


def _approval_requested(state: Fold, event: Event) -> None:
    assert event.approval_id not in state.approvals, event
    named = [item["item_id"] for item in event.payload["items"]]
    state.approvals[event.approval_id or ""] = FoldedApproval(named)
    for item_id in named:
        _item(state, item_id, ItemStatus.AWAITING_APPROVAL, event)


def _approval_granted(state: Fold, event: Event) -> None:
    approval = _approval(state, event, ApprovalStatus.APPROVED)
    state.uses.update(dict.fromkeys(event.payload["grants"], event.payload["uses"]))
    for item_id in approval.item_ids:
        _item(state, item_id, ItemStatus.PENDING, event)


def _approval(state: Fold, event: Event, status: ApprovalStatus) -> FoldedApproval:
    approval = state.approvals[event.approval_id or ""]
    assert can_move(approval.status, status), (approval, event)
    approval.status = status
    return approval


def _settled(status: ApprovalStatus) -> Callable[[Fold, Event], None]:
    return lambda state, event: _ignore(_approval(state, event, status))


def _turned(status: TurnStatus) -> Callable[[Fold, Event], None]:
    return lambda state, event: _turn(state, event, status)


def _itemed(status: ItemStatus) -> Callable[[Fold, Event], None]:
    return lambda state, event: _item(state, event.item_id, status, event)


def _ignore(value: object) -> None:
    del value


MOVES: dict[str, Callable[[Fold, Event], None]] = {
    "turn_created": _turn_created,
    "turn_running": _turn_running,
    "turn_completed": _turned(TurnStatus.COMPLETED),
    "turn_failed": _turned(TurnStatus.FAILED),
    "turn_cancelled": _turned(TurnStatus.CANCELLED),
    "plan_created": _plan_created,
    "item_failed": _itemed(ItemStatus.FAILED),
    "item_skipped": _itemed(ItemStatus.SKIPPED),
    "item_cancelled": _itemed(ItemStatus.CANCELLED),
    "item_reopened": _itemed(ItemStatus.PENDING),
    "tool_started": _itemed(ItemStatus.QUEUED),
    "job_queued": _job_queued,
    "job_started": _job_started,
    "job_retry_scheduled": _job_queued_again,
    "job_released": _job_queued_again,
    "lease_expired": _job_queued_again,
    "job_completed": _job_completed,
    "job_failed": _job_ended(JobStatus.FAILED),
    "job_cancelled": _job_ended(JobStatus.CANCELLED),
    "job_reopened": _job_reopened,
    "approval_requested": _approval_requested,
    "approval_granted": _approval_granted,
    "approval_denied": _settled(ApprovalStatus.DENIED),
    "approval_expired": _settled(ApprovalStatus.EXPIRED),
    "approval_voided": _settled(ApprovalStatus.VOIDED),
}
