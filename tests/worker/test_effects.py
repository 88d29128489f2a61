"""Effects: what is sent, what is remembered of it, and what a later attempt does. The receiver is a real server."""

from __future__ import annotations

import socket
import urllib.error
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure import AsyncToolContext, ToolContext
from tenure.context import Attempt, EffectCall
from tenure.errors import OwnershipLost, RetryableError, TerminalError
from tenure.leases import LeaseClass
from tenure.records import RowKey, Stage
from tenure.store import claims, endings, stages
from tests.worker.remembering import Receiver, post, receiving
from tests.worker.scene import SHORT, Kept, Scene, keep, until

ROOMY = LeaseClass(lease=30.0, heartbeat=5.0, missed=1, margin=1.0)
BODY = {"invoice": "A-17", "amount": 500}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def context_of(scene: Scene, kept: Kept) -> ToolContext:
    return ToolContext(Attempt(scene.app.program, kept.keeper.owner, kept.hold_of()))


def next_attempt(scene: Scene, kept: Kept, owner: str = "other:2") -> Kept:
    """The lease is over, and another worker claims the job."""
    lease = kept.hold_of().lease
    pairs = [lease.held]
    from tenure import flow

    flow.give_back(scene.app.program, kept.keeper.owner, pairs, "away")
    found = scene.database.single(lambda tx: claims.claim(tx, owner, {"a": 30.0}, 1))
    assert [each.job_id for each in found] == [lease.job_id]
    taken = Kept(scene.database, kept.keeper, [], [])
    from tenure.context import Hold, boottime

    taken.holds.append(Hold(found[0], ROOMY, boottime(), kept.keeper.changed))
    taken.keeper.owner = owner
    return taken


def the_stage(scene: Scene, kept: Kept) -> Stage:
    lease = kept.hold_of().lease
    (found,) = scene.database.read(lambda tx: stages.of_job(tx, RowKey(lease.tenant_id, lease.job_id)))
    return found


def send_to(receiver: Receiver, seen: list[EffectCall] | None = None) -> Callable[[EffectCall], Any]:
    def send(call: EffectCall) -> Any:
        if seen is not None:
            seen.append(call)
        call.external_id("ext-1")
        return post(receiver.url, call.headers, BODY)

    return send


# -- through a worker --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["thread", "async"])
def test_a_finished_effect_is_not_sent_again(scene: Scene, receiver: Receiver, isolation: str) -> None:
    @scene.app.tool(name="thread", **SHORT)
    def in_thread(ctx: ToolContext) -> Any:
        answer = ctx.effect("charge", send_to(receiver), request=BODY)
        if ctx.attempt == 1:
            raise RetryableError("after the effect", retry_after=0)
        return answer

    @scene.app.tool(name="async", **SHORT)
    async def on_loop(ctx: AsyncToolContext) -> Any:
        async def send(call: EffectCall) -> Any:
            return send_to(receiver)(call)

        answer = await ctx.effect("charge", send, request=BODY)
        if ctx.attempt == 1:
            raise RetryableError("after the effect", retry_after=0)
        return answer

    with scene.app.worker():
        job = scene.app.enqueue(isolation, {})
        assert job.result("20s") == {"number": 1}
    assert receiver.keys() == [f'"tenure:{job.id}:charge"']
    assert receiver.requests[0]["body"] == BODY
    (stage,) = scene.stages(job)
    assert (stage.kind, stage.state, stage.external_id, stage.answer) == ("effect", "done", "ext-1", {"number": 1})
    assert scene.row(job).attempt == 2


def test_the_wire(scene: Scene, receiver: Receiver) -> None:
    kept, seen = keep(scene.database, 1, ROOMY), list[EffectCall]()
    lease = kept.hold_of().lease
    context_of(scene, kept).effect("charge", send_to(receiver, seen), request=BODY, part="7")
    headers, fields = receiver.requests[0]["headers"], seen[0].fields
    resource = headers["execution-fence-resource"]
    assert headers["idempotency-key"] == f'"tenure:{lease.job_id}:charge#7"'
    assert headers["execution-fence"] == headers["x-execution-fence"] == str(lease.fencing_token)
    assert resource.endswith(f"/job/{lease.job_id}")
    assert len(resource.partition("/")[0]) >= 32  # the database's own id
    assert fields == {
        "idempotency_key": f"tenure:{lease.job_id}:charge#7",
        "execution_fence": lease.fencing_token,
        "execution_fence_resource": resource,
        "operation": "charge",
    }


