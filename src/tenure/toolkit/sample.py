"""The sample: a messy sales workbook, the same bytes for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, NamedTuple

from tenure.toolkit.faults import workbook_extra
from tenure.toolkit.outputs import PathLike, written_whole
from tenure.toolkit.workbook import FIXED_DATE

SAMPLE_SETTINGS: dict[str, object] = {
    "columns": {
        "Order": {"type": "text", "names": ["№ заказа", "Order No"]},
        "Date": {"type": "date", "names": ["Дата"]},
        "Customer": {"type": "text", "names": ["Клиент"]},
        "City": {
            "type": "text",
            "names": ["Город"],
            "values": {
                "Москва": ["Moscow", "Moskva", "г. Москва"],
                "Санкт-Петербург": ["Saint Petersburg", "St. Petersburg", "СПб"],
                "Казань": ["Kazan"],
                "Новосибирск": ["Novosibirsk"],
                "Berlin": ["Берлин"],
                "London": ["Лондон"],
            },
        },
        "Product": {"type": "text", "names": ["Товар"]},
        "Quantity": {"type": "integer", "names": ["Кол-во", "Qty"]},
        "Price": {"type": "number", "names": ["Цена"]},
        "Total": {"type": "number", "names": ["Сумма"]},
        "Paid": {"type": "boolean", "names": ["Оплачено"]},
    },
    "date_order": "mdy",
    "decimal": "auto",
    "drop_duplicates": True,
    "title": "Sales, cleaned",
}
"""The project's settings for the sample workbook."""

HEADER = ("№ заказа", "Дата", "Клиент", "Город", "Товар", "Qty", "Цена", "Сумма", "Оплачено", "Comment")

_CUSTOMERS = ("ООО «Ромашка»", "ИП Петрова А. В.", "Northwind Traders", "АО Вектор", "Müller & Söhne", "Café Lumière")
_CITIES = (
    ("Москва", "Moscow", " москва ", "г. Москва"),
    ("Санкт-Петербург", "Saint Petersburg", "СПб"),
    ("Казань", "Kazan", "КАЗАНЬ"),
    ("Новосибирск", "Novosibirsk"),
    ("Berlin", "Берлин"),
    ("London", "Лондон", "LONDON "),
)
_PRODUCTS = (("Стол", 12_900.0), ("Chair", 3_450.5), ("Лампа", 1_199.9), ("Desk mat", 890.0), ("Полка", 2_345.67))
_COMMENTS = (None, None, None, "срочно", "call before delivery", "самовывоз", "=СУММ(1;2)", "<b>fragile</b>")
_MONTHS_RU = (
    *("января", "февраля", "марта", "апреля", "мая", "июня"),
    *("июля", "августа", "сентября", "октября", "ноября", "декабря"),
)
_MONTHS_EN = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIRST_DAY = date(2024, 1, 1)
_DAYS = 730
_BAD_DATES = ("31.02.2025", "soon", "вчера", "2025-13-01", "n/a")
_BAD_NUMBERS = ("по запросу", "1.2.3,4", "TBD", "12 34")


class _Sale(NamedTuple):
    order: str
    day: date
    customer: str
    city: tuple[str, ...]
    product: str
    quantity: int
    price: float
    paid: bool
    comment: str | None


def make_sample(path: PathLike, rows: int = 20_000, seed: int = 7) -> None:
    """Write the messy workbook with `rows` rows below the header to `path`, whole or not at all.

    About 4 % of the rows are blank, 8 % repeat an earlier sale in other spellings, 1.5 % cannot be parsed, 0.5 % have a
    formula without a value.
    """
    with workbook_extra():
        import xlsxwriter  # type: ignore[import-untyped]
    with written_whole(path) as draft:
        book = xlsxwriter.Workbook(str(draft), {"constant_memory": True})
        book.set_properties({"created": FIXED_DATE})
        _fill(book, rows, random.Random(seed))
        book.close()


def _fill(book: Any, rows: int, chance: random.Random) -> None:
    book.add_worksheet("Notes")
    sheet = book.add_worksheet("Продажи 2024-2025")
    formats = {"date": book.add_format({"num_format": "dd.mm.yyyy"}), "head": book.add_format({"bold": True})}
    for column, name in enumerate(HEADER):
        sheet.write_string(0, column, name, formats["head"])
    sales: list[_Sale] = []
    for row in range(1, rows + 1):
        # The last row has content: rows after the last one with content are no rows.
        if row < rows and chance.random() < 0.04:
            _write_blank(sheet, row, chance)
            continue
        if len(sales) < 50 or chance.random() >= 0.08:
            sales.append(_sale(len(sales) + 1, chance))
            _write_sale(sheet, row, sales[-1], formats, chance, chance.random())
        else:
            _write_sale(sheet, row, chance.choice(sales[-500:]), formats, chance, 1.0)


