"""From any Python value to a strict JSON scalar, and what JSON text costs."""

import datetime as dt
import decimal
import json
import math
import re
import uuid
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_MAX_BITS = 1024
_SPELLED = (dt.datetime, dt.date, dt.time, uuid.UUID, decimal.Decimal)


def visible(text: str) -> str:
    """The text with control characters as their pictures (NUL is ␀) and lone surrogates as U+FFFD."""
    return _INVISIBLE.sub(_picture, text)


def storable(value: Any) -> Any:
    """The value with NUL as ␀ and lone surrogates as U+FFFD in every text and key: what both databases can store.

    Nothing else changes, so the value must be JSON already (`canon.encode` is the judge); at most 500 levels.
    """
    return _storable(value, 500)


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(_picture, value) if _UNSTORABLE.search(value) else value
    if depth == 0:
        return value
    if isinstance(value, dict):
        return {_storable(key, 0): _storable(child, depth - 1) for key, child in value.items()}
    return [_storable(child, depth - 1) for child in value] if isinstance(value, list) else value


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0x7F:
        return "\ufffd"
    return chr(0x2421 if code == 0x7F else 0x2400 + code)


def scalar(value: Any) -> Any:
    """The JSON scalar of a value that is no container: itself, its number, or a text that says what it was.

    Works on ``type(value)`` and base-class methods alone, so that no override of the value runs. Never a repr.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return _integer(int.__int__(value))
    if issubclass(kind, float):
        return _float(float.__float__(value))
    if kind in _SPELLED:
        return str(value)
    return f"[object {kind.__name__[:100]}]"


def _integer(value: int) -> int | str:
    return value if value.bit_length() <= _MAX_BITS else f"[integer of {value.bit_length()} bits]"


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def cost(value: Any) -> int:
    """Bytes of UTF-8 of the value's JSON text with a blank after each separator."""
    return len(json.dumps(value, ensure_ascii=False).encode())
