"""From an exception to one line on stderr and an exit code that means something."""

from __future__ import annotations

import os
import sys
import traceback
from enum import IntEnum

TRACEBACK = "TENURE_TRACEBACK"


class Code(IntEnum):
    """What the exit code of a command says."""

    OK = 0
    FAILED = 1  # what was asked about failed, or is not there
    USAGE = 2  # the input cannot be used as it is
    DUE = 3  # `migrate --check`: the schema is to be migrated
    DATABASE = 4  # the database cannot be reached, or not by this program
    REPLACE = 75  # a working process asks to be replaced
    INTERRUPTED = 130  # by Ctrl-C


def say(line: str) -> None:
    """One line on stderr."""
    print(line, file=sys.stderr, flush=True)


def reported(error: BaseException) -> int:
    """Says on stderr what went wrong, in one line, and returns the exit code for it."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    code, text = explained(error)
    say(f"tenure: {one_line(text)}")
    return code


def explained(error: BaseException) -> tuple[Code, str]:
    """The exit code and the text for an exception."""
    from typer import Abort, TyperException

    from tenure.errors import TenureError

    if isinstance(error, TenureError):
        return _code_of(error), str(error) or error.code
    if isinstance(error, TyperException):
        return Code.USAGE, _usage(error)
    if isinstance(error, Abort):
        return Code.FAILED, "stopped at a question that nobody answered"
    if type(error).__module__.startswith("sqlalchemy"):
        return Code.DATABASE, f"database: {getattr(error, 'orig', None) or error}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Code.FAILED, f"{where}{error.strerror or error}"
    return Code.FAILED, f"unexpected {type(error).__name__}: {error} ({TRACEBACK}=1 shows where)"


def _code_of(error: BaseException) -> Code:
    from tenure import errors

    if isinstance(error, errors.DatabaseError):
        return Code.DATABASE
    is_usage = isinstance(error, errors.InvalidInput | errors.ConfigurationError | errors.NeedsTurn)
    # A WorkbookError is a ValueError too: the file that was given cannot be used.
    return Code.USAGE if is_usage or isinstance(error, ValueError) else Code.FAILED


def _usage(error: BaseException) -> str:
    text = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return f"{text.rstrip('.')}{hint}"


def one_line(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    joined = " ".join(text.split())
    return "".join(character if character.isprintable() else "\ufffd" for character in joined)
