"""The hot statements stay cheap beside millions of rows that do not concern them.

PostgreSQL: measured in buffers, with a plan for the very parameters and with the generic one that a prepared statement
comes to have. SQLite: by the plan. Both run the statements that the verbs themselves send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from tenure.db.engine import Database
from tenure.db.tx import Tx
from tenure.records import Held, RowKey, SessionKey
from tenure.store import claims, endings, events, holding, jobs
from tests import factory
from tests import postgres as harness

TOOLS = "abcde"
OWNER = factory.OWNER
MILLION = 1_000_000
BIG = {"background_jobs", "agent_events"}
SESSION = SessionKey("default", "s")

LIVE = """
INSERT INTO {schema}background_jobs (tenant_id, job_id, tool, status, input, claim_at, max_attempts,
    max_runtime_s, created_at, attempt, lease_owner, fencing_token, lease_s, lease_expires_at, claimed_at,
    first_claimed_at)
SELECT 'default', {id}, {tool}, {status}, '{{}}', {now}, 3, 3600, {now}, {running}, {owner}, {token}, {lease},
    {expires}, {claimed}, {claimed} FROM {numbers}
"""
# What lies beside: finished ones of the same tool, queued ones of a tool that nobody has, urgent ones due tomorrow.
BALLAST = {
    "finished": ("'a'", "'completed'", "{now}", "{now}", 0),
    "unknown": ("'unknown'", "'queued'", "{now}", "NULL", 0),
    "tomorrow": ("'a'", "'queued'", "{tomorrow}", "NULL", 10),
}
BESIDE = """
INSERT INTO {schema}background_jobs (tenant_id, job_id, tool, status, input, claim_at, priority, max_attempts,
    max_runtime_s, created_at, finished_at)
