"""An app on the test's database, with a few tools, and a worker that runs them in this thread."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest

from tenure import Final, From, Step, Steps, Tenure, TurnView
from tenure.testing import Driver
from tests.app.running import Made


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Line(pydantic.BaseModel):
    sku: str
    count: int = 1


def typed(day: dt.date, colour: Colour, lines: list[Line], at: dt.datetime | None = None, rate: float = 1.5) -> Line:
    """Takes what JSON does not have and gives back a model."""
    assert isinstance(day, dt.date)
    assert isinstance(colour, Colour)
    return Line(sku=f"{day.isoformat()} {colour} {at} {rate}", count=sum(line.count for line in lines))


@pytest.fixture
def app(database_url: str, tmp_path: Path) -> Iterator[Tenure]:
    app = Tenure(database_url, artifacts=str(tmp_path / "artifacts"))
    yield app
    app.close()


@pytest.fixture
def made(app: Tenure) -> Made:
    """The app's tools, a recipe `pay` that asks a person, and `worker`, which runs what is claimable."""
    calls: list[Any] = []

    @app.tool()
    def add(a: int, b: int = 2) -> int:
        calls.append((a, b))
        return a + b

    @app.tool()
    def anything(value: Any = None) -> Any:
        calls.append(value)
        return value

    @app.tool(max_attempts=1)
    def fail(text: str) -> None:
        raise ValueError(text)

    @app.tool(approval="required", mode="only_missing")
    def pay(invoice: str, amount: int) -> dict[str, Any]:
        calls.append((invoice, amount))
        return {"paid": amount}

    @app.tool(writes="output")
    def publish(text: str) -> str:
        return text

    @app.recipe("pay")
    def paying(turn: TurnView) -> Steps | Final:
        return Steps(Step("sum", add, a=turn.input, b=1), Step("pay", pay, invoice="A-17", amount=From("sum")))

    tools = SimpleNamespace(
        add=add, anything=anything, fail=fail, pay=pay, publish=publish, typed=app.tool()(typed), paying=paying
    )
    return Made(app, tools, Driver(app.program), calls)
