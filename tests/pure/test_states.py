from enum import StrEnum
from typing import Any

import pytest

from tenure import states
from tenure.states import (
    ApprovalStatus,
    ItemStatus,
    JobStatus,
    ProjectStatus,
    SessionStatus,
    TurnStatus,
    can_move,
    is_terminal,
)

STATUSES: dict[type[StrEnum], str] = {
    TurnStatus: "created planning awaiting_approval running completed failed cancelled",
    ItemStatus: "pending awaiting_approval queued running completed failed skipped cancelled",
    JobStatus: "queued running completed failed cancelled",
    ApprovalStatus: "pending approved denied expired voided",
    SessionStatus: "idle active running waiting_user",
    ProjectStatus: "idle processing needs_review",
}
TERMINAL = {
    TurnStatus: states.TURN_TERMINAL,
    ItemStatus: states.ITEM_TERMINAL,
    JobStatus: states.JOB_TERMINAL,
    ApprovalStatus: states.APPROVAL_TERMINAL,
}
MOVING = list(TERMINAL)
JOB_ALLOWED = {
    "queued": "running failed cancelled",
    "running": "queued completed failed cancelled",
}
ITEM_ALLOWED = {
    "pending": "awaiting_approval queued failed skipped cancelled",
    "awaiting_approval": "pending queued failed skipped cancelled",
    "queued": "running awaiting_approval failed skipped cancelled",
    "running": "queued awaiting_approval completed failed skipped cancelled",
}


@pytest.mark.parametrize("kind", STATUSES)
def test_statuses_are_those_of_the_specification(kind: type[StrEnum]) -> None:
    assert [status.value for status in kind] == STATUSES[kind].split()


@pytest.mark.parametrize("kind", MOVING)
def test_terminal_is_left_by_reopen_alone(kind: Any) -> None:
    status: Any
    for status in TERMINAL[kind]:
        assert is_terminal(status)
        assert not any(can_move(status, other) for other in kind)
    for status in set(kind) - TERMINAL[kind]:
        assert not is_terminal(status)
        assert not any(can_move(status, other, reopen=True) for other in kind)


@pytest.mark.parametrize("kind", MOVING)
def test_every_status_can_be_reached_and_none_moves_to_itself(kind: Any) -> None:
    first = next(iter(kind))
    reached = {first}
    for _ in kind:
        reached |= {new for old in reached for new in kind if can_move(old, new)}
    assert reached == set(kind)
    assert not any(can_move(status, status, reopen=reopen) for status in kind for reopen in (False, True))


@pytest.mark.parametrize("old", JobStatus)
@pytest.mark.parametrize("new", JobStatus)
def test_jobs(old: JobStatus, new: JobStatus) -> None:
    assert can_move(old, new) == (new in JOB_ALLOWED.get(old, "").split())
    assert can_move(old, new, reopen=True) == (old in ("failed", "cancelled") and new == "queued")


@pytest.mark.parametrize("old", ItemStatus)
@pytest.mark.parametrize("new", ItemStatus)
def test_items(old: ItemStatus, new: ItemStatus) -> None:
    assert can_move(old, new) == (new in ITEM_ALLOWED.get(old, "").split())
    reopened = old in ("failed", "skipped", "cancelled") and new in ("pending", "awaiting_approval", "queued")
    assert can_move(old, new, reopen=True) == reopened


def test_turns() -> None:
    ends = {TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.CANCELLED}
    for open_status in set(TurnStatus) - ends:
        assert {new for new in TurnStatus if can_move(open_status, new)} >= ends
        assert not can_move(open_status, TurnStatus.CREATED)
    assert not can_move(TurnStatus.RUNNING, TurnStatus.PLANNING)
    assert can_move(TurnStatus.FAILED, TurnStatus.RUNNING, reopen=True)
    assert not can_move(TurnStatus.COMPLETED, TurnStatus.RUNNING, reopen=True)


def test_statuses_of_different_kinds_never_meet() -> None:
    other: Any = TurnStatus.RUNNING
    assert not can_move(JobStatus.QUEUED, other)
