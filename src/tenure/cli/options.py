"""Options that many commands share, spelled once."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

Database = Annotated[
    str | None,
    Option(
        "--database",
        metavar="URL",
        help="SQLite file or PostgreSQL: sqlite:///tenure.db, postgresql://user:password@host/name. "
        "Default: TENURE_DATABASE_URL, else sqlite:///tenure.db.",
    ),
]
Json = Annotated[bool, Option("--json", help="One JSON document on stdout, for programs.")]
Tenant = Annotated[str, Option("--tenant", metavar="TENANT", help="Whose rows.")]
Limit = Annotated[int, Option("--limit", metavar="N", min=1, max=10_000, help="At most so many, newest first.")]
AppName = Annotated[
    str, Argument(metavar="MODULE:APP", help="The app, such as app:app; the current folder is looked in first.")
]
By = Annotated[str, Option("--by", metavar="NAME", help="Who does it; it is recorded.")]
