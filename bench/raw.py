"""The raw reference: the leanest fenced lease queue on PostgreSQL, one claim and one completion a batch.

It has an owner, a fencing token, a lease and the predicate on completion, and nothing else of what Tenure keeps: no
tools, no ceilings, no journal, no renewal.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, LiteralString

import psycopg

SCHEMA: LiteralString = """
DROP TABLE IF EXISTS raw_jobs;
CREATE TABLE raw_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL DEFAULT 0,
    input json NOT NULL,
    output json,
    owner text,
    token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    claimed_at timestamptz,
    finished_at timestamptz
);
CREATE INDEX raw_jobs_claim ON raw_jobs (id) WHERE state = 0;
CREATE INDEX raw_jobs_running ON raw_jobs (owner) WHERE state = 1;
"""
CLAIM: LiteralString = """
WITH chosen AS (SELECT id FROM raw_jobs WHERE state = 0 ORDER BY id LIMIT %(count)s FOR UPDATE SKIP LOCKED)
UPDATE raw_jobs SET state = 1, owner = %(owner)s, token = token + 1, claimed_at = statement_timestamp(),
    lease_until = statement_timestamp() + interval '90 s'
WHERE id = ANY(ARRAY(SELECT id FROM chosen)) RETURNING id, token, input
"""
# `state + 0` keeps the planner from joining the few running rows to the batch in a nested loop.
COMPLETE: LiteralString = """
UPDATE raw_jobs j SET state = 2, output = d.output::json, lease_until = NULL, finished_at = statement_timestamp()
FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(outputs)s::text[]) AS d(id, token, output)
WHERE j.id = d.id AND j.state + 0 = 1 AND j.owner = %(owner)s AND j.token = d.token
    AND j.lease_until > statement_timestamp()
"""
FILL: LiteralString = "INSERT INTO raw_jobs (input) SELECT json_build_object('n', n) FROM generate_series(1, %s) AS n"
TAKEN: LiteralString = "SELECT extract(epoch FROM max(finished_at) - min(claimed_at)) FROM raw_jobs"


async def noop(n: int) -> int:
    return n


async def _perform(rows: list[tuple[int, int, dict[str, Any]]]) -> list[int]:
    return list(await asyncio.gather(*(asyncio.create_task(noop(**given)) for _, _, given in rows)))


def drain(url: str, jobs: int, batch: int) -> float:
    """Jobs per second from the first claim to the last completion, by the database's own stamps."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection, asyncio.Runner() as runner:
        connection.execute(SCHEMA, prepare=False)
        connection.execute(FILL, [jobs])
        connection.execute("ANALYZE raw_jobs")
        while rows := connection.execute(CLAIM, {"count": batch, "owner": "raw"}).fetchall():
            outputs = runner.run(_perform(rows))
            done = {
                "ids": [row[0] for row in rows],
                "tokens": [row[1] for row in rows],
                "outputs": [json.dumps(output) for output in outputs],
                "owner": "raw",
            }
            connection.execute(COMPLETE, done)
        row = connection.execute(TAKEN).fetchone()
    assert row is not None
    return jobs / float(row[0])
