"""Every exception that Tenure raises, in one tree.

    TenureError                         tenure_error
     ├─ InvalidInput                    invalid_input            (.field)
     │   └─ InputTooLarge               input_too_large
     ├─ NotFound                        not_found
     ├─ Conflict                        conflict
     │   ├─ StateConflict               state_conflict           (.state)
     │   ├─ IdempotencyConflict         idempotency_conflict
     │   ├─ SessionBusy                 session_busy             (.turn_id)
     │   ├─ SlotBusy                    slot_busy
     │   ├─ NeedsTurn                   needs_turn
     │   └─ AlreadyDecided              already_decided          (.status)
     ├─ Gone                            gone
     │   └─ ApprovalExpired             approval_expired
     ├─ OwnershipLost                   ownership_lost
     ├─ CancelRequested                 cancel_requested
     ├─ DatabaseError                   database_error
     │   ├─ DatabaseUnavailable         database_unavailable
     │   ├─ CommitUnknown               commit_unknown
     │   ├─ SchemaTooNew                schema_too_new
     │   ├─ SchemaTooOld                schema_too_old
     │   ├─ UnsafeConnection            unsafe_sqlite_connection
     │   ├─ NotImmediate                sqlite_not_immediate
     │   └─ UnwrittenEvents             unwritten_events
     ├─ ConfigurationError              configuration_error
     │   ├─ SettingsError               settings_invalid
     │   └─ MissingExtra                missing_extra
     ├─ ToolError                       tool_error
     │   ├─ RetryableError              retryable                (.retry_after, .charge)
     │   │   ├─ NoPlanner               no_planner
     │   │   └─ StageTimeout            stage_timeout
     │   ├─ TerminalError               terminal, or its own
     │   └─ ResultNotSerializable       result_not_serializable
     └─ ResultError                     result_error
         ├─ JobFailed                   job_failed               (.job_id, .error_code, .error_message)
         ├─ JobCancelled                job_cancelled            (.job_id)
         ├─ WaitTimeout                 wait_timeout
         ├─ TurnFailed                  turn_failed              (.turn_id, .error_code, .error_message)
         └─ TurnCancelled               turn_cancelled           (.turn_id)

``code`` is stable and in snake_case: programs compare it, the text is for people and may change.
"""

from collections.abc import Mapping
from typing import Any