def test_key_and_resource_of_ones_own(scene: Scene, receiver: Receiver) -> None:
    kept = keep(scene.database, 1, ROOMY)
    context = context_of(scene, kept)
    context.effect("charge", send_to(receiver), key="payment:A-17:capture", resource="account/9")
    assert receiver.keys() == ['"payment:A-17:capture"']
    assert receiver.requests[0]["headers"]["execution-fence-resource"].endswith("/account/9")


# -- what became of it -------------------------------------------------------------------------------------------------

Reply = tuple[int, dict[str, str], bytes]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ((200, {}, b'{"a": [1.0, 12345678901234567890]}'), {"a": [1.0, 12345678901234567890]}),
        ((201, {}, b""), None),
        ((202, {}, b"thank you"), "thank you"),
    ],
)
def test_a_2xx_is_done_and_stored(scene: Scene, receiver: Receiver, reply: Reply, answer: Any) -> None:
    receiver.replies.append(reply)
    kept = keep(scene.database, 1, ROOMY)
    assert context_of(scene, kept).effect("charge", send_to(receiver)) == answer
    stage = the_stage(scene, kept)
    assert (stage.state, stage.answer) == ("done", answer)
    taken = next_attempt(scene, kept)
    assert context_of(scene, taken).effect("charge", send_to(receiver)) == answer
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("reply", "state", "raised"),
    [
        ((400, {}, b'{"code": "bad"}'), "not_done", TerminalError),
        ((404, {}, b""), "not_done", TerminalError),
        ((429, {"Retry-After": "3"}, b""), "not_done", RetryableError),
        ((408, {}, b""), "unknown", TerminalError),
        ((409, {}, b'{"code": "outcome_unknown"}'), "unknown", TerminalError),
        ((500, {}, b"oops"), "unknown", TerminalError),
        ((302, {}, b""), "unknown", TerminalError),
    ],
)
def test_what_other_answers_mean(
    scene: Scene, receiver: Receiver, reply: Reply, state: str, raised: type[Exception]
) -> None:
    receiver.replies.append(reply)
    kept = keep(scene.database, 1, ROOMY)
    with pytest.raises(raised) as told:
        context_of(scene, kept).effect("charge", send_to(receiver), repeat="never")
    assert the_stage(scene, kept).state == state
    if state == "unknown":
        assert getattr(told.value, "code", "") == "outcome_unknown"
    # The next attempt sends after `not_done`, and never after `unknown`.
    taken = next_attempt(scene, kept)
    if state == "not_done":
        assert context_of(scene, taken).effect("charge", send_to(receiver)) == {"number": 2}
    else:
        with pytest.raises(TerminalError, match="outcome is unknown"):
            context_of(scene, taken).effect("charge", send_to(receiver))
        assert len(receiver.requests) == 1


def refused_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


def raise_not_done(call: EffectCall) -> Any:
    raise call.not_done("they said no")


@pytest.mark.parametrize(
    "send",
    [
        lambda call: post(refused_port(), call.headers),
        raise_not_done,
        lambda call: call.not_done("they said no"),
        lambda call: (_ for _ in ()).throw(urllib.error.URLError(ConnectionRefusedError(111, "refused"))),
    ],
    ids=["refused", "raised", "returned", "wrapped"],
)
def test_known_not_to_have_happened(scene: Scene, receiver: Receiver, send: Callable[[EffectCall], Any]) -> None:
    kept = keep(scene.database, 1, ROOMY)
    with pytest.raises(RetryableError):
        context_of(scene, kept).effect("charge", send)
    assert the_stage(scene, kept).state == "not_done"
    taken = next_attempt(scene, kept)
    assert context_of(scene, taken).effect("charge", send_to(receiver)) == {"number": 1}


def test_an_answer_that_cannot_be_stored_is_unknown(scene: Scene) -> None:
    kept = keep(scene.database, 1, ROOMY)
    with pytest.raises(TerminalError):
        context_of(scene, kept).effect("charge", lambda call: object())
    assert the_stage(scene, kept).state == "unknown"


def test_another_request_under_the_same_name_is_refused(scene: Scene, receiver: Receiver) -> None:
    kept = keep(scene.database, 1, ROOMY)
    context_of(scene, kept).effect("charge", send_to(receiver), request={"amount": 500})
    taken = next_attempt(scene, kept)
    with pytest.raises(TerminalError) as told:
        context_of(scene, taken).effect("charge", send_to(receiver), request={"amount": 500.0})
    assert told.value.code == "effect_changed"
    assert len(receiver.requests) == 1


