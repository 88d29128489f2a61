"""Turns through the public face: submit, decide, cancel, retry, read, follow; and projects and files."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import Final, From, Step, Steps, Tenure, ToolContext, TurnView
from tenure.errors import (
    AlreadyDecided,
    ApprovalExpired,
    IdempotencyConflict,
    InputTooLarge,
    InvalidInput,
    NotFound,
    SessionBusy,
    StateConflict,
    TurnCancelled,
    TurnFailed,
    WaitTimeout,
)
from tenure.store import approvals
from tenure.testing import Clock
from tests.app.running import Made


def test_a_turn_from_request_to_answer(made: Made) -> None:
    turn, approval = made.asked(project_id="p", user_id="u")
    assert (turn.status, turn.session_id, turn.replayed) == ("awaiting_approval", "s", False)
    (item,) = approval.items
    assert (item["tool"], item["mode"], item["arguments"]) == ("pay", "only_missing", {"invoice": "A-17", "amount": 5})
    assert [pending.approval_id for pending in made.app.pending()] == [approval.approval_id]
    assert [each["approval_id"] for each in made.app.session("s").pending_approval] == [approval.approval_id]
    decided = made.app.approve(approval.approval_id, by="anna", reason="seen", source="test")
    assert (decided.status, decided.decided_by, decided.decided_reason, decided.decided_from) == (
        "approved",
        "anna",
        "seen",
        "test",
    )
    made.worker.drain()
    assert turn.wait("5s") is turn
    assert turn.result("5s") == {"sum": 5, "pay": {"paid": 5}}
    assert made.app.turn(turn.id).result("5s") == turn.row.output
    assert made.app.pending() == []
    assert [job.tool for job in turn.jobs()] == ["tenure.plan", "add", "pay", "tenure.plan"]
    assert made.app.session("s").active_turn_id is None
    events = made.app.events("s")
    assert [event.event_seq for event in events] == list(range(1, len(events) + 1))
    assert [event.type for event in made.app.events("s", after=len(events) - 1)] == ["turn_completed"]
    assert len(made.app.events("s", limit=3)) == 3


def test_given_steps_as_objects_and_as_json(made: Made) -> None:
    """Typed steps and what a JSON API would send are one thing."""
    plans: list[Any] = [
        [Step("a", made.tools.add, a=1), Step("b", "add", a=From("a")).after("a").optional()],
        [
            {"name": "a", "tool": "add", "arguments": {"a": 1}},
            {"name": "b", "tool": "add", "arguments": {"a": {"$from": "a"}}, "after": ["a"], "optional": True},
        ],
    ]
    for steps in plans:
        turn = made.app.submit(session_id="s", steps=steps)
        made.worker.drain()
        assert turn.result("5s") == {"a": 3, "b": 5}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({}, "command", "a turn has either a command or steps"),
    ({"command": "pay", "steps": []}, "command", "a turn has either a command or steps"),
    ({"command": "nope"}, "command", "no recipe for command 'nope'; known: pay"),
    ({"command": "pay", "session_id": "a b"}, "session_id", "session_id: expected 1-200 characters"),
    ({"command": "pay", "session_id": ""}, "session_id", "session_id: expected 1-200 characters"),
    ({"command": "pay", "project_id": "a/b"}, "project_id", "project_id: expected"),
    ({"command": "pay", "user_id": "\x00"}, "user_id", "user_id: expected"),
    ({"command": "pay", "tenant_id": ""}, "tenant_id", "tenant_id: expected"),
    ({"command": "pay", "profile": "a b"}, "profile", "profile: expected"),
    ({"command": "pay", "on_busy": "wait"}, "on_busy", "on_busy is 'reject' or 'queue', not 'wait'"),
    ({"command": "pay", "idempotency_key": ""}, "idempotency_key", "idempotency_key: expected"),
    ({"steps": ["a"]}, "steps", "steps[0]: expected a Step or an object, got str"),
    ({"steps": [{"name": "a"}]}, "steps[0]", "steps[0] must have name (text), tool (text)"),
    ({"steps": [{"name": "a", "tool": "add", "argument": {}}]}, "steps[0]", "steps[0].argument is not known"),
    ({"steps": [{"name": "a", "tool": "add", "after": "b"}]}, "steps[0]", "steps[0].after must be a list"),
]


@pytest.mark.parametrize(("options", "field", "text"), WRONG, ids=lambda value: str(value)[:50])
def test_a_request_that_cannot_be_names_its_field(made: Made, options: Any, field: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        made.app.submit(1, **{"session_id": "s", **options})
    assert str(caught.value).startswith(text)
    assert caught.value.field == field
    with pytest.raises(NotFound):
        made.app.session("s")


def test_an_unknown_tool_among_given_steps(made: Made) -> None:
    with pytest.raises(NotFound, match="no tool 'nothing' is registered here"):
        made.app.submit(session_id="s", steps=[Step("a", "nothing")])


def test_an_input_must_be_json_and_small(made: Made) -> None:
    for value in (float("nan"), b"x", {1: 2}, dt.date(2026, 1, 1)):
        with pytest.raises(InvalidInput, match=r"^input: ") as caught:
            made.app.submit(value, session_id="s", command="pay")
        assert caught.value.field == "input"
    with pytest.raises(InputTooLarge):
        made.app.submit("x" * 1_000_001, session_id="s", command="pay")


def test_a_busy_session_rejects_or_queues(made: Made) -> None:
    first, approval = made.asked()
    with pytest.raises(SessionBusy, match=f"session 's' is busy with turn {first.id}") as caught:
        made.app.submit(1, session_id="s", command="pay")
    assert caught.value.turn_id == first.id
    second = made.app.submit(session_id="s", steps=[Step("a", made.tools.add, a=1)], on_busy="queue")
    assert second.status == "created"
    made.app.deny(approval.approval_id, by="anna")
    made.worker.drain()
    assert second.result("5s") == {"a": 3}
    with pytest.raises(TurnFailed, match=f"turn {first.id} failed: approval_denied: .*denied by anna") as failed:
        first.result("5s")
    assert failed.value.error_code == "approval_denied"


def test_the_key_of_a_turn_is_of_its_session(made: Made) -> None:
    first = made.app.submit({"a": 1, "b": 2}, session_id="s", command="pay", idempotency_key="k")
    again = made.app.submit({"b": 2, "a": 1}, session_id="s", command="pay", idempotency_key="k")
    other = made.app.submit({"a": 1, "b": 2}, session_id="t", command="pay", idempotency_key="k")
    assert (again.id, again.replayed, other.replayed) == (first.id, True, False)
    for change in ({"input": {"a": 1.0, "b": 2}}, {"project_id": "p"}, {"profile": "x"}):
        fields: dict[str, Any] = {"input": {"a": 1, "b": 2}, "session_id": "s", "command": "pay", **change}
        with pytest.raises(IdempotencyConflict):
            made.app.submit(**fields, idempotency_key="k")


# -- deciding ----------------------------------------------------------------------------------------------------------


def test_one_answer_wins_and_its_author_may_repeat_it(made: Made) -> None:
    _, approval = made.asked()
    first = made.app.approve(approval.approval_id, by="anna")
    assert made.app.approve(approval.approval_id, by="anna") == first
    others: list[Callable[[], Any]] = [
        lambda: made.app.deny(first.approval_id, by="anna"),
        lambda: made.app.approve(first.approval_id, by="boris"),
        lambda: made.app.approve(first.approval_id, by="anna", scope={"amount": {"max": 99}}),
    ]
    for again in others:
        with pytest.raises(AlreadyDecided, match="is approved already") as caught:
            again()
        assert caught.value.status == "approved"


def test_an_answer_after_the_time_is_too_late(made: Made) -> None:
    clock = Clock(made.app.program.database)
    turn, approval = made.asked()
    clock.advance("8d")
    with pytest.raises(ApprovalExpired, match=f"approval {approval.approval_id} expired at "):
        made.app.approve(approval.approval_id, by="anna")
    assert turn.status == "failed"


def test_a_scope_covers_the_next_calls_until_it_ends(made: Made) -> None:
    clock = Clock(made.app.program.database)
    turn, approval = made.asked()
    made.app.approve(approval.approval_id, by="anna", scope={"invoice": {"prefix": "A-"}}, expires="1h", uses=2)
    made.worker.drain()
    assert turn.status == "completed"
    second = made.app.submit(5, session_id="s", command="pay")
    made.worker.drain()
    assert second.status == "completed", "the second use"
    third, _ = made.asked()
    made.app.cancel(third.id)
    fourth, approval = made.asked()
    made.app.approve(approval.approval_id, by="anna", scope={}, expires="1h")
    made.worker.drain()
    clock.advance("61m")
    assert fourth.status == "completed"
    made.asked()


def test_a_scope_may_end_at_an_instant(made: Made) -> None:
    """The instant is stored as it was named, whatever the offset it was written in."""
    _, approval = made.asked()
    until = dt.datetime(2031, 1, 1, 10, 0, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    made.app.approve(approval.approval_id, by="anna", scope={}, expires=until.isoformat())
    (grant,) = made.app.program.database.read(lambda tx: approvals.grants(tx, "default"))
    assert grant.expires_at == until
    assert grant.expires_at.utcoffset() == dt.timedelta(0)
    made.worker.drain()
    assert made.calls[-1] == ("A-17", 5)


WRONG_ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"expires": "1h"}, "expires"),
    ({"uses": 3}, "uses"),
    ({"scope": {}, "uses": 0}, "uses"),
    ({"scope": {}, "uses": "3"}, "uses"),
    ({"scope": {}, "uses": True}, "uses"),
    ({"scope": {}, "expires": 60}, "expires"),
    ({"scope": {}, "expires": "60"}, "expires"),
    ({"scope": {"invoice": "B"}}, "scope"),
    ({"scope": {"amount": {"min": 6}}}, "scope"),
    ({"scope": {"amount": {"above": 1}}}, "scope"),
    ({"scope": {"amount": {"max": math.nan}}}, "scope"),
    ({"scope": {}, "expires": "2020-01-01T00:00:00Z"}, "expires"),
    ({"by": " "}, "by"),
    ({"by": "x\0"}, "by"),
    ({"by": "\udcff"}, "by"),
    ({"by": "x" * 201}, "by"),
    ({"by": 5}, "by"),
    ({"source": {"ip": 1}}, "source"),
    ({"reason": 5}, "reason"),
]
NAIVE: list[Any] = [
    "2031-01-01T10:00:00",
    "2031-01-01",
    dt.datetime(2031, 1, 1, 10, 0, tzinfo=dt.UTC).replace(tzinfo=None),
]


def test_an_answer_that_cannot_be_names_its_field_and_decides_nothing(made: Made) -> None:
    _, approval = made.asked()
    for options, field in WRONG_ANSWERS:
        with pytest.raises(InvalidInput) as caught:
            made.app.approve(approval.approval_id, **{"by": "anna", **options})
        assert caught.value.field == field, options
        assert made.app.pending() == [approval], options
    for expires in NAIVE:
        with pytest.raises(InvalidInput, match="expires: expected an instant with its offset from UTC"):
            made.app.approve(approval.approval_id, by="anna", scope={}, expires=expires)
        assert made.app.pending() == [approval]


# -- cancel, retry, not found ------------------------------------------------------------------------------------------


def test_what_the_edges_refuse_names_its_field_on_both_databases(made: Made) -> None:
    app = made.app
    job = made.tools.add.enqueue(a=1)
    made.asked()
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("by", lambda: app.cancel(job.id, by="x\0")),
        ("by", lambda: app.retry(job.id, by="\udcff")),
        ("settings", lambda: app.set_project("p", {"a": math.nan})),
        ("settings", lambda: app.set_project("p", [1])),  # type: ignore[arg-type]
        ("settings", lambda: app.set_project("p", {"a": "\udcff"})),
        ("source", lambda: app.put_artifact("a", "text")),  # type: ignore[arg-type]
        ("after", lambda: app.events("s", after="1")),  # type: ignore[arg-type]
        ("after", lambda: app.events("s", after=-1)),
        ("input", lambda: app.enqueue("add", {"a": deep})),
    ]
    for field, call in refused:
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.field in (field, "a"), field


def test_cancel_takes_a_turn_or_a_job(made: Made) -> None:
    turn, _ = made.asked()
    job = made.tools.add.enqueue(a=1)
    for cancelled in (turn.id, job.id.upper()):
        made.app.cancel(cancelled, by="anna")
        with pytest.raises(StateConflict, match="is cancelled already") as caught:
            made.app.cancel(cancelled)
        assert caught.value.state == "cancelled"
    assert (turn.status, job.status) == ("cancelled", "cancelled")
    assert made.app.pending() == []
    with pytest.raises(TurnCancelled, match=f"turn {turn.id} was cancelled"):
        turn.result("5s")


def test_retry_opens_a_failed_job_again(made: Made) -> None:
    job = made.tools.fail.enqueue(text="x")
    with pytest.raises(StateConflict, match="is queued; only a failed or cancelled one is opened again"):
        job.retry()
    made.worker.drain()
    again = made.app.retry(job.id)
    assert (again.id, again.row.status, again.row.attempt) == (job.id, "queued", 0)


UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize("unknown", [UNKNOWN, "nonsense", "", "7", "' OR 1=1", "\x00"], ids=ascii)
def test_an_id_that_is_nobodys_is_not_found(made: Made, unknown: str) -> None:
    """On PostgreSQL a text that is no UUID would end in an error of the database."""
    calls: list[Callable[[], Any]] = [
        lambda: made.app.job(unknown),
        lambda: made.app.turn(unknown),
        lambda: made.app.cancel(unknown),
        lambda: made.app.retry(unknown),
        lambda: made.app.approve(unknown, by="anna"),
        lambda: made.app.deny(unknown, by="anna"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match=r"^no (job|turn|approval|job or turn) "):
            call()
    assert made.app.artifacts(UNKNOWN) == []


def test_another_tenants_rows_are_not_found(made: Made) -> None:
    turn, approval = made.asked()
    calls: list[Callable[[], Any]] = [
        lambda: made.app.turn(turn.id, tenant_id="acme"),
        lambda: made.app.session("s", tenant_id="acme"),
        lambda: made.app.events("s", tenant_id="acme"),
        lambda: made.app.cancel(turn.id, tenant_id="acme"),
        lambda: made.app.approve(approval.approval_id, by="anna", tenant_id="acme"),
        lambda: made.app.retry(turn.jobs()[0].job_id, tenant_id="acme"),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()
    assert made.app.pending(tenant_id="acme") == []


# -- following ---------------------------------------------------------------------------------------------------------


def test_following_a_turn_ends_with_it(made: Made) -> None:
    turn = made.app.submit(session_id="s", steps=[Step("a", made.tools.add, a=1)])
    made.app.submit(session_id="t", steps=[Step("a", made.tools.add, a=1)])
    made.worker.drain()
    seen = list(turn.follow(timeout="5s"))
    assert seen == made.app.events("s")
    assert [seen[0].type, seen[-1].type] == ["turn_created", "turn_completed"]
    assert list(made.app.follow("s", after=3, timeout="0ms")) == seen[3:]
    assert list(made.app.follow("s", after=len(seen), timeout="0ms")) == []
    with pytest.raises(NotFound):
        next(made.app.follow("nobody", timeout="0ms"))


def test_a_cursor_beyond_the_log_starts_anew(made: Made) -> None:
    made.asked()
    events = made.app.events("s")
    assert list(made.app.follow("s", after=len(events) + 5, timeout="0ms")) == events


def test_waiting_for_a_turn_says_what_holds_it(made: Made) -> None:
    turn = made.app.submit(4, session_id="s", command="pay")
    with pytest.raises(
        WaitTimeout, match=f"turn {turn.id} is planning; tenure.plan: queued: no worker offers 'tenure.p"
    ):
        turn.wait("0ms")
    made.worker.drain()
    assert turn.wait("0ms", for_approval=True).row.status == "awaiting_approval"
    with pytest.raises(WaitTimeout, match=f"turn {turn.id} is awaiting_approval$"):
        turn.wait("0ms")
    assert repr(turn) == f"<Turn {turn.id} awaiting_approval>"


# -- recipes, projects, files ------------------------------------------------------------------------------------------


def test_a_recipe_is_asked_each_round_and_sees_the_outputs(made: Made, app: Tenure) -> None:
    @app.recipe("count")
    def count(turn: TurnView) -> Steps | Final:
        if turn.round == 3:
            return Final({"total": sum(turn.outputs.values()), "settings": dict(turn.settings)})
        return Steps(Step(f"round{turn.round}", made.tools.add, a=turn.round, b=turn.input))

    app.set_project("p", {"currency": "EUR"})
    app.set_project("p", {"currency": "USD"})
    turn = app.submit(10, session_id="s", command="count", project_id="p")
    made.worker.drain()
    assert turn.result("5s") == {"total": 11 + 12, "settings": {"currency": "USD"}}


def test_a_project_is_named(made: Made) -> None:
    with pytest.raises(InvalidInput, match="project_id: expected"):
        made.app.set_project("a b", {})


def test_files_are_stored_and_found(made: Made, tmp_path: Path) -> None:
    source = tmp_path / "in.bin"
    source.write_bytes(b"\x00\xff" * 10)
    for given in (b"\x00\xff" * 10, source, io.BytesIO(b"\x00\xff" * 10)):
        artifact = made.app.put_artifact("../in.bin", given, project_id="p", user_id="u")
        assert (artifact.name, artifact.bytes, artifact.project_id, artifact.user_id) == ("in.bin", 20, "p", "u")
        assert made.app.artifact_path(artifact).read_bytes() == source.read_bytes()


def test_what_a_turn_and_its_job_published(app: Tenure, made: Made) -> None:
    @app.tool()
    def write(ctx: ToolContext, text: str) -> str:
        return ctx.artifact("out.txt", text.encode(), "text/plain").artifact_id

    with app.worker(name="one", slots=2):
        turn = app.submit(session_id="s", steps=[Step("a", write, text="hello")])
        output = turn.result("20s")
    (artifact,) = app.artifacts(turn.id)
    assert artifact.artifact_id == output["a"]
    assert artifact == turn.artifacts()[0]
    assert app.artifacts(str(artifact.job_id)) == [artifact]
    assert app.artifact_path(artifact).read_text() == "hello"
