"""`tenure approvals`: questions to a person, and the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from tenure.cli.defaulted import Defaulted
from tenure.cli.options import Database, Json, Limit, Tenant
from tenure.cli.output import print_json, print_table, record

if TYPE_CHECKING:
    from tenure.records import Approval

app = Typer(cls=Defaulted, help="List questions to a person, and answer them.")
ApprovalId = Annotated[str, Argument(metavar="ID", help="The approval.")]
Person = Annotated[str, Option("--by", metavar="NAME", help="Who decides; it is recorded.")]
Reason = Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; it is recorded.")]


@app.command("show")
def show(
    status: Annotated[
        str, Option("--status", metavar="STATUS", help="pending, approved, denied, expired, voided, or all.")
    ] = "pending",
    limit: Limit = 50,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """List approvals, newest first; pending ones unless told otherwise. The word `show` may be left out."""
    from tenure.cli.checking import one_of
    from tenure.cli.loading import opened
    from tenure.states import ApprovalStatus
    from tenure.store import approvals

    wanted = None if status == "all" else one_of(status, ApprovalStatus, "status")
    with opened(database) as program:
        found = program.database.read(lambda tx: approvals.listed(tx, tenant, status=wanted, limit=limit))
    if as_json:
        print_json([record(approval) for approval in found])
        return 0
    columns = ("id", "session", "status", "what is asked", "expires", "decided by")
    rows = [
        (each.approval_id, each.session_id, each.status, _asked(each), each.expires_at, each.decided_by)
        for each in found
    ]
    print_table(columns, rows, "no pending approvals" if wanted == "pending" else "no approvals")
    return 0


def _asked(approval: Approval) -> str:
    import json

    calls = [f"{item['tool']} {json.dumps(item['arguments'], ensure_ascii=False)}" for item in approval.items]
    return "; ".join(calls)


@app.command("approve")
def approve(
    approval_id: ApprovalId,
    by: Person,
    reason: Reason = None,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """Agree, once: the grant is bound to exactly these arguments."""
    return _decide(approval_id, True, by, reason, tenant, database, as_json)


@app.command("deny")
def deny(
    approval_id: ApprovalId,
    by: Person,
    reason: Reason = None,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """Refuse: by the tool's policy its step is skipped, or its turn fails."""
    return _decide(approval_id, False, by, reason, tenant, database, as_json)


def _decide(
    approval_id: str, agrees: bool, by: str, reason: str | None, tenant: str, database: str | None, as_json: bool
) -> int:
    """Decides alone: what follows needs the tools, so that the workers' maintenance does it within a second."""
    from tenure import flow
    from tenure.app.asking import row_key
    from tenure.cli.loading import opened

    with opened(database) as program:
        key = row_key(tenant, approval_id, "approval")
        decision = flow.Decision(
            approval_id=key.id, approve=agrees, by=by, tenant_id=tenant, source="cli", reason=reason
        )
        approval: Any = flow.decide(program, decision)
    if as_json:
        print_json(record(approval))
    else:
        print(f"approval {approval.approval_id} is {approval.status} by {approval.decided_by}")
    return 0
