"""`tenure submit`: make a request, and perhaps wait for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from tenure.cli.faults import Code, say
from tenure.cli.options import AppName, Database, Json, Tenant
from tenure.cli.output import print_fields, print_json, record

if TYPE_CHECKING:
    from tenure import Turn


def submit(
    app: AppName,
    command: Annotated[str, Argument(metavar="COMMAND", help="The recipe that plans the turn.")],
    session: Annotated[str, Option("--session", metavar="S", help="The session that the turn belongs to.")],
    project: Annotated[str | None, Option("--project", metavar="P", help="The project that it works in.")] = None,
    user: Annotated[str | None, Option("--user", metavar="U", help="On whose behalf.")] = None,
    input_: Annotated[str | None, Option("--input", metavar="JSON", help="The request itself, a JSON value.")] = None,
    key: Annotated[
        str | None, Option("--key", metavar="K", help="Idempotency key: the same one gives the same turn back.")
    ] = None,
    queue: Annotated[bool, Option("--queue", help="If the session is busy, run next instead of failing.")] = False,
    wait: Annotated[bool, Option("--wait", help="Wait for the end; exit 1 unless the turn completed.")] = False,
    timeout: Annotated[
        str | None, Option("--timeout", metavar="DURATION", help="Wait no longer than this, such as 90s or 10m.")
    ] = None,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """Submit a turn to an app."""
    from tenure.cli.checking import json_value
    from tenure.cli.loading import database_of, explaining, load_app

    value = json_value(input_, "input")
    busy: Literal["reject", "queue"] = "queue" if queue else "reject"
    loaded = load_app(app, database)
    try:
        with explaining(database_of(loaded.settings.database_url).name):
            turn = loaded.submit(
                value,
                session_id=session,
                command=command,
                project_id=project,
                user_id=user,
                tenant_id=tenant,
                idempotency_key=key,
                on_busy=busy,
            )
            return _waited(turn, timeout, as_json) if wait else _said(turn, as_json)
    finally:
        loaded.close()


def _said(turn: Turn, as_json: bool) -> int:
    if as_json:
        print_json({**record(turn.refresh().row), "replayed": turn.replayed})
    else:
        print(f"turn {turn.id} is {turn.status}{', submitted before' if turn.replayed else ''}")
    return Code.OK


def _waited(turn: Turn, timeout: str | None, as_json: bool) -> int:
    """Says once what it waits for when a person must agree, and goes on waiting."""
    turn.wait(timeout, for_approval=True)
    for approval in turn.pending():
        say(f"waits for a person: tenure approvals approve {approval.approval_id} --by NAME")
    row = turn.wait(timeout).row
    if as_json:
        print_json({**record(row), "replayed": turn.replayed})
    else:
        print_fields(record(row, ("tenant_id", "request_digest", "traceparent", "steps")))
    return Code.OK if row.status == "completed" else Code.FAILED
