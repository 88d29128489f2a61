"""The statuses of everything that has one, and the moves between them.

The tables are the rule; the guarded statements of the store enforce it. Session and project statuses are derived by
rule from what they hold, so they have no table of moves.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar


class TurnStatus(StrEnum):
    """A turn; ``planning`` is its first round."""

    CREATED = "created"
    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ItemStatus(StrEnum):
    """A plan item."""

    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class JobStatus(StrEnum):
    """A job; a retry is ``queued`` with a later due time."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ApprovalStatus(StrEnum):
    """An approval request."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    VOIDED = "voided"


class SessionStatus(StrEnum):
    """A session's card, derived."""

    IDLE = "idle"
    ACTIVE = "active"
    RUNNING = "running"
    WAITING_USER = "waiting_user"


class ProjectStatus(StrEnum):
    """A project, derived."""

    IDLE = "idle"
    PROCESSING = "processing"
    NEEDS_REVIEW = "needs_review"


S = TypeVar("S", TurnStatus, ItemStatus, JobStatus, ApprovalStatus)
Moves = Mapping[S, frozenset[S]]

TURN_TERMINAL = frozenset({TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.CANCELLED})
ITEM_TERMINAL = frozenset({ItemStatus.COMPLETED, ItemStatus.FAILED, ItemStatus.SKIPPED, ItemStatus.CANCELLED})
JOB_TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
APPROVAL_TERMINAL = frozenset(ApprovalStatus) - {ApprovalStatus.PENDING}

TURN_MOVES: Moves[TurnStatus] = {
    # A turn with a given plan starts without a planning round.
    TurnStatus.CREATED: TURN_TERMINAL | {TurnStatus.PLANNING, TurnStatus.RUNNING, TurnStatus.AWAITING_APPROVAL},
    TurnStatus.PLANNING: TURN_TERMINAL | {TurnStatus.RUNNING, TurnStatus.AWAITING_APPROVAL},
    TurnStatus.AWAITING_APPROVAL: TURN_TERMINAL | {TurnStatus.RUNNING},
    TurnStatus.RUNNING: TURN_TERMINAL | {TurnStatus.AWAITING_APPROVAL},
}

ITEM_MOVES: Moves[ItemStatus] = {
    ItemStatus.PENDING: frozenset(
        {
            ItemStatus.AWAITING_APPROVAL,
            ItemStatus.QUEUED,
            ItemStatus.FAILED,
            ItemStatus.SKIPPED,
            ItemStatus.CANCELLED,
        }
    ),
    # Back to pending: the decision is one transaction, the release that follows it is another.
    ItemStatus.AWAITING_APPROVAL: frozenset(
        {ItemStatus.PENDING, ItemStatus.QUEUED, ItemStatus.FAILED, ItemStatus.SKIPPED, ItemStatus.CANCELLED}
    ),
    # To awaiting_approval: its grant no longer covers what would run (grant_stale), on the first or a later attempt.
    ItemStatus.QUEUED: frozenset(
        {
            ItemStatus.RUNNING,
            ItemStatus.AWAITING_APPROVAL,
            ItemStatus.FAILED,
            ItemStatus.SKIPPED,
            ItemStatus.CANCELLED,
        }
    ),
    ItemStatus.RUNNING: ITEM_TERMINAL | {ItemStatus.QUEUED, ItemStatus.AWAITING_APPROVAL},
}

JOB_MOVES: Moves[JobStatus] = {
    # To failed without having run: slot forced, input_invalid, quarantined.
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.RUNNING: JOB_TERMINAL | {JobStatus.QUEUED},
}

APPROVAL_MOVES: Moves[ApprovalStatus] = {ApprovalStatus.PENDING: APPROVAL_TERMINAL}

_ITEM_RELEASE = frozenset({ItemStatus.PENDING, ItemStatus.AWAITING_APPROVAL, ItemStatus.QUEUED})

TURN_REOPENS: Moves[TurnStatus] = {
    TurnStatus.FAILED: frozenset({TurnStatus.PLANNING, TurnStatus.RUNNING, TurnStatus.AWAITING_APPROVAL}),
}
ITEM_REOPENS: Moves[ItemStatus] = {
    ItemStatus.FAILED: _ITEM_RELEASE,
    ItemStatus.SKIPPED: _ITEM_RELEASE,
    ItemStatus.CANCELLED: _ITEM_RELEASE,
}
JOB_REOPENS: Moves[JobStatus] = {
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELLED: frozenset({JobStatus.QUEUED}),
}

_NONE: Mapping[StrEnum, frozenset[StrEnum]] = {}
_TABLES: Mapping[type[StrEnum], tuple[Mapping[Any, frozenset[Any]], Mapping[Any, frozenset[Any]]]] = {
    TurnStatus: (TURN_MOVES, TURN_REOPENS),
    ItemStatus: (ITEM_MOVES, ITEM_REOPENS),
    JobStatus: (JOB_MOVES, JOB_REOPENS),
    ApprovalStatus: (APPROVAL_MOVES, _NONE),
}


def can_move(old: S, new: S, *, reopen: bool = False) -> bool:
    """Whether ``old`` → ``new`` is allowed; with ``reopen=True``, whether reopen may (it alone leaves a terminal)."""
    moves = _TABLES[type(old)][reopen]
    return type(new) is type(old) and new in moves.get(old, frozenset())


def is_terminal(status: S) -> bool:
    """Whether nothing but reopen can change it any more."""
    return not _TABLES[type(status)][False].get(status)