class TenureError(Exception):
    """Base of all. ``detail`` holds further facts for programs, JSON values only."""

    code: str = "tenure_error"

    # Everything but the text has a default, so that pickle and copy (which call cls(*args)) can rebuild each class.
    def __init__(self, text: str = "", *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.detail: dict[str, Any] = dict(detail or {})


class InvalidInput(TenureError):
    """What a caller gave is refused at the door; ``field`` names the part that is wrong."""

    code = "invalid_input"

    def __init__(self, text: str = "", field: str | None = None, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text, detail=detail)
        self.field = field


class InputTooLarge(InvalidInput):
    """The input exceeds its bound: store it as an artifact and pass its id."""

    code = "input_too_large"


class NotFound(TenureError):
    """No such object, or one that the caller may not see: both get this same answer."""

    code = "not_found"


class Conflict(TenureError):
    """The request is well formed and the state of things forbids it (HTTP 409)."""

    code = "conflict"


class StateConflict(Conflict):
    """The object is in a ``state`` from which this move is not allowed."""

    code = "state_conflict"

    def __init__(self, text: str = "", state: str | None = None, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text, detail=detail)
        self.state = state


class IdempotencyConflict(Conflict):
    """The idempotency key was used with another body."""

    code = "idempotency_conflict"


class SessionBusy(Conflict):
    """The session has an unfinished turn, ``turn_id``, and ``on_busy`` is ``"reject"``."""

    code = "session_busy"

    def __init__(self, text: str = "", turn_id: str | None = None, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text, detail=detail)
        self.turn_id = turn_id


class SlotBusy(Conflict):
    """The slot that the tool writes is taken, and its ``on_conflict`` is ``"reject"``."""

    code = "slot_busy"


class NeedsTurn(Conflict):
    """The tool asks for approval or writes a slot: it runs in a turn, not as a bare job."""

    code = "needs_turn"


class AlreadyDecided(Conflict):
    """Somebody settled the approval before; ``status`` is what it became."""

    code = "already_decided"

    def __init__(self, text: str = "", status: str | None = None, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text, detail=detail)
        self.status = status


class Gone(TenureError):
    """The object can no longer be acted on because its time has passed (HTTP 410)."""

    code = "gone"


class ApprovalExpired(Gone):
    """The approval expired before this decision."""

    code = "approval_expired"


class OwnershipLost(TenureError):
    """This attempt no longer owns its job; final for its fencing token."""

    code = "ownership_lost"


class CancelRequested(TenureError):
    """Raised inside a tool by its context once somebody asked to cancel the job."""

    code = "cancel_requested"


class DatabaseError(TenureError):
    """Base of what the database, its schema or a given connection makes impossible."""

    code = "database_error"


class DatabaseUnavailable(DatabaseError):
    """The database could not be reached, or the connection broke."""

    code = "database_unavailable"


class CommitUnknown(DatabaseError):
    """The connection broke after the commit was sent: it may have happened, and the caller must look."""

    code = "commit_unknown"


class SchemaTooNew(DatabaseError):
    """The schema no longer supports this program: upgrade the program."""

    code = "schema_too_new"


class SchemaTooOld(DatabaseError):
    """The schema is older than this program needs: run ``tenure migrate``."""

    code = "schema_too_old"


class UnsafeConnection(DatabaseError):
    """The given SQLite connection is of a build that is unsafe for the journal mode in use."""

    code = "unsafe_sqlite_connection"


class NotImmediate(DatabaseError):
    """The caller's SQLite transaction read before it wrote: begin it with BEGIN IMMEDIATE."""

    code = "sqlite_not_immediate"


class UnwrittenEvents(DatabaseError):
    """A transaction tried to commit while recorded events were not yet written."""

    code = "unwritten_events"


class ConfigurationError(TenureError):
    """Base of what the operator must put right before the program can start."""

    code = "configuration_error"


class SettingsError(ConfigurationError):
    """A setting is out of range, unknown, or contradicts another."""

    code = "settings_invalid"


class MissingExtra(ConfigurationError):
    """A feature needs a package of an extra that is not installed; the text names it."""

    code = "missing_extra"


class ToolError(TenureError):
    """Base of how a tool's attempt fails."""

    code = "tool_error"


class RetryableError(ToolError):
    """A tool raises it to be tried again.

    ``retry_after``: seconds, or a duration with a unit ("90s"); clamped, never trusted.
    ``charge=False``: the attempt is refunded (a rate limit asked for the wait), within the cap of refunds.
    """

    code = "retryable"

    def __init__(
        self,
        message: str = "",
        retry_after: float | str | None = None,
        charge: bool = True,
        *,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, detail=detail)
        self.retry_after = retry_after
        self.charge = charge


class NoPlanner(RetryableError):
    """This program has no recipe for the turn's command; another program on the same database may have it."""

    code = "no_planner"


class StageTimeout(RetryableError):
    """A stage took longer than its ``timeout``; stages that were saved before it stay."""

    code = "stage_timeout"


class TerminalError(ToolError):
    """A tool raises it to end its job for good; ``code`` is stored and shown."""

    code = "terminal"

    def __init__(self, message: str = "", code: str = "terminal", *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, detail=detail)
        self.code = code


class ResultNotSerializable(ToolError):
    """A result cannot be stored as strict JSON; the text names the path."""

    code = "result_not_serializable"


class ResultError(TenureError):
    """Base of what waiting for a result can end with, other than by the result."""

    code = "result_error"


class JobFailed(ResultError):
    """The job ended ``failed``; ``error_code`` and ``error_message`` are those stored on the job."""

    code = "job_failed"

    def __init__(
        self,
        text: str = "",
        job_id: str | None = None,
        error_code: str | None = None,
        error_message: str | None = None,
        *,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text, detail=detail)
        self.job_id = job_id
        self.error_code = error_code
        self.error_message = error_message


class JobCancelled(ResultError):
    """The job ended ``cancelled``."""

    code = "job_cancelled"

    def __init__(self, text: str = "", job_id: str | None = None, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text, detail=detail)
        self.job_id = job_id


class WaitTimeout(ResultError):
    """The wait ended before the work did; the work goes on."""

    code = "wait_timeout"


class TurnFailed(ResultError):
    """The turn ended ``failed``; ``error_code`` and ``error_message`` are those stored on the turn."""

    code = "turn_failed"

    def __init__(
        self,
        text: str = "",
        turn_id: str | None = None,
        error_code: str | None = None,
        error_message: str | None = None,
        *,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text, detail=detail)
        self.turn_id = turn_id
        self.error_code = error_code
        self.error_message = error_message


class TurnCancelled(ResultError):
    """The turn ended ``cancelled``."""

    code = "turn_cancelled"

    def __init__(self, text: str = "", turn_id: str | None = None, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(text, detail=detail)
        self.turn_id = turn_id
