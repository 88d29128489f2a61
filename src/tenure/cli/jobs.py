"""`tenure jobs`: units of work, and for one of them who owned it when; `jobs retry`, `jobs cancel`."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from tenure.cli.defaulted import Defaulted
from tenure.cli.options import By, Database, Json, Limit, Tenant
from tenure.cli.output import print_fields, print_json, print_table, record

if TYPE_CHECKING:
    from tenure.flow import Program
    from tenure.records import Job

app = Typer(cls=Defaulted, help="List jobs, show one with its ownership timeline, open one again, cancel one.")
JobId = Annotated[str, Argument(metavar="ID", help="The job.")]


@app.command("show")
def show(
    job_id: Annotated[str | None, Argument(metavar="[ID]", help="One job, with its ownership timeline.")] = None,
    status: Annotated[str | None, Option("--status", metavar="STATUS", help="In this status only.")] = None,
    tool: Annotated[str | None, Option("--tool", metavar="TOOL", help="Of this tool only.")] = None,
    limit: Limit = 50,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """List jobs, newest first, or show one: each attempt with owner, token, times, outcome, stages.

    The word `show` may be left out.
    """
    from tenure.cli.loading import opened

    with opened(database) as program:
        if job_id is not None:
            return _show(program, tenant, job_id, as_json)
        return _list(program, tenant, status, tool, limit, as_json)


def _list(program: Program, tenant: str, status: str | None, tool: str | None, limit: int, as_json: bool) -> int:
    from tenure.cli.checking import one_of
    from tenure.states import JobStatus
    from tenure.store import jobs
    from tenure.store.jobs import Filter

    wanted = Filter(tenant, status=one_of(status, JobStatus, "status"), tool=tool, limit=limit)
    found = program.database.read(lambda tx: jobs.listed(tx, wanted))
    offered = _offered(program)
    if as_json:
        print_json([record(job) for job in found])
        return 0
    columns = ("id", "tool", "status", "attempt", "token", "owner", "created", "state")
    rows = [
        (
            job.job_id,
            job.tool,
            job.status,
            f"{job.attempt}/{job.max_attempts}",
            job.fencing_token,
            job.lease_owner,
            job.created_at,
            _state(job, offered),
        )
        for job in found
    ]
    print_table(columns, rows, "no jobs")
    return 0


def _offered(program: Program) -> set[str]:
    """The tools that live workers offer."""
    from tenure.store import workers

    return {tool for worker in program.database.read(workers.present) for tool in worker.tools}


def _state(job: Job, offered: set[str]) -> str:
    """What there is to say beside the status: why nothing happens, or how it ended."""
    if job.status != "queued":
        return job.error_code or ""
    if job.blocked_by is not None:
        return f"waits for {job.blocked_by}"
    return "" if job.tool in offered else f"no worker offers {job.tool!r} (start: tenure worker module:app)"


def _show(program: Program, tenant: str, job_id: str, as_json: bool) -> int:
    from tenure.app.asking import row_key
    from tenure.cli.ownership import COLUMNS, as_row, holdings
    from tenure.errors import NotFound
    from tenure.store import artifacts, jobs, journal, stages

    key = row_key(tenant, job_id, "job")
    job = program.database.read(lambda tx: jobs.get(tx, key))
    if job is None:
        raise NotFound(f"no job {job_id!r}")
    parts: dict[str, list[Any]] = program.database.read(
        lambda tx: {
            "attempts": journal.of_job(tx, key),
            "stages": stages.of_job(tx, key),
            "artifacts": artifacts.of_job(tx, key),
        }
    )
    owned = holdings(job, parts["attempts"], parts["stages"])
    if as_json:
        listed = {name: [record(each) for each in rows] for name, rows in parts.items()}
        print_json({**record(job), "owners": [each.as_dict() for each in owned], **listed})
        return 0
    print_fields(record(job, ("tenant_id", "request_digest", "traceparent", "digest")))
    said = _state(job, _offered(program)) if job.status == "queued" else ""
    print(f"\nownership{f' ({said})' if said else ''}")
    print_table(COLUMNS, [as_row(each) for each in owned], "nobody has claimed it yet")
    return 0


@app.command("retry")
def retry(
    job_id: JobId, by: By = "", tenant: Tenant = "default", database: Database = None, as_json: Json = False
) -> int:
    """Open a failed or cancelled job again, under the same id: finished stages and effects are not repeated."""
    from tenure import flow

    return _moved(flow.reopen, job_id, by, tenant, database, as_json)


@app.command("cancel")
def cancel(
    job_id: JobId, by: By = "", tenant: Tenant = "default", database: Database = None, as_json: Json = False
) -> int:
    """End a queued job at once; ask a running one to end."""
    from tenure import flow

    return _moved(flow.cancel_job, job_id, by, tenant, database, as_json)


def _moved(verb: Any, job_id: str, by: str, tenant: str, database: str | None, as_json: bool) -> int:
    """Runs the verb alone: what follows needs the tools, so that the workers' maintenance does it within a second."""
    from tenure.app.asking import row_key
    from tenure.cli.loading import opened
    from tenure.store import jobs

    with opened(database) as program:
        key = row_key(tenant, job_id, "job")
        verb(program, key, by or user())
        job = program.database.read(lambda tx: jobs.get(tx, key))
        assert job is not None
        asked = job.status == "running" and job.cancel_requested_at is not None
        if as_json:
            print_json(record(job))
        else:
            print(f"job {job.job_id} is {job.status}{', asked to end' if asked else ''}")
    return 0


def user() -> str:
    """The name of whoever runs this, for the record."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"
