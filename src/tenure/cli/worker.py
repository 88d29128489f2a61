"""`tenure worker`: a parent of its working process, which it replaces when it crashes or asks for it."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from tenure.cli.options import AppName, Database, Json

Named = list[str] | None


def worker(
    app: AppName,
    concurrency: Annotated[
        int, Option("--concurrency", metavar="N", min=1, max=10_000, help="Attempts at a time.")
    ] = 10,
    only: Annotated[Named, Option("--only", metavar="TOOL", help="Offer this tool; may be repeated.")] = None,
    except_: Annotated[Named, Option("--except", metavar="TOOL", help="Leave this tool out; may be repeated.")] = None,
    name: Annotated[str, Option("--name", metavar="NAME", help="What the owner of a lease is called.")] = "worker",
    grace: Annotated[
        str, Option("--grace", metavar="DURATION", help="How long running tools may go on after SIGTERM.")
    ] = "30s",
    dev: Annotated[
        bool, Option("--dev", help="Short leases, and a new process when a file of the app changes.")
    ] = False,
    alone: Annotated[
        bool, Option("--alone", help="Work in this very process, without a parent; for supervisors of your own.")
    ] = False,
    database: Database = None,
    as_json: Json = False,
) -> int:
    """Run an app's tools until SIGTERM or SIGINT; a second signal ends it at once.

    It exits with 0 after a drain; --alone also with 75 when too many of its threads never returned.
    """
    from tenure.canon import duration

    grace_s = duration(grace, "--grace")
    if alone:
        from tenure.cli.serving import Wanted, serve

        wanted = Wanted(app, concurrency, only, tuple(except_ or ()), name, grace_s, dev, database, as_json)
        return serve(wanted)
    from tenure.cli.supervise import Supervisor

    options = ["--concurrency", str(concurrency), "--name", name, "--grace", grace]
    options += [part for tool in only or () for part in ("--only", tool)]
    options += [part for tool in except_ or () for part in ("--except", tool)]
    options += ["--database", database] if database is not None else []
    options += ["--dev"] if dev else []
    options += ["--json"] if as_json else []
    return Supervisor([app, *options]).run()
