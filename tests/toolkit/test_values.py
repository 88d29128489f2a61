"""What people type, as tables: what it means, and what is refused instead of guessed."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.toolkit.dates import parse_date, parse_datetime
from tenure.toolkit.values import Cell, as_text, clean_text, parse_boolean, parse_integer, parse_number


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        (5, 5),
        (5.0, 5),
        (2.5, 2.5),
        ("5", 5),
        (" 5 ", 5),
        ("12", 12),
        ("1234", 1234),
        ("1 234,56", 1234.56),
        ("1\u00a0234,56", 1234.56),
        ("1\u202f234\u202f567,8", 1234567.8),
        ("1,234.56", 1234.56),
        ("1.234,56", 1234.56),
        ("1,234,567", 1234567),
        ("1.234.567", 1234567),
        ("1'234.56", 1234.56),
        ("1’234’567", 1234567),
        ("0,125", 0.125),
        ("0.125", 0.125),
        (".5", 0.5),
        ("5.", 5),
        ("12,5", 12.5),
        ("1234.567", 1234.567),
        ("12,0", 12),
        ("€ 99", 99),
        ("99 €", 99),
        ("$1,234.50", 1234.5),
        ("1 234,56 ₽", 1234.56),
        ("1 234,56 руб.", 1234.56),
        ("100 р.", 100),
        ("USD 12.50", 12.5),
        ("(5.00)", -5),
        ("($1,234.50)", -1234.5),
        ("-5", -5),
        ("−5,5", -5.5),
        ("-€5", -5),
        ("€-5", -5),
        ("+7", 7),
        ("12 %", 0.12),
        ("1.5E+3", 1500),
        ("1e-3", 0.001),
    ],
)
def test_numbers(typed: Cell, number: float) -> None:
    value = parse_number(typed)
    assert value == number
    assert isinstance(value, int) == isinstance(number, int)


@pytest.mark.parametrize(
    "typed",
    [
        *("", "-", "€", ".", ",", "abc", "12 34", "1 2345", "1,23,4", "1.2.3,4", "1,2,3", "12a", "5-5", "--5", "0x10"),
        *("1_000", "inf", "nan", "1e999", "٣", "²", "1,234", "1.234", "12.345", "9007199254740993", "9" * 400),
        *(True, None, float("inf"), float("nan"), 2**60),
    ],
)
def test_what_is_no_number_or_reads_two_ways(typed: Cell) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_number(typed)


def test_a_declared_decimal_mark_settles_what_reads_two_ways() -> None:
    assert parse_number("1,234", ".") == 1234
    assert parse_number("1,234", ",") == 1.234
    assert parse_number("1.234", ",") == 1234
    with pytest.raises(ValueError, match="not a number"):
        parse_number("1,234.5", ",")


def test_whole_numbers() -> None:
    assert parse_integer("12,0") == 12
    with pytest.raises(ValueError, match="whole"):
        parse_integer("12,5")


@pytest.mark.parametrize(
    ("typed", "order", "day"),
    [
        ("2025-12-31", "dmy", "2025-12-31"),
        ("2025/3/5", "dmy", "2025-03-05"),
        ("2025.03.05", "dmy", "2025-03-05"),
        ("20250305", "dmy", "2025-03-05"),
        ("2025-03-05T14:30:00Z", "dmy", "2025-03-05"),
        ("2025-03-05 14:30:00.123+03:00", "dmy", "2025-03-05"),
        ("31.12.2025", "dmy", "2025-12-31"),
        ("31.12.2025", "mdy", "2025-12-31"),
        ("5.3.25", "dmy", "2025-03-05"),
        ("5.3.99", "dmy", "1999-03-05"),
        ("31.12.2025 г.", "dmy", "2025-12-31"),
        ("31.12.2025 09:15", "dmy", "2025-12-31"),
        ("12/31/2025", "mdy", "2025-12-31"),
        ("31/12/2025", "dmy", "2025-12-31"),
        ("05/03/2025", "dmy", "2025-03-05"),
        ("05/03/2025", "mdy", "2025-05-03"),
        ("25/03/05", "ymd", "2025-03-05"),
        ("5-3-2025", "dmy", "2025-03-05"),
        ("5 марта 2025", "dmy", "2025-03-05"),
        ("5 Марта 2025 года", "dmy", "2025-03-05"),
        ("5 мар. 2025", "dmy", "2025-03-05"),
        ("5 Mar 2025", "dmy", "2025-03-05"),
        ("05-Mar-25", "dmy", "2025-03-05"),
        ("5th March, 2025", "dmy", "2025-03-05"),
        ("March 5, 2025", "dmy", "2025-03-05"),
        ("Mar 5th 2025", "dmy", "2025-03-05"),
        (45721, "dmy", "2025-03-05"),
        (45721.75, "dmy", "2025-03-05"),
        ("45721", "dmy", "2025-03-05"),
        ("29.02.2024", "dmy", "2024-02-29"),
    ],
)
def test_dates(typed: Cell, order: str, day: str) -> None:
    assert parse_date(typed, order) == day


@pytest.mark.parametrize(
    ("typed", "order"),
    [
        *(
            (text, "dmy")
            for text in ("", "soon", "вчера", "31.02.2025", "29.02.2025", "2025-13-01", "12/31/2025", "n/a")
        ),
        *((text, "dmy") for text in ("5 foo 2025", "1/2", "31.12.202", "2025", "0025-03-05", "01.01.1850", "25:00")),
        ("31/12/2025", "mdy"),
        ("05/03/2025", "ymd"),
        *((value, "dmy") for value in (True, None, 5, 2025, 9999, 1e9, float("nan"), float("inf"))),
        ("5.3.2025 25:00", "dmy"),
        ("5.3.2025 13:00 pm", "dmy"),
    ],
)
def test_what_is_no_date(typed: Cell, order: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_date(typed, order)


@pytest.mark.parametrize(
    ("typed", "moment"),
    [
        ("2025-03-05", "2025-03-05T00:00:00"),
        ("2025-03-05T14:30:15Z", "2025-03-05T14:30:15"),
        ("05.03.2025, 2:30 pm", "2025-03-05T14:30:00"),
        ("3/5/2025 12:05 AM", "2025-03-05T00:05:00"),
        (45721.75, "2025-03-05T18:00:00"),
        ("45721.75", "2025-03-05T18:00:00"),
    ],
)
def test_dates_with_a_time_of_day(typed: Cell, moment: str) -> None:
    assert parse_datetime(typed, "mdy") == moment


@pytest.mark.parametrize(("typed", "answer"), [("да", True), ("YES", True), (1, True), ("Нет", False), (False, False)])
def test_booleans(typed: Cell, answer: bool) -> None:
    assert parse_boolean(typed) is answer


def test_what_is_neither_yes_nor_no() -> None:
    with pytest.raises(ValueError, match="neither"):
        parse_boolean("maybe")


def test_text_is_trimmed_composed_and_has_no_invisible_characters() -> None:
    assert clean_text("\ufeff \u00a0Cafe\u0301\u200b \r\nв\u00a0два ряда\x00 ") == "Café \nв два ряда"
    assert as_text(79161234567.0) == "79161234567"
    assert as_text(True) == "true"


@given(st.text())
def test_cleaning_twice_changes_nothing(text: str) -> None:
    clean = clean_text(text)
    assert clean_text(clean) == clean
    assert unicodedata.is_normalized("NFC", clean)


@given(
    st.text() | st.floats() | st.integers(), st.sampled_from(["dmy", "mdy", "ymd"]), st.sampled_from(["auto", ".", ","])
)
def test_any_cell_gives_a_value_or_one_kind_of_refusal(cell: Cell, order: str, decimal: str) -> None:
    for read in (partial(parse_date, order=order), partial(parse_number, decimal=decimal), parse_boolean):
        with suppress(ValueError, OverflowError):
            assert isinstance(read(cell), str | int | float)


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=2))
def test_one_amount_in_every_dress_is_one_number(amount: object) -> None:
    english = f"{amount:,.2f}"
    russian = english.replace(",", "\u00a0").replace(".", ",")
    german = english.replace(",", "_").replace(".", ",").replace("_", ".")
    assert parse_number(english) == parse_number(russian) == parse_number(german) == float(str(amount))
