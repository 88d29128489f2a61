"""`tenure events SESSION`: what happened, in order, once or as it happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tenure.cli.options import Database, Json, Tenant
from tenure.cli.output import clock_time, print_json, print_json_line, record, shown

if TYPE_CHECKING:
    from tenure.flow import Program
    from tenure.records import Event, EventPage, SessionKey


def events(
    session: Annotated[str, Argument(metavar="SESSION", help="The session.")],
    after: Annotated[int, Option("--after", metavar="N", min=0, help="Only events after this number.")] = 0,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on as events come, until interrupted.")] = False,
    tenant: Tenant = "default",
    database: Database = None,
    as_json: Json = False,
) -> int:
    """Print a session's events. With --follow and --json: one JSON object a line."""
    from tenure.canon import name
    from tenure.cli.loading import opened
    from tenure.records import SessionKey

    with opened(database) as program:
        key = SessionKey(tenant, name(session, "session"))
        if follow:
            return _follow(program, key, after, as_json)
        found = list(_until_now(program, key, after))
        if as_json:
            print_json([record(event) for event in found])
        else:
            _print(found)
            if not found:
                print(f"no events after {after}")
    return 0


def _until_now(program: Program, key: SessionKey, after: int) -> Iterator[Event]:
    """What the log has after the cursor, page by page; a cursor before what is kept begins with the oldest."""
    while True:
        page = _page(program, key, after)
        if page.reset and after < page.oldest:
            page = _page(program, key, page.oldest - 1)
        if not page.events:
            return
        yield from page.events
        after = page.events[-1].event_seq


def _page(program: Program, key: SessionKey, after: int) -> EventPage:
    from tenure.store import events as log

    return program.database.read(lambda tx: log.page(tx, key, after))


def _follow(program: Program, key: SessionKey, after: int, as_json: bool) -> int:
    from tenure.app.handles import follow

    for event in follow(program, key, after, None):
        if as_json:
            print_json_line(record(event))
        else:
            _print([event])
    return 0


def _print(found: list[Event]) -> None:
    for event in found:
        print(f"{event.event_seq:>5}  {clock_time(event.created_at)}  {event.type:<22} {_said(event)}", flush=True)


def _said(event: Event) -> str:
    token = "" if event.fencing_token is None else f"token {event.fencing_token}"
    facts = [f"{name}={_short(value)}" for name, value in event.payload.items()]
    return "  ".join(part for part in (token, *facts) if part)


def _short(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
