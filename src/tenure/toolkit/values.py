"""From what people type into cells to one value: text, numbers, booleans. Pure; a `ValueError` means unparsable."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal

Cell = str | int | float | bool | None
"""A cell as JSON can hold it; dates are ISO text (`2025-03-05`, `2025-03-05T14:30:00`)."""

EXACT_INTEGER = 2**53 - 1
"""A workbook keeps numbers as doubles: whole numbers beyond this would change silently."""

_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " ")
_INVISIBLE = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), 0x200B, 0x2060, 0xFEFF])
_TIDY: dict[int, str | None] = {**_INVISIBLE, ord("\t"): "\t", ord("\n"): "\n", **_SPACES}

_CURRENCY = r"(?:[€$£¥₽₴₸]|руб(?:лей|ля|ль|\.)?|р\.|rub|usd|eur|gbp)"
_NUMBER = re.compile(
    rf"(?P<sign>[-+−–]?) *{_CURRENCY}? *(?P<inner>[-+−–]?) *"
    rf"(?P<digits>[0-9.,][0-9.,'’ ]*?) *{_CURRENCY}? *(?P<percent>%?)",
    re.IGNORECASE,
)
_EXPONENT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]{1,3}")
_WHOLE = re.compile(r"[0-9]*|[0-9]{1,3}(?P<group>[.,'’ ])[0-9]{3}(?:(?P=group)[0-9]{3})*")

_TRUE = frozenset(("true", "yes", "y", "1", "да", "истина"))
_FALSE = frozenset(("false", "no", "n", "0", "нет", "ложь"))


def clean_text(text: str) -> str:
    """Trimmed, NFC, one kind of space and of line end, no invisible characters. Applying it twice changes nothing."""
    if text.isascii() and text.isprintable():
        return text.strip()
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n").translate(_TIDY)).strip()


def as_text(value: Cell) -> str:
    """A cell of any kind as clean text; whole numbers without a point, booleans as `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return clean_text(value)
    return "" if value is None else str(whole_if_exact(value))


def is_blank(value: Cell) -> bool:
    """Nothing, or text in which a person sees nothing."""
    return value is None or (isinstance(value, str) and not clean_text(value))


def parse_boolean(value: Cell) -> bool:
    """Yes or no in English and Russian, or 1 and 0."""
    word = as_text(value).casefold()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"neither yes nor no: {word!r}")
    return word in _TRUE


def parse_integer(value: Cell, decimal: str = "auto") -> int:
    """A whole number; `12,0` is one, `12,5` is not."""
    number = parse_number(value, decimal)
    if not isinstance(number, int):
        raise ValueError(f"not a whole number: {value!r}")
    return number


def parse_number(value: Cell, decimal: str = "auto") -> int | float:
    """A number typed as people type it: `1 234,56`, `1,234.56`, `€ 99`, `(5.00)`, `12 %` (0.12).

    `decimal` is the decimal mark, `.` or `,`. With `auto` a text that reads two ways (`1,234`, `1.234`) is unparsable:
    a guess would be wrong by a factor of a thousand. Whole results are `int`.
    """
    if isinstance(value, bool) or value is None:
        raise ValueError(f"not a number: {value!r}")
    number = whole_if_exact(_typed_number(clean_text(value), decimal) if isinstance(value, str) else value)
    # A double of the workbook's own is what it is; a typed number of more digits would change silently.
    if not math.isfinite(number) or (not isinstance(value, float) and abs(number) > EXACT_INTEGER):
        raise ValueError("not a number that a workbook keeps")
    return number


def whole_if_exact(number: float) -> int | float:
    """`7.0` as `7`; what has a fraction or more digits than are exact as it is."""
    return int(number) if abs(number) <= EXACT_INTEGER and number % 1 == 0 else number


def _typed_number(text: str, decimal: str) -> float:
    if _EXPONENT.fullmatch(text):
        return float(text)
    negative = text.startswith("(") and text.endswith(")")
    match = _NUMBER.fullmatch(text[1:-1].strip() if negative else text)
    if match is None or (match["sign"] and match["inner"]):
        raise ValueError(f"not a number: {text[:80]!r}")
    number = _plain_number(match["digits"], decimal)
    if (match["sign"] or match["inner"]) in ("-", "−", "–"):
        number = -number
    return float((-number if negative else number) / (100 if match["percent"] else 1))


def _plain_number(digits: str, decimal: str) -> Decimal:
    mark = _decimal_mark(digits) if decimal == "auto" else decimal
    whole, _, fraction = digits.partition(mark) if mark else (digits, "", "")
    grouping = _WHOLE.fullmatch(whole)
    if grouping is None or not re.fullmatch(r"[0-9]*", fraction) or not whole + fraction:
        raise ValueError(f"not a number: {digits[:80]!r}")
    return Decimal(re.sub(r"[^0-9]", "", whole) + "." + fraction)


def _decimal_mark(digits: str) -> str:
    """Which of `.` and `,` ends the whole part; empty if none does. Raises if the text reads two ways."""
    last = max(".,", key=digits.rfind)
    before, _, after = digits.rpartition(last)
    if last not in digits or last in before:
        return ""
    if all(mark in digits for mark in ".,") or len(after) != 3 or not before.isdigit():
        return last
    if before.startswith("0") or len(before) > 3:
        return last
    raise ValueError(f"reads two ways: {digits!r}")
