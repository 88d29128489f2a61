"""`tenure workers`: who is there, and how busy."""

from __future__ import annotations

from tenure.cli.options import Database, Json
from tenure.cli.output import print_json, print_table, record


def workers(database: Database = None, as_json: Json = False) -> int:
    """List the workers that said within the last minute that they are here."""
    from tenure.cli.loading import opened
    from tenure.store import workers as presence

    with opened(database) as program:
        found = program.database.read(presence.present)
    if as_json:
        print_json([record(worker) for worker in found])
        return 0
    columns = ("owner", "status", "host", "pid", "busy", "stuck", "started", "last beat", "tools")
    rows = [
        (
            each.owner,
            each.status,
            each.host,
            each.pid,
            f"{each.busy}/{each.slots}",
            each.stuck_threads,
            each.started_at,
            each.beat_at,
            ", ".join(each.tools),
        )
        for each in found
    ]
    print_table(columns, rows, "no workers (start one: tenure worker module:app)")
    return 0
