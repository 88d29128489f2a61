"""Dates as people type them, in English and Russian, to ISO text. Pure; a `ValueError` means unparsable."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta

from tenure.toolkit.values import Cell, clean_text

SERIALS = (10_000, 99_999)
"""Excel day numbers that are taken for dates (1927 to 2173); smaller ones are years, counts and slips."""

_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - a workbook has no time zones
_MONTHS = (
    "jan january янв январь января",
    "feb february фев февр февраль февраля",
    "mar march мар март марта",
    "apr april апр апрель апреля",
    "may май мая",
    "jun june июн июнь июня",
    "jul july июл июль июля",
    "aug august авг август августа",
    "sep sept september сен сент сентябрь сентября",
    "oct october окт октябрь октября",
    "nov november ноя нояб ноябрь ноября",
    "dec december дек декабрь декабря",
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}

_YEAR_WORD = re.compile(r"\s*(?:г\.?|года)$")
_TIME = re.compile(
    r"(?:[t\s]|,\s)\s*(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,]\d+)?)?\s*(?P<half>[ap]m)?\s*(?:z|utc|[+-]\d{2}:?\d{2})?$",
    re.ASCII,
)
_YEAR_FIRST = re.compile(r"(\d{4})([-/.]?)(\d{2})\2(\d{2})|(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", re.ASCII)
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4}|\d{2})", re.ASCII)
_ORDERED = re.compile(r"(\d{1,4})([-/])(\d{1,2})\2(\d{1,4})", re.ASCII)
_DAY_MONTH = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)?[\s./-]*([^\W\d_]+)[\s.,/-]*([0-9]{4}|[0-9]{2})")
_MONTH_DAY = re.compile(r"([^\W\d_]+)\.?\s*([0-9]{1,2})(?:st|nd|rd|th)?\s*,?\s+([0-9]{4})")


def parse_date(value: Cell, order: str = "dmy") -> str:
    """ISO date of a typed date or an Excel day number; a time of day beside it is left out.

    `order` (`dmy`, `mdy`, `ymd`) reads dates with `/` or `-`; dots always mean day.month.year, a four-digit year in
    front always year-month-day. Nothing is swapped to make an impossible date fit. Years are those a workbook can hold,
    1900 and later.
    """
    return _moment(value, order).date().isoformat()


def parse_datetime(value: Cell, order: str = "dmy") -> str:
    """Like `parse_date`, with the time of day as written; a workbook has no time zones, so an offset is left out."""
    return _moment(value, order).isoformat(timespec="seconds")


def _moment(value: Cell, order: str) -> datetime:
    if isinstance(value, bool) or value is None:
        raise ValueError(f"not a date: {value!r}")
    if not isinstance(value, str):
        return _serial(value)
    text = clean_text(value).casefold()
    if text.replace(".", "", 1).isdigit() and len(text.partition(".")[0]) == 5:
        return _serial(float(text))
    clock = _TIME.search(text)
    day = _day(_YEAR_WORD.sub("", text[: clock.start()] if clock else text).strip(), order)
    return datetime.combine(day, _clock(clock) if clock else time())


def _serial(number: float) -> datetime:
    if not SERIALS[0] <= number < SERIALS[1] + 1:
        raise ValueError(f"not the number of a day: {number!r}")
    return _EPOCH + timedelta(seconds=round(number * 86_400))


def _clock(match: re.Match[str]) -> time:
    hour = int(match["h"])
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("not an hour of a 12-hour clock")
        hour = hour % 12 + (12 if match["half"] == "pm" else 0)
    return time(hour, int(match["m"]), int(match["s"] or 0))


def _day(text: str, order: str) -> date:
    readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], date]], ...] = (
        (_YEAR_FIRST, _year_first),
        (_DOTTED, lambda m, _: _date(m[3], m[2], m[1])),
        (_ORDERED, _ordered),
        (_DAY_MONTH, lambda m, _: _date(m[3], _month(m[2]), m[1])),
        (_MONTH_DAY, lambda m, _: _date(m[3], _month(m[1]), m[2])),
    )
    for pattern, read in readers:
        match = pattern.fullmatch(text)
        if match:
            return read(match, order)
    raise ValueError(f"not a date: {text[:80]!r}")


def _year_first(match: re.Match[str], order: str) -> date:
    return _date(match[1], match[3], match[4]) if match[1] else _date(match[5], match[6], match[7])


def _ordered(match: re.Match[str], order: str) -> date:
    parts = dict(zip(order, (match[1], match[3], match[4]), strict=True))
    return _date(parts["y"], parts["m"], parts["d"])


def _month(name: str) -> int:
    if name not in _MONTH:
        raise ValueError(f"not a month: {name!r}")
    return _MONTH[name]


def _date(year: str, month: str | int, day: str) -> date:
    if len(year) not in (2, 4):
        raise ValueError(f"not a year: {year!r}")
    # Two digits as POSIX reads them: 69 to 99 are the last century.
    full = int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= 69 else 2000)
    if full < 1900:
        raise ValueError("a year before 1900")
    return date(full, int(month), int(day))
