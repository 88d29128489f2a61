"""What a driver's error means for the transaction: run it again, look first, or give up."""

from __future__ import annotations

from enum import Enum, auto

from sqlalchemy.exc import DBAPIError

RETRY_STATES = frozenset({"40001", "40P01"})  # serialization failure, deadlock
LOST_STATES = frozenset({"57P01", "57P02", "57P03"})  # the server is going down or not up yet
_UNUSABLE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOTADB", "SQLITE_CORRUPT")
# The names came with Python 3.11; the texts serve builds without them.
_UNUSABLE_TEXTS = ("unable to open database file", "attempt to write a readonly database", "file is not a database")


class Fault(Enum):
    """`CONFLICT`: nothing happened, run it again. `LOST`: the connection broke. `UNUSABLE`: the file cannot be opened
    or written, and waiting will not help. `OTHER`: a bug or a caller's error."""

    CONFLICT = auto()
    LOST = auto()
    UNUSABLE = auto()
    OTHER = auto()


def fault_of(error: DBAPIError) -> Fault:
    """The meaning of a driver's error."""
    original = error.orig
    state = getattr(original, "sqlstate", None) or ""
    if state in RETRY_STATES or _is_busy(original):
        return Fault.CONFLICT
    if _is_unusable(original):
        return Fault.UNUSABLE
    if error.connection_invalidated or state in LOST_STATES or state.startswith("08") or _is_broken(original, state):
        return Fault.LOST
    return Fault.OTHER


def _is_busy(original: BaseException | None) -> bool:
    name = getattr(original, "sqlite_errorname", "") or ""
    return name.startswith("SQLITE_BUSY") or "database is locked" in str(original)


def _is_unusable(original: BaseException | None) -> bool:
    name = getattr(original, "sqlite_errorname", "") or ""
    return name.startswith(_UNUSABLE) or any(text in str(original) for text in _UNUSABLE_TEXTS)


def _is_broken(original: BaseException | None, state: str) -> bool:
    """psycopg reports a broken or refused connection as an OperationalError without an SQLSTATE."""
    module = type(original).__module__
    return type(original).__name__ == "OperationalError" and module.startswith("psycopg") and not state
