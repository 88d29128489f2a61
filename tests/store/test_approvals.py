"""Approval requests, decisions and grants as rows."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import approval_requests
from tenure.records import RowKey, SessionKey, Turn
from tenure.states import ApprovalStatus
from tenure.store import approvals
from tenure.store.approvals import NewApproval, NewGrant
from tests import factory
from tests.opened import Clock


@pytest.fixture
def turn(database: Database) -> Turn:
    return factory.turn(database, factory.session(database).key)


def key(of: Any) -> RowKey:
    return RowKey(of.tenant_id, of.approval_id)


def test_a_request_is_stored(database: Database, turn: Turn) -> None:
    items = [{"item_id": uuid7(), "arguments": {"b": 1.0, "a": 2}}]
    new = NewApproval("default", uuid7(), "s", turn.turn_id, items, ["a"], 60.0, "skip", "p", "why")
    database.write(lambda tx: approvals.insert(tx, new))
    found = database.read(lambda tx: approvals.get(tx, key(new)))
    assert found is not None
    assert (found.items, found.tools, found.on_expiry, found.project_id, found.reason) == (
        items,
        ["a"],
        "skip",
        "p",
        "why",
    )
    assert (found.status, found.decided_at) == ("pending", None)
    assert (found.expires_at - found.created_at).total_seconds() == pytest.approx(60.0, abs=0.002)


def settle(database: Database, which: RowKey, status: ApprovalStatus, by: str = "someone") -> bool:
    return database.write(
        lambda tx: approvals.settle(tx, which, status, by=by, source="api", reason="r", scope={"x": 1})
    )


SETTLED = [status for status in ApprovalStatus if status is not ApprovalStatus.PENDING]


@pytest.mark.parametrize("expires_in", [60.0, -0.05])
@pytest.mark.parametrize("status", SETTLED)
def test_a_decision_tests_the_expiry(database: Database, turn: Turn, status: ApprovalStatus, expires_in: float) -> None:
    """After the expiry nobody approves or denies; before it nothing expires; voiding asks neither."""
    approval = factory.approval(database, turn, expires_in=expires_in)
    other = factory.approval(database, turn, expires_in=expires_in)
    allowed = status == "voided" or (status == "expired") == (expires_in < 0)
    assert settle(database, key(approval), status) is allowed
    found = database.read(lambda tx: approvals.get(tx, key(approval)))
    assert found is not None
    assert (found == approval) is not allowed
    if allowed:
        assert (found.status, found.decided_by, found.decided_from) == (status, "someone", "api")
        assert (found.decided_reason, found.scope) == ("r", {"x": 1})
        assert found.decided_at is not None
    assert database.read(lambda tx: approvals.get(tx, key(other))) == other


@pytest.mark.parametrize("second", SETTLED)
@pytest.mark.parametrize("first", SETTLED)
def test_what_is_settled_stays(database: Database, turn: Turn, first: str, second: ApprovalStatus) -> None:
    approval = factory.approval(database, turn, status=first)
    assert settle(database, key(approval), second, by="someone else") is False
    assert database.read(lambda tx: approvals.get(tx, key(approval))) == approval


def test_a_request_expires_by_itself(clock: Clock) -> None:
    turn = factory.turn(clock.database, factory.session(clock.database).key)
    approval = factory.approval(clock.database, turn, expires_in=60.0)
    assert clock.database.read(lambda tx: approvals.expired(tx, 10)) == []
    clock.advance(60.0)
    assert clock.database.read(lambda tx: approvals.expired(tx, 10)) == [key(approval)]
    assert settle(clock.database, key(approval), ApprovalStatus.APPROVED) is False
    assert settle(clock.database, key(approval), ApprovalStatus.EXPIRED) is True
    assert clock.database.read(lambda tx: approvals.expired(tx, 10)) == []


def test_what_is_pending(database: Database, turn: Turn) -> None:
    other_turn = factory.turn(database, factory.session(database, "other").key)
    pending = [factory.approval(database, turn, expires_in=expires) for expires in (60.0, -60.0)]
    foreign = factory.approval(database, other_turn)
    decided = factory.approval(database, turn, status="denied")
    assert database.read(lambda tx: approvals.pending_of_turn(tx, turn.key)) == pending
    assert database.read(lambda tx: approvals.pending_of_session(tx, SessionKey("default", "s"))) == pending
    assert database.read(lambda tx: approvals.listed(tx, "default")) == [foreign, *pending[::-1]]
    assert database.read(lambda tx: approvals.listed(tx, "default", status="denied")) == [decided]
    assert database.read(lambda tx: approvals.listed(tx, "default", status=None, limit=2)) == [decided, foreign]
    assert database.read(lambda tx: approvals.listed(tx, "other")) == []
    assert len(factory.rows(database, approval_requests)) == 4


# -- grants ------------------------------------------------------------------------------------------------------------


def test_grants_are_stored(database: Database, turn: Turn) -> None:
    approval = factory.approval(database, turn, status="approved")
    new = [
        NewGrant("default", uuid7(), approval.approval_id, "a", "write", "u", digest="d", expires_in_s=60.0),
        NewGrant("default", uuid7(), approval.approval_id, "b", "read", "u", scope={"max": 1.0}, uses_left=None),
    ]
    database.write(lambda tx: approvals.insert_grants(tx, new))
    second, first = database.read(lambda tx: approvals.grants(tx, "default"))
    assert (first.digest, first.scope, first.uses_left, first.tool) == ("d", None, 1, "a")
    assert first.expires_at is not None
    assert (second.digest, second.scope, second.uses_left, second.expires_at) == (None, {"max": 1.0}, None, None)
    assert database.read(lambda tx: approvals.grants(tx, "default", limit=1)) == [second]


USABLE: dict[str, tuple[dict[str, Any], bool, bool]] = {
    # columns; whether it is live; whether it can be used for tool a, mode write, session s
    "plain": ({}, True, True),
    "until later": ({"expires_in": 60.0}, True, True),
    "expired": ({"expires_in": -0.05}, False, False),
    "revoked": ({"revoked_in": 0.0, "revoked_by": "x"}, False, False),
    "used up": ({"uses_left": 0}, True, False),
    "without end": ({"uses_left": None}, True, True),
    "of any session": ({"session_id": None}, True, True),
    "of another session": ({"session_id": "other"}, True, False),
    "of another tool": ({"tool": "b"}, True, False),
    "of another mode": ({"mode": "read"}, True, False),
}


@pytest.mark.parametrize("what", USABLE)
def test_which_grants_can_be_used(database: Database, turn: Turn, what: str) -> None:
    columns, live, usable = USABLE[what]
    approval = factory.approval(database, turn, status="approved")
    grant = factory.grant(database, approval, **columns)
    name = RowKey("default", grant.grant_id)
    assert database.write(lambda tx: approvals.lock_grant(tx, name)) == (grant, live)
    found = database.write(lambda tx: approvals.lock_usable(tx, "default", "s", "a", "write"))
    assert found == ([grant] if usable else [])
    assert database.write(lambda tx: approvals.lock_usable(tx, "other", "s", "a", "write")) == []
    assert database.write(lambda tx: approvals.lock_grant(tx, RowKey("other", grant.grant_id))) is None


def test_a_use_is_taken_once_and_given_back(database: Database, turn: Turn) -> None:
    approval = factory.approval(database, turn, status="approved")
    one, without_end = factory.grant(database, approval), factory.grant(database, approval, uses_left=None)

    def spend(grant: Any, uses: int = 1) -> bool:
        return database.write(lambda tx: approvals.spend(tx, RowKey("default", grant.grant_id), uses))

    assert [spend(one), spend(one), spend(one, -1), spend(one), spend(one)] == [True, False, True, True, False]
    assert [spend(without_end) for _ in range(3)] == [True] * 3
    assert {grant.uses_left for grant in database.read(lambda tx: approvals.grants(tx, "default"))} == {0, None}


def test_a_grant_is_revoked_once(database: Database, turn: Turn) -> None:
    grant = factory.grant(database, factory.approval(database, turn, status="approved"))
    name = RowKey("default", grant.grant_id)
    answers = [database.write(lambda tx, by=by: approvals.revoke(tx, name, by)) for by in ("u", "v")]  # type: ignore[misc]
    assert answers == [True, False]
    assert database.write(lambda tx: approvals.revoke(tx, RowKey("other", grant.grant_id), "u")) is False
    [found] = database.read(lambda tx: approvals.grants(tx, "default"))
    assert found.revoked_by == "u"
    assert found.revoked_at is not None
