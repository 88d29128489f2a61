"""A process that asks for the same thing many times at once: `python -m tests.app.submitter URL VERB COUNT`.

Says `ready`, waits for a line, then prints what each of its threads got.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from tenure import Step, Tenure


def main(url: str, verb: str, count: int) -> None:
    app = Tenure(url)

    @app.tool()
    def add(a: int) -> int:
        return a

    together = Barrier(count)

    def ask(_: int) -> Any:
        together.wait()
        if verb == "submit":
            turn = app.submit({"a": 1}, session_id="s", steps=[Step("a", add, a=1)], idempotency_key="k")
            return turn.id, turn.replayed, str(turn.row.status)
        job = app.enqueue(add, {"a": 1}, idempotency_key="k")
        return job.id, job.replayed, str(job.row.status)

    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(count) as threads:
        answers = list(threads.map(ask, range(count)))
    print(json.dumps(answers), flush=True)
    app.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
