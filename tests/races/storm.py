"""One of several processes that work on one database: `python -m tests.races.storm URL SECONDS NAME`.

Three threads insert, claim and complete, and renew. Standard output gets one line of JSON: what was done, and every
error that reached a caller.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.records import Held, NewJob
from tenure.store import claims, endings, holding, jobs

BATCH = 5


class Storm:
    """What one process does, counted."""

    def __init__(self, url: str, seconds: float, name: str) -> None:
        self.database = Database(url)
        self.until = time.monotonic() + seconds
        self.owner = name
        self.inserted: list[str] = []
        self.claimed: list[tuple[str, int]] = []
        self.completed: list[str] = []
        self.renewed = 0
        self.slowest_renewal = 0.0
        self.errors: list[str] = []
        self.running: set[Held] = set()

    def run(self) -> None:
        threads = [threading.Thread(target=self._repeat, args=(act,)) for act in (self.insert, self.work, self.renew)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.database.dispose()

    def _repeat(self, act: Callable[[], None]) -> None:
        while time.monotonic() < self.until:
            try:
                act()
            except Exception as error:  # noqa: BLE001  (each one is told to the test)
                self.errors.append(f"{act.__name__}: {error!r}")

    def insert(self) -> None:
        new = [NewJob("default", uuid7(), "a", {}, 3, 60.0) for _ in range(2)]
        self.inserted += [key.id for key in self.database.write(lambda tx: jobs.insert(tx, new))]
        time.sleep(0.01)

    def work(self) -> None:
        leases = self.database.single(lambda tx: claims.claim(tx, self.owner, {"a": 30.0}, BATCH))
        self.claimed += [(lease.job_id, lease.fencing_token) for lease in leases]
        held = {lease.held for lease in leases}
        self.running |= held
        done = self.database.single(lambda tx: endings.complete_bare(tx, self.owner, dict.fromkeys(held, "1")))
        self.running -= held
        self.completed += [each.job_id for each in done]
        if not leases:
            time.sleep(0.005)

    def renew(self) -> None:
        began = time.monotonic()
        pairs = list(self.running)
        self.renewed += len(self.database.single(lambda tx: holding.renew(tx, self.owner, pairs), urgent=True))
        self.slowest_renewal = max(self.slowest_renewal, time.monotonic() - began)
        time.sleep(0.02)


if __name__ == "__main__":
    storm = Storm(sys.argv[1], float(sys.argv[2]), sys.argv[3])
    storm.run()
    names = ("inserted", "claimed", "completed", "renewed", "slowest_renewal", "errors")
    print(json.dumps({name: getattr(storm, name) for name in names}))
