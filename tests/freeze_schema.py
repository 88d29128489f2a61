"""Writes the first migration from `tenure.db.schema`: `python tests/freeze_schema.py`, until the first release.

After a release the texts are frozen, and `tests/migrations` holds the migrated database against the tables.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateSequence, CreateTable

from tenure.db import migrations, schema


def initial(dialect: Dialect) -> str:
    """The SQL text that creates everything on an empty database."""
    is_sqlite = dialect.name == "sqlite"
    tables = list(schema.metadata.sorted_tables)
    ddl: list[sa.schema.ExecutableDDLElement] = []
    texts = [] if is_sqlite else ['CREATE SCHEMA IF NOT EXISTS "{schema}"']
    if is_sqlite:
        tables.append(schema.fencing_token_counter)
    else:
        ddl.append(CreateSequence(schema.fencing_token_sequence))
    for table in tables:
        ddl.append(CreateTable(table))
        ddl += [CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name))]
    prefix = "" if is_sqlite else '"{schema}".'
    texts += [str(element.compile(dialect=dialect)).replace(f"{schema.SCHEMA}.", prefix) for element in ddl]
    return "".join(_tidy(text) + ";\n\n" for text in texts)


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines()).replace("\t", "    ")


def main() -> None:
    folder = Path(migrations.__file__).parent
    for url in ("postgresql+psycopg://", "sqlite://"):
        dialect = sa.engine.make_url(url).get_dialect()()
        folder.joinpath(f"0001_initial.{dialect.name}.sql").write_text(initial(dialect), encoding="utf-8")


if __name__ == "__main__":
    main()