SELECT 'default', {id}, {tool}, {status}, '{{}}', {claim_at}, {priority}, 3, 3600, {now}, {finished} FROM {numbers}
"""


# -- what is run -------------------------------------------------------------------------------------------------------


def claim(tools: str, count: int) -> Callable[[Tx, list[Held]], Any]:
    return lambda tx, held: claims.claim(tx, OWNER, dict.fromkeys(tools, 60.0), count)


VERBS: dict[str, tuple[int, Callable[[Tx, list[Held]], Any]]] = {
    # how many rows it moves or reads at most; the verb
    "rescue candidates": (100, lambda tx, held: endings.expired(tx, 100)),
    "ghosts": (200, lambda tx, held: claims.held_by(tx, OWNER)),
    "one job": (1, lambda tx, held: jobs.get(tx, RowKey(*held[0][:2]))),
    "a page of events": (100, lambda tx, held: events.page(tx, SESSION, 900, 100)),
    **{f"claim {count} of {tools}": (count, claim(tools, count)) for tools in ("a", TOOLS) for count in (1, 10, 100)},
    "renew 100": (100, lambda tx, held: holding.renew(tx, OWNER, held)),
    "report 100": (100, lambda tx, held: holding.report(tx, OWNER, {each: {} for each in held})),
    "begin 100": (100, lambda tx, held: holding.begin(tx, OWNER, held)),
    "guard 100": (100, lambda tx, held: holding.guard(tx, OWNER, held)),
    "complete 100": (100, lambda tx, held: endings.complete_bare(tx, OWNER, dict.fromkeys(held, "1"))),
    "complete 1": (1, lambda tx, held: endings.complete_bare(tx, OWNER, dict.fromkeys(held[:1], "1"))),
}


class Undo(Exception):
    """Ends a transaction whose statement was wanted, not its effect."""


def statement_of(database: Database, verb: Callable[[Tx, list[Held]], Any], held: list[Held]) -> tuple[str, Any]:
    """The last statement that the verb sends, with its parameters; what it does is undone."""
    seen: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, text: str, parameters: Any, *rest: Any) -> None:
        seen.append((text, parameters))

    def body(tx: Tx) -> None:
        verb(tx, held)
        raise Undo

    sa.event.listen(database.engine, "before_cursor_execute", note)
    with pytest.raises(Undo):
        database.write(body)
    sa.event.remove(database.engine, "before_cursor_execute", note)
    return seen[-1]


def running(database: Database) -> list[Held]:
    return sorted(database.read(lambda tx: claims.held_by(tx, OWNER)))[:100]


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


@contextmanager
def loaded(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection for loading; foreign keys are not looked up for each of a million rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        yield connection


def fill(connection: psycopg.Connection[Any]) -> None:
    """200 due jobs of each tool, 200 running ones, a session with some events."""
    common = {"schema": "tenure.", "now": "statement_timestamp()"}
    none = dict.fromkeys(("owner", "token", "lease", "expires", "claimed"), "NULL")
    queued = {**none, "running": "0", "status": "'queued'", "tool": "chr(97 + n % 5)", "numbers": _numbers(1000)}
    connection.execute(LIVE.format(id=_id("f"), **common, **queued).encode())
    later = "statement_timestamp() + interval '1 hour'"
    how = {"running": "1", "status": "'running'", "tool": "'a'", "numbers": _numbers(200), "claimed": common["now"]}
    lease = {"owner": f"'{OWNER}'", "token": "n", "lease": "60", "expires": later}
    connection.execute(LIVE.format(id=_id("e"), **common, **how, **lease).encode())
    connection.execute(
        b"INSERT INTO tenure.session_contexts (tenant_id, session_id, epoch, last_event_seq, created_at, updated_at)"
        b" VALUES ('default', 's', gen_random_uuid(), 1000, now(), now())"
    )
    add_events(connection, 1, 1000)
    connection.execute("VACUUM ANALYZE")


def add_events(connection: psycopg.Connection[Any], first: int, last: int) -> None:
    text = "SELECT 'default', 's', n, 'progress', '{}', statement_timestamp() FROM generate_series(%s::int, %s::int) n"
    columns = "(tenant_id, session_id, event_seq, type, payload, created_at)"
    connection.execute(f"INSERT INTO tenure.agent_events {columns} {text}".encode(), [first, last])


def add_millions(connection: psycopg.Connection[Any]) -> None:
    connection.execute("VACUUM tenure.background_jobs")  # of what the first measurement undid
    now, tomorrow = "statement_timestamp()", "statement_timestamp() + interval '1 day'"
    for mark, (tool, status, claim_at, finished, priority) in zip("123", BALLAST.values(), strict=True):
        how = {"tool": tool, "status": status, "priority": priority, "now": now, "id": _id(mark), "schema": "tenure."}
        times = {"claim_at": claim_at.format(now=now, tomorrow=tomorrow), "finished": finished.format(now=now)}
        connection.execute(BESIDE.format(numbers=_numbers(MILLION), **how, **times).encode())
    add_events(connection, 1001, MILLION)
    connection.execute("UPDATE tenure.session_contexts SET last_event_seq = %s", [MILLION])
    connection.execute("ANALYZE")


def _numbers(count: int) -> str:
    return f"generate_series(1, {count}) n"


def _id(mark: str) -> str:
    return f"CAST('{mark}' || lpad(to_hex(n), 31, '0') AS uuid)"


PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def explain(connection: psycopg.Connection[Any], text: str, parameters: dict[str, Any], *, generic: bool) -> Any:
    """The root of the executed plan; what it did is undone."""
    prefix = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)"
    with connection.transaction(force_rollback=True):
        if not generic:
            return connection.execute(f"{prefix} {text}".encode(), parameters).fetchone()[0][0]["Plan"]  # type: ignore[index]
        names = list(dict.fromkeys(PLACEHOLDER.findall(text)))
        kinds = ["float8" if isinstance(parameters[name], float) else "unknown" for name in names]
        numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", text).replace("%%", "%")
        connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        declared = f"({', '.join(kinds)})" if kinds else ""
        connection.execute(f"PREPARE hot {declared} AS {numbered}".encode())
        values = sql.SQL(", ").join(sql.Literal(parameters[name]) for name in names)
        given = sql.SQL("({})").format(values) if names else sql.SQL("")
        executed = sql.SQL("{} EXECUTE hot {}").format(sql.SQL(prefix), given)
        plan = connection.execute(executed).fetchone()[0][0]["Plan"]  # type: ignore[index]
        connection.execute("DEALLOCATE hot")
        return plan


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def buffers(plan: Any) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def measure(url: str, database: Database) -> tuple[dict[tuple[str, bool], int], list[str]]:
    """Buffers of each statement by (verb, whether the plan is generic), and complaints about plans."""
    found: dict[tuple[str, bool], int] = {}
    complaints = []
    held = running(database)
    with psycopg.connect(url) as connection:
        for name, (_, verb) in VERBS.items():
            text, parameters = statement_of(database, verb, held)
            for generic in (False, True):
                plan = explain(connection, text, parameters, generic=generic)
                found[name, generic] = buffers(plan)
                scanned = [
                    node["Relation Name"]
                    for node in nodes(plan)
                    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG
                ]
                complaints += [f"{name}, generic {generic}: Seq Scan on {each}" for each in scanned]
    return found, complaints


@pytest.mark.timeout(180)
def test_millions_of_other_rows_cost_nothing(databases: harness.Databases) -> None:
    url = databases.scratch(databases.template())
    database = Database(url)
    try:
        with loaded(url) as connection:
            fill(connection)
            lean, _ = measure(url, database)
            add_millions(connection)
            full, complaints = measure(url, database)
    finally:
        database.dispose()
        databases.drop(url)
    for (name, generic), number in full.items():
        rows = VERBS[name][0]
        what = f"{name}, generic {generic}: {number} buffers, {lean[name, generic]} without the millions"
        print(what)
        if number > 25 * rows + 100:
            complaints.append(f"{what}; at most 25 a row and 100")
        # An index of a thousand times as many rows is two pages deeper, at each look-up and insertion of a row.
        if number > 1.1 * lean[name, generic] + 6 * rows + 20:
            complaints.append(f"{what}; it grows with what does not concern it")
    assert complaints == []


# -- SQLite ------------------------------------------------------------------------------------------------------------

HUNDRED_THOUSAND = 100_000
EXPECTED = {
    "claim": "SEARCH background_jobs USING INDEX background_jobs_claim (tool=? AND claim_at<?)",
    "rescue": "background_jobs USING INDEX background_jobs_running",
    "ghosts": "SEARCH background_jobs USING INDEX background_jobs_running (lease_owner=?)",
    "a page": "SEARCH agent_events USING INDEX sqlite_autoindex_agent_events_1",
}
BY_KEY = "SEARCH background_jobs USING INDEX sqlite_autoindex_background_jobs_1 (tenant_id=? AND job_id=?)"


def fill_sqlite(database: Database) -> None:
    series = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s)"
    now, tomorrow = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 day')"
    session = factory.session(database)

    def body(tx: Tx) -> None:
        for mark, (tool, status, claim_at, finished, priority) in zip("123", BALLAST.values(), strict=True):
            how = {
                "tool": tool,
                "status": status,
                "priority": priority,
                "now": now,
                "schema": "",
                "id": f"'{mark}' || n",
            }
            times = {"claim_at": claim_at.format(now=now, tomorrow=tomorrow), "finished": finished.format(now=now)}
            tx.connection.exec_driver_sql(BESIDE.format(numbers=series.format(count=HUNDRED_THOUSAND), **how, **times))
        tx.connection.exec_driver_sql(
            "INSERT INTO agent_events (tenant_id, session_id, event_seq, type, payload, created_at) "
            f"SELECT 'default', 's', n, 'progress', '{{}}', {now} FROM {series.format(count=HUNDRED_THOUSAND)}"
        )
        tx.connection.exec_driver_sql(f"UPDATE session_contexts SET last_event_seq = {HUNDRED_THOUSAND}")

    database.write(body)
    assert session.key == SESSION
    for n in range(100):
        factory.job(database, status="running", tool=TOOLS[n % 5])
        factory.job(database, tool=TOOLS[n % 5])


@pytest.mark.parametrize("analyzed", [False, True])
def test_sqlite_searches_by_the_right_index(fresh_database: Callable[[str], str], analyzed: bool) -> None:
    database = Database(fresh_database("sqlite"))
    fill_sqlite(database)
    if analyzed:
        database.write(lambda tx: tx.connection.exec_driver_sql("ANALYZE"))
    held = running(database)
    for name, (_, verb) in VERBS.items():
        plan = sqlite_plan(database, name, verb, held)
        expected = next((text for start, text in EXPECTED.items() if name.startswith(start)), BY_KEY)
        assert [step for step in plan if expected in step], f"{name}: {plan}"
        whole = [
            step
            for step in plan
            if re.match(r"SCAN (background_jobs|agent_events)(?! USING INDEX background_jobs_r)", step)
        ]
        assert not whole, f"{name}: {plan}"
    database.dispose()


def sqlite_plan(database: Database, name: str, verb: Callable[[Tx, list[Held]], Any], held: list[Held]) -> list[str]:
    """The steps of the plan; of a claim, which is three statements there, those of the first."""
    if name.startswith("claim"):
        tools = tuple(name.rpartition(" ")[2])
        verb = lambda tx, held: tx.rows(claims._read_candidates(tools), {"count": 10})  # noqa: E731
    text, parameters = statement_of(database, verb, held)
    return database.read(
        lambda tx: [
            str(row[3]).replace(" main.", " ")
            for row in tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters)
        ]
    )
