"""How fast bare no-op jobs are drained: Tenure and the raw reference in turn, in one run.

`python -m bench.drain [--jobs 20000] [--batch 100] [--rounds 3] [--json]`. Only the ratio within a run may be compared
with another's. The server is PostgreSQL with durable settings, started for the run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import psycopg

from bench import raw
from bench.server import durable_server
from tenure import Tenure

DEADLINE_S = 120.0
FILL = """
INSERT INTO tenure.background_jobs
    (tenant_id, job_id, tool, status, input, claim_at, max_attempts, max_runtime_s, created_at)
SELECT 'default', uuidv7(), 'noop', 'queued', json_build_object('n', n), statement_timestamp(), 3, 43200,
    statement_timestamp()
FROM generate_series(1, %s) AS n
"""
TAKEN = """
SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE attempt <> 1),
    extract(epoch FROM max(finished_at) - min(first_claimed_at))
FROM tenure.background_jobs
"""


def drain(url: str, jobs: int, batch: int) -> float:
    """Jobs per second of one embedded worker with `batch` slots, by the database's own stamps."""
    app = Tenure(url)

    @app.tool()
    async def noop(n: int) -> int:
        return n

    app.program.database  # noqa: B018  (the schema is made at first use)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE tenure.background_jobs CASCADE")
        connection.execute(FILL, [jobs])
        connection.execute("ANALYZE tenure.background_jobs")
        with app.worker(slots=batch):
            completed, repeated, seconds = _wait(connection, jobs)
    app.close()
    if completed != jobs or repeated:
        raise SystemExit(f"{completed} of {jobs} jobs completed, {repeated} of them run more than once")
    return jobs / seconds


def _wait(connection: psycopg.Connection[tuple[int, int, float]], jobs: int) -> tuple[int, int, float]:
    until = time.monotonic() + DEADLINE_S
    while True:
        time.sleep(0.25)
        row = connection.execute(TAKEN).fetchone()
        assert row is not None
        if row[0] == jobs or time.monotonic() > until:
            return row[0], row[1], float(row[2] or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    figures: dict[str, list[float]] = {"raw": [], "tenure": []}
    with durable_server() as url:
        for _ in range(asked.rounds):
            figures["raw"].append(raw.drain(url, asked.jobs, asked.batch))
            figures["tenure"].append(drain(url, asked.jobs, asked.batch))
    medians = {name: statistics.median(values) for name, values in figures.items()}
    ratio = medians["tenure"] / medians["raw"]
    if asked.json:
        json.dump({"jobs": asked.jobs, "batch": asked.batch, "jobs_per_s": figures, "ratio": ratio}, sys.stdout)
        return
    for name, values in figures.items():
        print(f"{name:8} median {medians[name]:10,.0f} jobs/s   ({', '.join(f'{value:,.0f}' for value in values)})")
    print(f"ratio    {ratio:.2f}   ({asked.jobs:,} no-op jobs, batch {asked.batch}, one process)")


if __name__ == "__main__":
    main()
