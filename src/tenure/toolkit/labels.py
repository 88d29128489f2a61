"""The report's words in English and Russian."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Labels:
    """One language's words; `thousands` and `decimal` are its marks in numbers."""

    title: str
    source: str
    rows_in: str
    kept: str
    merged: str
    rejected: str
    by_month: str
    by_year: str
    reasons: str
    reason: str
    rows: str
    nothing_rejected: str
    examples: str
    row: str
    column: str
    value: str
    columns: str
    type: str
    filled: str
    as_is: str
    of_many: str
    thousands: str
    decimal: str
    names: dict[str, str]
    """Reasons and types in plain words; one that is missing is shown as it is."""


ENGLISH = Labels(
    title="Workbook report",
    source="{file}, sheet “{sheet}”",
    rows_in="Rows in",
    kept="Kept",
    merged="Merged",
    rejected="Rejected",
    by_month="{number} by month of {date}",
    by_year="{number} by year of {date}",
    reasons="Why rows were rejected",
    reason="Reason",
    rows="Rows",
    nothing_rejected="No row was rejected.",
    examples="Rejected rows",
    row="Row",
    column="Column",
    value="Value",
    columns="Columns of the result",
    type="Type",
    filled="Filled",
    as_is="as it is",
    of_many="The first {shown} of {all}; all are in the workbook.",
    thousands=",",
    decimal=".",
    names={
        "blank": "blank row",
        "formula_without_value": "formula without a value",
        "bad_date": "not a date",
        "bad_datetime": "not a date and time",
        "bad_number": "not a number",
        "bad_integer": "not a whole number",
        "bad_boolean": "neither yes nor no",
        "too_long": "too long for a cell",
    },
)

RUSSIAN = Labels(
    title="Отчёт по книге",
    source="{file}, лист «{sheet}»",
    rows_in="Строк на входе",
    kept="Оставлено",
    merged="Объединено",
    rejected="Отклонено",
    by_month="{number} по месяцам ({date})",
    by_year="{number} по годам ({date})",
    reasons="Почему строки отклонены",
    reason="Причина",
    rows="Строк",
    nothing_rejected="Ни одна строка не отклонена.",
    examples="Отклонённые строки",
    row="Строка",
    column="Столбец",
    value="Значение",
    columns="Столбцы результата",
    type="Тип",
    filled="Заполнено",
    as_is="как есть",
    of_many="Первые {shown} из {all}; все они в книге.",
    thousands="\u00a0",
    decimal=",",
    names={
        "blank": "пустая строка",
        "formula_without_value": "формула без значения",
        "bad_date": "не дата",
        "bad_datetime": "не дата со временем",
        "bad_number": "не число",
        "bad_integer": "не целое число",
        "bad_boolean": "не да и не нет",
        "too_long": "не помещается в ячейку",
        "text": "текст",
        "number": "число",
        "integer": "целое число",
        "date": "дата",
        "datetime": "дата и время",
        "boolean": "да или нет",
    },
)

LABELS = {"en": ENGLISH, "ru": RUSSIAN}


def spelled(number: float, labels: Labels) -> str:
    """A number as the language writes it: whole, or with two digits after the mark."""
    plain = f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"
    return plain.replace(",", "\0").replace(".", labels.decimal).replace("\0", labels.thousands)
