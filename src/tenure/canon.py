"""Canonical JSON, digests, ids, and the forms in which callers write names, durations and instants."""

import hashlib
import json
import math
import os
import re
import secrets
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tenure.errors import InvalidInput, ResultNotSerializable

DIGEST_PREFIX = "v1:sha256:"
MAX_DEPTH = 500
MAX_DURATION = 10 * 365 * 86_400.0

_NAME = re.compile(r"[A-Za-z0-9._:@+-]{1,200}")
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SURROGATE = re.compile("[\ud800-\udfff]")


# -- JSON ------------------------------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """The one JSON text of a value: keys by code point, no blanks, integers exact, 1 ≠ 1.0, no Unicode normalisation.

    Raises ResultNotSerializable, naming the path, for anything that is not plain JSON: NaN, infinities, keys that are
    not text, lone surrogates, tuples, bytes, other objects, more than 500 levels.
    """
    return _dump(value, sort_keys=True)


def digest(value: Any) -> str:
    """``v1:sha256:`` and the hex SHA-256 of the canonical JSON in UTF-8; raises as `canonical` does."""
    return DIGEST_PREFIX + hashlib.sha256(canonical(value).encode()).hexdigest()


def encode(value: Any) -> str:
    """Strict JSON in the given order of keys, such that decoding gives an equal value; raises as `canonical` does."""
    return _dump(value, sort_keys=False)


def _dump(value: Any, *, sort_keys: bool) -> str:
    _check(value)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        # An integer beyond the interpreter's limit of digits, or a caller's stack that is nearly full.
        raise ResultNotSerializable(f"$: {error}") from error


def _check(value: Any) -> None:
    # Not recursive: a cycle or a deep value must end as a refusal, not as a full stack.
    open_nodes: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while open_nodes:
        node, path = open_nodes.pop()
        problem = _problem(node)
        if problem is None and len(path) > MAX_DEPTH:
            problem = f"more than {MAX_DEPTH} levels"
        if problem is not None:
            raise ResultNotSerializable(f"{_show(path)}: {problem}", detail={"path": _show(path)})
        open_nodes.extend((child, (*path, key)) for key, child in _children(node))


def _problem(node: Any) -> str | None:
    if node is None or isinstance(node, (bool, int, list)):
        return None
    if isinstance(node, float):
        return None if math.isfinite(node) else f"{node!r} is not JSON"
    if isinstance(node, str):
        return "lone surrogate" if _SURROGATE.search(node) else None
    if isinstance(node, dict):
        return _key_problem(node)
    return f"{type(node).__name__} is not a JSON type"


def _key_problem(node: dict[Any, Any]) -> str | None:
    for key in node:
        if not isinstance(key, str):
            return f"a key is {type(key).__name__}, not text"
        if _SURROGATE.search(key):
            return "lone surrogate in a key"
    return None


def _children(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, dict):
        return iter(node.items())
    return iter(enumerate(node)) if isinstance(node, list) else iter(())


def _show(path: tuple[Any, ...]) -> str:
    text = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text if len(text) <= 200 else text[:199] + "…"


# -- ids -------------------------------------------------------------------------------------------------------------


class _Sequence:
    """Hands out (milliseconds, 74 bits) pairs that only grow within one process."""

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.last = 0

    def next(self) -> int:
        with self.gate:
            fresh = (epoch_ms() << 74) | secrets.randbits(73)
            # The same millisecond, or a clock that went back: step on from the last, by a step nobody can guess.
            self.last = fresh if fresh >> 74 > self.last >> 74 else self.last + 1 + secrets.randbits(32)
            return self.last


_ids = _Sequence()


def _forget_ids() -> None:
    _ids.gate = threading.Lock()
    _ids.last = 0


os.register_at_fork(after_in_child=_forget_ids)


def uuid7() -> str:
    """A new UUIDv7 in dashed lower case; each is greater than the last of this process, also as text."""
    bits = _ids.next()
    stamp, high, low = bits >> 74, bits >> 62 & 0xFFF, bits & (1 << 62) - 1
    return str(uuid.UUID(int=stamp << 80 | 7 << 76 | high << 64 | 2 << 62 | low))


def epoch_ms() -> int:
    """This machine's milliseconds since 1970, for ids and HTTP dates; never for leases: those use the database's."""
    return time.time_ns() // 1_000_000  # noqa: TID251 - no lease is measured with it


# -- forms -----------------------------------------------------------------------------------------------------------


def name(value: object, field: str) -> str:
    """A name that a user chose, outer blanks stripped; 1-200 of ``A-Z a-z 0-9 . _ : @ + -``, else InvalidInput."""
    text = value.strip(" \t\r\n") if isinstance(value, str) else None
    if text is None or not _NAME.fullmatch(text):
        raise InvalidInput(f"{field}: expected 1-200 characters of A-Z a-z 0-9 . _ : @ + -, got {_got(value)}", field)
    return text


def label(value: object, field: str) -> str:
    """How a person is called: 1-200 printable characters, outer blanks stripped. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else ""
    if not (1 <= len(text) <= 200 and text.isprintable()):
        raise InvalidInput(f"{field}: expected 1-200 printable characters, got {_got(value)}", field)
    return text


def duration(value: object, field: str) -> float:
    """Seconds of a duration with its unit ("250ms", "90s", "10m", "2h", "1d", or a timedelta), 0 to 10 years.

    A number alone is refused, because nobody can tell its unit. Raises InvalidInput.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else _seconds(value, field)
    if not 0 <= seconds <= MAX_DURATION:
        raise InvalidInput(f'{field}: expected 0 to 10 years ("3650d"), got {_got(value)}', field)
    return seconds


def _seconds(value: object, field: str) -> float:
    match = _DURATION.fullmatch(value.strip(" \t\r\n")) if isinstance(value, str) else None
    if match is None:
        expected = 'a duration with its unit (ms, s, m, h, d), as in "90s" or "10m"'
        raise InvalidInput(f"{field}: expected {expected}, got {_got(value)}", field)
    return float(match[1]) * _UNITS[match[2]]


def clamp_seconds(value: float, cap: float, label: str) -> tuple[float, str | None]:
    """(seconds within [0, cap], None or a note of what was changed), for numbers that come from outside: NaN is 0."""
    if math.isnan(value):
        return 0.0, f"{label} nan taken as 0"
    seconds = float(min(max(value, 0.0), cap))
    return seconds, None if seconds == value else f"{label} {value:g} clamped to {seconds:g}"


def instant(value: object, field: str) -> datetime:
    """An instant in UTC from an aware datetime or ISO text with an offset; naive times are refused by InvalidInput."""
    try:
        moment = datetime.fromisoformat(value.strip(" \t\r\n")) if isinstance(value, str) else value
        if isinstance(moment, datetime) and moment.utcoffset() is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    expected = 'an instant with its offset from UTC, as in "2026-03-01T09:00:00Z" or "2026-03-01T12:00:00+03:00"'
    raise InvalidInput(f"{field}: expected {expected}, got {_got(value)}", field)


def _got(value: object) -> str:
    """What was given, short enough for an error text, and by type alone where the value is not text or a number."""
    if not isinstance(value, (str, int, float)):
        return type(value).__name__
    try:
        text = ascii(value)
    except ValueError:
        return f"a {type(value).__name__} of many digits"
    return text if len(text) <= 60 else text[:59] + "…"
