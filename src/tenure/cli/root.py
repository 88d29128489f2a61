"""The tree of commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.main import get_command

from tenure.cli import approvals, demo, doctor, events, jobs, migrate, submit, turns, worker, workers

app = typer.Typer(
    name="tenure",
    help="A durable runtime for AI agents, in your own database.",
    add_completion=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from tenure import __version__

        print(f"tenure {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version and exit.")
    ] = False,
) -> None:
    """A durable runtime for AI agents, in your own database."""


app.command("demo")(demo.demo)
app.command("worker")(worker.worker)
app.command("submit")(submit.submit)
app.command("turns")(turns.turns)
app.add_typer(jobs.app, name="jobs")
app.add_typer(approvals.app, name="approvals")
app.command("events")(events.events)
app.command("workers")(workers.workers)
app.command("migrate")(migrate.migrate)
app.command("doctor")(doctor.doctor)


def command() -> Any:
    """The tree as the library's own command object."""
    return get_command(app)
