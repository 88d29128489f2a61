"""What a type checker sees of the public face. `test_typing` runs mypy on this file; nothing here is run.

`assert_type` says what is inferred. A `type: ignore` says that mypy must complain there: a needless one is an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from pydantic import BaseModel

from tenure import AsyncToolContext, Final, From, Job, Step, Steps, Tenure, Tool, ToolContext, Turn, TurnView
from tenure.records import Approval, Artifact, Event, Session

app = Tenure("sqlite:///never.db")


class Receipt(BaseModel):
    amount: int


@app.tool()
def plain(invoice: str, amount: int = 1) -> Receipt:
    return Receipt(amount=amount)


@app.tool(timeout="2m", isolation="process")
def with_context(ctx: ToolContext, invoice: str) -> list[int]:
    return [ctx.attempt]


@app.tool()
async def asynchronous(invoice: str) -> float:
    return 1.0


@app.tool(approval="required")
async def asynchronous_with_context(ctx: AsyncToolContext, invoice: str) -> Receipt | None:
    await ctx.require_ownership()
    return None


@app.tool()
def nothing() -> None: ...


def tools_are_typed() -> None:
    assert_type(plain.enqueue(invoice="a"), Job[Receipt])
    assert_type(plain.enqueue(invoice="a", amount=2).result(), Receipt)
    assert_type(with_context.enqueue(invoice="a").result(timeout="1m"), list[int])
    assert_type(asynchronous.enqueue(invoice="a").result(), float)
    assert_type(asynchronous_with_context.enqueue(invoice="a").result(), Receipt | None)
    assert_type(nothing.enqueue(), Job[None])
    assert_type(plain.enqueue(invoice="a").wait(), Job[Receipt])
    assert_type(plain.enqueue(invoice="a").retry(), Job[Receipt])


def arguments_are_typed() -> None:
    plain.enqueue()  # type: ignore[call-arg]
    plain.enqueue(invoice=1)  # type: ignore[arg-type]
    plain.enqueue(invoice="a", sum=2)  # type: ignore[call-arg]
    with_context.enqueue(ctx=None, invoice="a")  # type: ignore[call-arg]
    asynchronous.enqueue(invoice=b"a")  # type: ignore[arg-type]
    asynchronous_with_context.enqueue(None, invoice="a")  # type: ignore[misc, arg-type]
    nothing.enqueue(1)  # type: ignore[call-arg]


def options_are_typed() -> None:
    app.tool(max_attempts="3")  # type: ignore[arg-type]
    app.tool(isolation="fork")  # type: ignore[arg-type]
    app.tool(approval="always")  # type: ignore[arg-type]
    app.tool(queue="fast")  # type: ignore[call-arg]
    app.tool(on_conflict="skip")  # type: ignore[arg-type]


def the_app_is_typed(tool: Tool[..., int]) -> None:
    assert_type(app.enqueue(tool, {"a": 1}), Job[int])
    assert_type(app.enqueue(plain, {}, delay="1m", priority=3, connection=object()), Job[Receipt])
    assert_type(app.enqueue("plain", {}), Job[Any])
    app.enqueue(plain, {}, prority=3)  # type: ignore[call-overload]
    app.enqueue(plain, {}, priority="high")  # type: ignore[call-overload]
    assert_type(app.submit("x", session_id="s", command="pay"), Turn)
    app.submit("x")  # type: ignore[call-arg]
    app.submit("x", session_id="s", on_busy="wait")  # type: ignore[arg-type]
    assert_type(app.approve("id", by="anna"), Approval)
    app.approve("id")  # type: ignore[call-arg]
    assert_type(app.deny("id", by="anna"), Approval)
    assert_type(app.pending(), list[Approval])
    assert_type(app.job("id").result(), Any)
    assert_type(app.session("s"), Session)
    assert_type(app.events("s", after=3), list[Event])
    assert_type(app.follow("s"), Iterator[Event])
    assert_type(app.afollow("s"), AsyncIterator[Event])
    assert_type(app.artifacts("id"), list[Artifact])


async def async_hops_are_typed() -> None:
    assert_type(await app.asubmit("x", session_id="s", command="pay"), Turn)
    assert_type(await app.aenqueue(plain, {"invoice": "a"}), Job[Receipt])
    assert_type(await app.aenqueue("plain", {}), Job[Any])
    assert_type(await plain.enqueue(invoice="a").aresult(timeout="1m"), Receipt)
    await app.aenqueue(plain, {}, prority=3)  # type: ignore[call-overload]
    await app.asubmit("x")  # type: ignore[call-arg]


@app.recipe("close_month")
def close_month(turn: TurnView) -> Steps | Final:
    return Steps(Step("charge", plain, invoice=turn.input), Step("post", "post_to_ledger", receipt=From("charge")))


@app.recipe("wrong")  # type: ignore[arg-type]
def wrong(turn: TurnView) -> str:
    return "x"
