"""What the demo says at its end: who held what and when, what that proves, and where the files are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tenure.cli.demo_facts import Result
from tenure.cli.output import clock_time
from tenure.cli.ownership import Holding, spans
from tenure.cli.serving import described

if TYPE_CHECKING:
    from tenure import Tenure


def lease_line(demo: Tenure) -> str:
    """The lease class of the demo's tools, and the inequality that it fulfils."""
    specs = list(demo.program.tools.specs())
    lease = specs[0].lease
    names = ", ".join(spec.name for spec in specs if spec.lease == lease)
    numbers = f"{lease.lease:g} > ({lease.missed} + 1) × {lease.heartbeat:g} + {lease.margin:g} = {lease.least:g}"
    return f"{names}: {described(lease)} ({numbers})"


def closing(result: Result) -> Iterator[Any]:
    """The end of the story, part by part."""
    yield Text("\nWho held which job, under which token, when (UTC)", style="bold")
    yield _timeline(result.owners)
    yield from _proof(result)
    yield from _files(result)
    yield Text("\nLook further", style="bold")
    where = f'--database "{_url(result.database)}"'
    job = next((each for each in result.jobs if each.tool == "normalise"), None)
    if job is not None:
        yield Text(f"  tenure jobs {job.job_id} {where}")
    yield Text(f"  tenure events {result.turn.session_id} {where}")


def _timeline(owners: list[Holding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("token", "job", "owner", "from", "to", "how it ended", "stages saved"):
        table.add_column(name, justify="right" if name == "token" else "left", overflow="fold")
    for each in owners:
        lost = each.outcome == "lease_expired"
        table.add_row(
            Text(str(each.fencing_token)),
            Text(each.tool),
            Text(each.owner),
            Text(clock_time(each.claimed_at)),
            Text(clock_time(each.ended_at)),
            Text(each.outcome, style="bold red" if lost else ""),
            Text(spans(each.stages)),
        )
    return table


def _proof(result: Result) -> Iterator[Text]:
    killed, rows = result.killed, result.rows
    yield Text()
    if killed is not None:
        kept = [stage for stage in result.stages if stage.fencing_token == killed.fencing_token]
        done = [stage for stage in result.stages if stage.fencing_token != killed.fencing_token]
        twice = ", ".join(result.saved_twice) or "none"
        yield _line(
            "finished stages repeated",
            f"{twice} ({len(kept)} kept from token {killed.fencing_token}, {len(done)} done after the takeover)",
        )
    yield _line("events", f"{len(result.events)}, {'without a gap' if result.is_dense else 'WITH GAPS'}")
    if rows:
        sums = f"{rows['kept']:,} kept + {rows['merged']:,} merged + {rows['rejected']:,} rejected"
        yield _line("rows", f"{rows['in']:,} in = {sums}")
    error = f": {result.turn.error_text}" if result.turn.error_text else ""
    yield _line("turn", f"{result.turn.status}{error}")


def _files(result: Result) -> Iterator[Text]:
    if not result.files:
        yield Text("\nNothing was published", style="bold")
        return
    yield Text("\nFiles", style="bold")
    for file in result.files:
        yield Text(f"  {file['path']}  ({file['bytes']:,} bytes, sha256 {file['sha256'][:12]}…)")


def _line(name: str, text: str) -> Text:
    return Text.assemble((f"{name:<26}", "dim"), text)


def _url(database: str) -> str:
    return database if "://" in database else f"sqlite:///{database}"
