"""The schema's history: one SQL text a step and database, never changed once released.

`{schema}` stands for the configured schema on PostgreSQL. A release expands; what it makes superfluous is dropped a
release later, when `oldest_program` rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Step:
    """One migration: the schema version that it leads to, and the oldest program that can live with it."""

    version: int
    name: str
    oldest_program: int

    def statements(self, dialect: str, schema: str | None) -> list[str]:
        """The step's SQL statements for "postgresql" or "sqlite"."""
        text = resources.files(__name__).joinpath(f"{self.version:04}_{self.name}.{dialect}.sql").read_text("utf-8")
        if schema is not None:
            text = text.replace("{schema}", schema.replace('"', '""'))
        return [statement.strip() for statement in text.split(";\n") if statement.strip()]


STEPS = (Step(version=1, name="initial", oldest_program=1),)
PROGRAM = STEPS[-1].version
