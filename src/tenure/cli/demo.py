"""`tenure demo`: the main job end to end, with a worker killed in the middle of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from tenure.cli.faults import Code, say
from tenure.cli.options import Database, Json


def demo(
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="A workbook: xlsx, xls, ods, csv. Default: a messy sample.")
    ] = None,
    database: Database = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Agree to publish, instead of being asked.")] = False,
    as_json: Json = False,
    out: Annotated[
        Path, Option("--out", metavar="DIR", help="Where results, logs and the default database go.")
    ] = Path("tenure-demo"),
) -> int:
    """Clean a workbook and report; a worker is killed in the middle, another takes over.

    The default database is DIR/tenure.db. Exit 0 when the turn completed, 1 when it did not.
    """
    from tenure.cli.demo_check import checked
    from tenure.cli.demo_run import run
    from tenure.cli.demo_view import view_of

    wanted = checked(file, database, out, yes=yes)
    try:
        return run(wanted, view_of(as_json=as_json, yes=yes))
    except KeyboardInterrupt:
        say("tenure: interrupted: the turn is cancelled, the workers have ended, no result was copied")
        return Code.INTERRUPTED
