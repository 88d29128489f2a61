"""`enqueue`: its options, its key (cases B15 and B16), and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Tenure
from tenure.errors import IdempotencyConflict, InvalidInput, JobCancelled, JobFailed, NeedsTurn, NotFound, WaitTimeout
from tests.app.running import Made, jobs_of


def test_a_job_is_made_run_and_read(made: Made) -> None:
    job = made.tools.add.enqueue(a=1, b=5)
    assert (job.status, job.replayed, repr(job)) == ("queued", False, f"<Job add {job.id} queued>")
    made.worker.drain()
    assert job.wait("5s") is job
    assert job.row.status == "completed"
    assert job.result("5s") == 6
    assert made.app.job(job.id).result("5s") == 6


def test_a_failed_and_a_cancelled_job_raise(made: Made) -> None:
    failed, cancelled = made.tools.fail.enqueue(text="no paper"), made.tools.add.enqueue(a=1)
    cancelled.cancel(by="anna")
    made.worker.drain()
    with pytest.raises(JobFailed, match="no paper") as caught:
        failed.result("5s")
    assert (caught.value.job_id, caught.value.code) == (failed.id, "job_failed")
    assert caught.value.error_message is not None
    with pytest.raises(JobCancelled, match=f"job {cancelled.id} was cancelled"):
        cancelled.result("5s")
    assert failed.wait("5s").row.status == "failed", "wait returns, whatever the end"


@pytest.mark.parametrize("call", ["tool", "name"])
def test_options(made: Made, call: str) -> None:
    tool = made.tools.add if call == "tool" else "add"
    job = made.app.enqueue(
        tool, {"a": 1}, delay="10m", priority=7, user_id=" u-1 ", project_id="p", tenant_id="acme", idempotency_key="k"
    )
    row = job.row
    assert (row.tenant_id, row.user_id, row.project_id, row.idempotency_key) == ("acme", "u-1", "p", "k")
    assert abs((row.claim_at - row.created_at).total_seconds() - 600) < 0.01, "a delay takes no part of the priority"
    assert made.app.job(job.id, tenant_id="acme").id == job.id
    with pytest.raises(NotFound):
        made.app.job(job.id)


def test_priority_moves_what_is_due_at_once_a_minute_a_step(made: Made) -> None:
    for priority in (0, 1, 10):
        row = made.app.enqueue("add", {"a": 1}, priority=priority).row
        assert abs((row.created_at - row.claim_at).total_seconds() - 60 * priority) < 0.01


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"delay": 5}, "delay"),
    ({"delay": "5"}, "delay"),
    ({"delay": "-5s"}, "delay"),
    ({"delay": "3651d"}, "delay"),
    ({"priority": -1}, "priority"),
    ({"priority": 11}, "priority"),
    ({"priority": 1.0}, "priority"),
    ({"priority": True}, "priority"),
    ({"priority": "1"}, "priority"),
    ({"user_id": "a b"}, "user_id"),
    ({"user_id": 7}, "user_id"),
    ({"project_id": "../p"}, "project_id"),
    ({"project_id": ""}, "project_id"),
    ({"tenant_id": None}, "tenant_id"),
    ({"tenant_id": "x" * 201}, "tenant_id"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": 7}, "idempotency_key"),
    ({"idempotency_key": "k" * 201}, "idempotency_key"),
    ({"idempotency_key": "a\x00b"}, "idempotency_key"),
]


@pytest.mark.parametrize(("options", "field"), WRONG, ids=lambda value: ascii(value)[:40])
def test_an_option_that_cannot_be_names_itself(made: Made, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: expected") as caught:
        made.app.enqueue("add", {"a": 1}, **options)
    assert caught.value.field == field
    assert jobs_of(made.app) == 0


def test_an_unknown_option_is_a_mistake_of_the_program(made: Made) -> None:
    with pytest.raises(TypeError, match=r"enqueue\(\) has no argument 'prority'"):
        made.app.enqueue("add", {"a": 1}, prority=3)  # type: ignore[call-overload]  # wrong on purpose


def test_a_tool_that_asks_or_writes_needs_a_turn(made: Made) -> None:
    with pytest.raises(NeedsTurn, match=r"tool 'pay' asks for approval: submit\(…, steps=\[…\]\) runs it in a turn"):
        made.tools.pay.enqueue(invoice="A", amount=1)
    with pytest.raises(NeedsTurn, match="tool 'publish' writes the slot 'output'"):
        made.tools.publish.enqueue(text="x")
    with pytest.raises(NotFound, match="no tool 'nothing' is registered here; known: add, anything"):
        made.app.enqueue("nothing", {})
    assert jobs_of(made.app) == 0


# -- the key -----------------------------------------------------------------------------------------------------------

FIRST = {"a": 1, "b": 2}


def test_a_repeat_gives_the_same_job_in_whatever_state_it_is(made: Made) -> None:
    def repeat() -> Any:
        return made.app.enqueue("add", {"b": 2, "a": 1}, idempotency_key="k")

    first = made.app.enqueue("add", FIRST, idempotency_key="k")
    assert (first.replayed, repeat().replayed, repeat().id) == (False, True, first.id)
    made.worker.drain()
    assert repeat().row.status == "completed"
    assert repeat().result("5s") == 3
    assert jobs_of(made.app) == 1
    assert made.calls == [(1, 2)]


def test_a_failed_or_cancelled_job_is_replayed_and_not_run_again(made: Made) -> None:
    failed = made.app.enqueue("fail", {"text": "x"}, idempotency_key="f")
    cancelled = made.app.enqueue("add", FIRST, idempotency_key="c")
    cancelled.cancel()
    made.worker.drain()
    assert made.app.enqueue("fail", {"text": "x"}, idempotency_key="f").row.status == "failed"
    assert made.app.enqueue("add", FIRST, idempotency_key="c").row.status == "cancelled"
    assert made.worker.drain() == 0
    again = made.app.retry(failed.id)
    assert (again.id, again.row.status) == (failed.id, "queued"), "to run again: reopen, or another key"


CONFLICTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("a float for an integer", "anything", {"value": {"a": 1.0, "b": 2}}, {}),
    ("another value", "anything", {"value": {"a": 1, "b": 3}}, {}),
    ("a text for a number", "anything", {"value": {"a": "1", "b": 2}}, {}),
    ("one field more", "anything", {"value": {"a": 1, "b": 2, "c": None}}, {}),
    ("another tool", "add", {"a": 1, "b": 2}, {}),
    ("another project", "anything", {"value": {"a": 1, "b": 2}}, {"project_id": "p"}),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "options"), [row[1:] for row in CONFLICTS], ids=[row[0] for row in CONFLICTS]
)
def test_a_key_with_another_body_is_a_conflict_that_does_not_echo(
    made: Made, tool: str, arguments: dict[str, Any], options: dict[str, Any]
) -> None:
    first = made.app.enqueue("anything", {"value": {"b": 2, "a": 1}}, idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as caught:
        made.app.enqueue(tool, arguments, idempotency_key="k", **options)
    assert str(caught.value) == "idempotency key 'k' was used with another request"
    assert first.id not in str(caught.value)
    assert made.app.enqueue("anything", {"value": {"a": 1, "b": 2}}, idempotency_key="k").id == first.id
    assert jobs_of(made.app) == 1


def test_the_key_is_of_its_tenant_and_its_operation(made: Made) -> None:
    job = made.app.enqueue("add", FIRST, idempotency_key="k")
    other = made.app.enqueue("add", FIRST, idempotency_key="k", tenant_id="acme")
    turn = made.app.submit(1, session_id="s", command="pay", idempotency_key="k")
    assert len({job.id, other.id, turn.id}) == 3
    assert not other.replayed
    assert not turn.replayed


def test_delay_and_priority_do_not_make_another_request(made: Made) -> None:
    first = made.app.enqueue("add", FIRST, idempotency_key="k", delay="1h")
    assert made.app.enqueue("add", FIRST, idempotency_key="k", priority=3).id == first.id


def test_a_request_that_made_nothing_keeps_no_key(made: Made) -> None:
    with pytest.raises(InvalidInput):
        made.app.enqueue("add", {"a": "x"}, idempotency_key="k")
    with pytest.raises(NeedsTurn):
        made.app.enqueue("publish", {"text": "x"}, idempotency_key="k")
    assert not made.app.enqueue("add", FIRST, idempotency_key="k").replayed


def test_what_is_equal_after_validation_is_the_same_request(made: Made) -> None:
    """The body is what will run: a default that is spelled out changes nothing."""
    first = made.app.enqueue("add", {"a": "1"}, idempotency_key="k")
    assert made.app.enqueue("add", {"a": 1, "b": 2}, idempotency_key="k").id == first.id


# -- nothing happens never happens -------------------------------------------------------------------------------------


def test_waiting_for_a_job_that_nobody_offers_says_so(made: Made) -> None:
    job = made.tools.add.enqueue(a=1)
    expected = f"job {job.id} is queued: no worker offers 'add' (start: tenure worker tests.app.conftest:app)"
    for wait in (job.wait, job.result):
        with pytest.raises(WaitTimeout) as caught:
            wait("20ms")
        assert str(caught.value) == expected


def test_waiting_for_a_job_that_is_offered_and_one_that_is_blocked(app: Tenure, made: Made) -> None:
    @app.tool(limit=1)
    def limited(n: int) -> int:
        return n

    first, second = limited.enqueue(n=1), limited.enqueue(n=2)
    with pytest.raises(WaitTimeout, match=f"job {second.id} is queued: waits for limit/limited"):
        second.wait("0ms")
    made.worker.drain()
    assert (first.result("5s"), second.result("5s")) == (1, 2)
    with app.worker(only=["add"]), pytest.raises(WaitTimeout, match="no worker offers 'limited'"):
        limited.enqueue(n=3).wait("0ms")


@pytest.mark.parametrize("timeout", [5, "5", "-1s", "soon"])
def test_a_timeout_carries_its_unit(made: Made, timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout: expected a duration"):
        made.tools.add.enqueue(a=1).wait(timeout)


def test_a_wait_ends_with_a_hint_and_not_by_polling_alone(made: Made) -> None:
    with made.app.worker():
        assert made.tools.add.enqueue(a=1).result("20s") == 3