def _sale(number: int, chance: random.Random) -> _Sale:
    product, base = chance.choice(_PRODUCTS)
    return _Sale(
        order=f"A-{number:06}",
        day=_FIRST_DAY + timedelta(days=chance.randrange(_DAYS)),
        customer=chance.choice(_CUSTOMERS),
        city=chance.choice(_CITIES),
        product=product,
        quantity=chance.randint(1, 12),
        price=round(base * chance.choice((1, 1, 1, 0.9, 0.85)), 2),
        paid=chance.random() < 0.8,
        comment=chance.choice(_COMMENTS),
    )


def _write_blank(sheet: Any, row: int, chance: random.Random) -> None:
    if chance.random() < 0.5:
        sheet.write_string(row, chance.randrange(len(HEADER)), chance.choice((" ", "\u00a0", "   ")))


def _write_sale(sheet: Any, row: int, sale: _Sale, formats: dict[str, Any], chance: random.Random, luck: float) -> None:
    """`luck` decides what is wrong with the row; from 0.02 up nothing is."""
    sheet.write_string(row, 0, _padded(sale.order, chance))
    if luck < 0.007:
        sheet.write_string(row, 1, chance.choice(_BAD_DATES))
    else:
        _write_day(sheet, row, sale.day, formats["date"], chance)
    sheet.write_string(row, 2, _padded(sale.customer, chance))
    sheet.write_string(row, 3, chance.choice(sale.city))
    sheet.write_string(row, 4, _padded(sale.product, chance))
    _write_number(sheet, row, 5, sale.quantity, chance)
    if 0.007 <= luck < 0.015:
        sheet.write_string(row, 6, chance.choice(_BAD_NUMBERS))
    else:
        _write_number(sheet, row, 6, sale.price, chance)
    _write_total(sheet, row, sale, valued=not 0.015 <= luck < 0.02)
    _write_paid(sheet, row, sale.paid, chance)
    if sale.comment:
        sheet.write_string(row, 9, sale.comment)


def _write_total(sheet: Any, row: int, sale: _Sale, valued: bool) -> None:
    total = round(sale.quantity * sale.price, 2) if valued else ""
    sheet.write_formula(row, 7, f"=F{row + 1}*G{row + 1}", None, total)


def _write_day(sheet: Any, row: int, day: date, form: Any, chance: random.Random) -> None:
    spell: Callable[[date], str] | None = chance.choice((None, None, None, *_DAY_SPELLINGS))
    if spell is not None:
        sheet.write_string(row, 1, spell(day))
    elif chance.random() < 0.1:
        sheet.write_number(row, 1, (day - date(1899, 12, 30)).days)
    else:
        sheet.write_datetime(row, 1, day, form)


def _write_number(sheet: Any, row: int, column: int, number: float, chance: random.Random) -> None:
    if chance.random() < 0.7:
        sheet.write_number(row, column, number)
    elif isinstance(number, int):
        sheet.write_string(row, column, chance.choice((f"{number}", f" {number} ", f"{number},0")))
    else:
        sheet.write_string(row, column, _price_text(number, chance))


def _price_text(price: float, chance: random.Random) -> str:
    english = f"{price:,.2f}"
    russian = english.replace(",", "\u00a0").replace(".", ",")
    return chance.choice(
        (english, russian, russian.replace("\u00a0", " "), f"{russian} ₽", f"{russian} руб.", f"₽ {english}")
    )


def _write_paid(sheet: Any, row: int, paid: bool, chance: random.Random) -> None:
    if chance.random() < 0.5:
        sheet.write_boolean(row, 8, paid)
    else:
        sheet.write_string(row, 8, chance.choice(("да", "Yes", "ДА") if paid else ("нет", "no", "НЕТ")))


def _padded(text: str, chance: random.Random) -> str:
    return chance.choice(("", "", "", " ", "\u00a0")) + text + chance.choice(("", "", "", " ", "  "))


_DAY_SPELLINGS: tuple[Callable[[date], str], ...] = (
    lambda day: day.isoformat(),
    lambda day: f"{day:%d.%m.%Y}",
    lambda day: f"{day:%m/%d/%Y}",
    lambda day: f"{day.day} {_MONTHS_RU[day.month - 1]} {day.year}",
    lambda day: f"{day.day} {_MONTHS_EN[day.month - 1]} {day.year}",
    lambda day: f"{day:%d.%m.%y}",
)