def test_a_name_is_entered_once_an_attempt(scene: Scene, receiver: Receiver) -> None:
    context = context_of(scene, keep(scene.database, 1, ROOMY))
    context.effect("charge", send_to(receiver))
    with pytest.raises(TerminalError) as told:
        context.effect("charge", send_to(receiver))
    assert told.value.code == "entered_twice"
    assert len(receiver.requests) == 1


# -- a crash between started and done ----------------------------------------------------------------------------------


class Crash(BaseException):
    """The process died right after the request had left."""


def crashed(scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Kept:
    """An attempt that entered its effect, sent it, and was never heard of again; then the next one's lease."""
    kept = keep(scene.database, 1, ROOMY)
    with monkeypatch.context() as patch:

        def dies(*_: Any) -> None:
            raise Crash

        patch.setattr("tenure.flow.effects.finish", dies)
        with pytest.raises(Crash):
            context_of(scene, kept).effect("charge", send_to(receiver), request=BODY, **options)
    assert the_stage(scene, kept).state == "started"
    assert len(receiver.requests) == 1
    return next_attempt(scene, kept)


def test_after_a_crash_never_ends_the_job(scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = crashed(scene, receiver, monkeypatch)
    with pytest.raises(TerminalError) as told:
        context_of(scene, taken).effect("charge", send_to(receiver), request=BODY)
    assert told.value.code == "outcome_unknown"
    assert len(receiver.requests) == 1


def test_after_a_crash_safe_sends_again_under_the_same_key(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = crashed(scene, receiver, monkeypatch, repeat="safe")
    assert context_of(scene, taken).effect("charge", send_to(receiver), request=BODY, repeat="safe") == {"number": 2}
    first, second = receiver.keys()
    assert first == second
    assert receiver.fences()[0] < receiver.fences()[1]
    assert (the_stage(scene, taken).state, the_stage(scene, taken).fencing_token) == ("done", receiver.fences()[1])


@pytest.mark.parametrize("found", ["done", "not_done", "unknown"])
def test_after_a_crash_a_reconcile_function_looks(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    def look(call: EffectCall) -> Any:
        scene.notes.write(call.key)
        return {"done": {"looked": 1}, "not_done": call.not_done("nothing there"), "unknown": None}[found]

    taken = crashed(scene, receiver, monkeypatch, repeat=look)
    context = context_of(scene, taken)
    if found == "unknown":
        with pytest.raises(TerminalError) as told:
            context.effect("charge", send_to(receiver), request=BODY, repeat=look)
        assert told.value.code == "outcome_unknown"
    else:
        answer = context.effect("charge", send_to(receiver), request=BODY, repeat=look)
        assert answer == ({"looked": 1} if found == "done" else {"number": 2})
    state = {"done": "done", "not_done": "done", "unknown": "unknown"}[found]
    assert the_stage(scene, taken).state == state
    assert len(receiver.requests) == (2 if found == "not_done" else 1)
    assert scene.notes.lines() == [f"tenure:{taken.hold_of().lease.job_id}:charge"]


def test_who_lost_the_job_while_sending_records_nothing(scene: Scene, receiver: Receiver) -> None:
    kept = keep(scene.database, 1, ROOMY)
    lease = kept.hold_of().lease

    def send(call: EffectCall) -> Any:
        answer = post(receiver.url, call.headers, BODY)
        scene.database.write(lambda tx: endings.quarantine(tx, RowKey(lease.tenant_id, lease.job_id)))
        return answer

    with pytest.raises(OwnershipLost):
        context_of(scene, kept).effect("charge", send, request=BODY)
    assert the_stage(scene, kept).state == "started"


def test_the_job_of_an_unknown_effect_ends_and_stays_so(scene: Scene, receiver: Receiver) -> None:
    receiver.replies.append((500, {}, b""))

    @scene.app.tool(max_attempts=5, **SHORT)
    def charge(ctx: ToolContext) -> Any:
        return ctx.effect("charge", send_to(receiver), request=BODY)

    with scene.app.worker():
        job = charge.enqueue()
        row = scene.wait_status(job, "failed")
        assert (row.error_code, row.error_kind, row.attempt) == ("outcome_unknown", "terminal", 1)
        until(lambda: True, "")
    assert len(receiver.requests) == 1
