"""`tenure turns [ID]`: requests, and one of them with its steps and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tenure.cli.options import Database, Json, Limit, Tenant
from tenure.cli.output import print_fields, print_json, print_table, record

if TYPE_CHECKING:
    from tenure.flow import Program


def turns(
    turn_id: Annotated[str | None, Argument(metavar="[ID]", help="One turn, with its steps and jobs.")] = None,
    session: Annotated[str | None, Option("--session", metavar="S", help="Of this session only.")] = None,
    status: Annotated[str | None, Option("--status", metavar="STATUS", help="In this status only.")] = None,
    limit: Limit = 50,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """List turns, newest first, or show one."""
    from tenure.cli.loading import opened

    with opened(database) as program:
        if turn_id is not None:
            return _show(program, tenant, turn_id, as_json)
        return _list(program, tenant, session, status, limit, as_json)


def _list(program: Program, tenant: str, session: str | None, status: str | None, limit: int, as_json: bool) -> int:
    from tenure.cli.checking import one_of
    from tenure.states import TurnStatus
    from tenure.store import turns as stored

    status = one_of(status, TurnStatus, "status")
    found = program.database.read(lambda tx: stored.listed(tx, tenant, session_id=session, status=status, limit=limit))
    if as_json:
        print_json([record(turn) for turn in found])
        return 0
    columns = ("id", "session", "status", "round", "command", "created", "finished", "error")
    rows = [
        (
            turn.turn_id,
            turn.session_id,
            turn.status,
            turn.round,
            turn.command,
            turn.created_at,
            turn.finished_at,
            turn.error_code,
        )
        for turn in found
    ]
    print_table(columns, rows, "no turns")
    return 0


def _show(program: Program, tenant: str, turn_id: str, as_json: bool) -> int:
    from tenure.app.asking import row_key
    from tenure.errors import NotFound
    from tenure.store import approvals, artifacts, jobs, plans
    from tenure.store import turns as stored

    key = row_key(tenant, turn_id, "turn")
    turn = program.database.read(lambda tx: stored.get(tx, key))
    if turn is None:
        raise NotFound(f"no turn {turn_id!r}")
    parts: dict[str, list[Any]] = program.database.read(
        lambda tx: {
            "items": plans.of_turn(tx, key),
            "jobs": jobs.of_turn(tx, key),
            "pending_approvals": approvals.pending_of_turn(tx, key),
            "artifacts": artifacts.of_turn(tx, key),
        }
    )
    if as_json:
        print_json({**record(turn), **{name: [record(each) for each in rows] for name, rows in parts.items()}})
        return 0
    print_fields(record(turn, ("tenant_id", "request_digest", "traceparent", "steps")))
    print()
    items = [(item.name, item.tool, item.status, item.job_id, item.error_code) for item in parts["items"]]
    print_table(("step", "tool", "status", "job", "error"), items, "no steps yet")
    for approval in parts["pending_approvals"]:
        print(f"\nwaits for a person: tenure approvals approve {approval.approval_id} --by NAME")
    if parts["artifacts"]:
        print()
        files = [(each.name, each.bytes, each.sha256[:16], each.artifact_id) for each in parts["artifacts"]]
        print_table(("file", "bytes", "sha256", "id"), files, "")
    return 0
