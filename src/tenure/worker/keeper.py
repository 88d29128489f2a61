"""The keeper: renews every lease of the process from its own thread, on its own connection, waiting for no lock.

It stands outside every thread and loop that runs tools, names (job, token) pairs, and renews each until its settlement
is answered. What comes back unrenewed is read once without a lock: still mine is `unknown`, not mine is `lost`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial

from tenure.context import Hold, Stop, boottime
from tenure.db.engine import Database
from tenure.records import Held, Renewal
from tenure.store import holding

log = logging.getLogger("tenure.worker")
RETRY_S = 1.0
LONGEST_SLEEP_S = 1.0
UNRENEWED: frozenset[Stop | None] = frozenset({"lost", "away", "timeout"})

OnStop = Callable[[Hold, Stop], None]


class Keeper:
    """Holds of one owner. `on_stop` is called, from the keeper's thread, once for each hold that must stop."""

    def __init__(self, database: Database, owner: str, on_stop: OnStop) -> None:
        self.owner = owner
        self.changed = threading.Condition()
        self.last_tick = boottime()
        self._kept = database.keep()
        self._on_stop = on_stop
        self._holds: dict[Held, Hold] = {}
        self._woken = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    # -- the faces of a background thing -------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread; again is fine."""
        if self._thread is None:
            self._stopping = False
            self.last_tick = boottime()
            self._thread = threading.Thread(target=self._run, name="tenure-keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread; again is fine. Leases that are still held run out."""
        self._stopping = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        self._kept.close()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.wait(self._sleep_s())
            self._woken.clear()
            if not self._stopping:
                self.run_once()

    def _sleep_s(self) -> float:
        now = boottime()
        due = (hold.next_due for hold in self.holds() if hold.stop not in UNRENEWED)
        return max(0.0, min(min(due, default=now + LONGEST_SLEEP_S) - now, LONGEST_SLEEP_S))

    def run_once(self) -> None:
        """One tick: notices that the process was away, loses what is over, renews what is due."""
        now = boottime()
        gap, self.last_tick = now - self.last_tick, now
        for hold in self.holds():
            if gap > hold.lease_class.lease:
                self._end(hold, "away")
            elif hold.state() == "lost":
                self._end(hold, "lost")
        due = [hold for hold in self.holds() if hold.next_due <= now and hold.stop not in UNRENEWED]
        if due:
            self._renew(due)
            late = boottime() - now
            if late > min(hold.lease_class.margin for hold in due):
                tools = sorted({hold.lease.tool for hold in self.holds()})
                log.warning("keeper late by %.1f s", late, extra={"tools": tools})

    # -- what is held --------------------------------------------------------------------------------------------------

    def holds(self) -> list[Hold]:
        """Every hold, running or in settlement."""
        with self.changed:
            return list(self._holds.values())

    def add(self, holds: Iterable[Hold]) -> None:
        """Keeps these leases from now on."""
        with self.changed:
            self._holds.update((hold.lease.held, hold) for hold in holds)

    def remove(self, pairs: Iterable[Held]) -> None:
        """Their settlement was answered."""
        with self.changed:
            for pair in pairs:
                self._holds.pop(pair, None)

    def knows(self, pair: Held) -> bool:
        return pair in self._holds

    # -- renewing ------------------------------------------------------------------------------------------------------

    def _renew(self, due: list[Hold]) -> None:
        by_pair = {hold.lease.held: hold for hold in due}
        sent_at = boottime()
        within_s = max(0.0, min(min(hold.lease_class.margin, hold.deadline - sent_at) for hold in due))
        try:
            body = partial(holding.renew, owner=self.owner, pairs=by_pair)
            renewed = self._kept.single(body, urgent=True, within_s=within_s)
            self._confirm(by_pair, renewed, sent_at)
            missing = by_pair.keys() - {renewal.held for renewal in renewed}
            if missing:
                self._look(by_pair, missing, within_s)
        except Exception as error:  # noqa: BLE001  (whatever it was, nothing is known and the next try is soon)
            log.warning("heartbeat failed", extra={"error": type(error).__name__, "leases": len(due)})
            for hold in due:
                hold.fail_try(RETRY_S)

    def _look(self, by_pair: dict[Held, Hold], missing: Iterable[Held], within_s: float) -> None:
        """One read without a lock: a row that was locked is still mine, one that is gone is lost."""
        wanted = set(missing)
        body = partial(holding.still_held, owner=self.owner, pairs=wanted)
        still = {renewal.held for renewal in self._kept.single(body, urgent=True, within_s=within_s)}
        for pair in wanted:
            hold = by_pair[pair]
            if pair in still:
                hold.fail_try(min(RETRY_S, hold.lease_class.heartbeat))
            elif self.knows(pair):
                self._end(hold, "lost")

    def _confirm(self, by_pair: dict[Held, Hold], renewed: list[Renewal], sent_at: float) -> None:
        for renewal in renewed:
            hold = by_pair[renewal.held]
            asked_before = hold.cancel_requested
            hold.confirm(sent_at, renewal.remaining_s, renewal.cancel_requested)
            if renewal.cancel_requested and not asked_before:
                self._end(hold, "cancel")

    def _end(self, hold: Hold, why: Stop) -> None:
        if hold.end(why):
            level = logging.INFO if why == "cancel" else logging.WARNING
            log.log(level, "%s: %s", hold.lease.tool, why, extra=_facts(hold))
            self._on_stop(hold, why)


def _facts(hold: Hold) -> dict[str, object]:
    return {
        "job_id": hold.lease.job_id,
        "fencing_token": hold.lease.fencing_token,
        "last_confirmed_s_ago": round(boottime() - hold.confirmed_at, 3),
    }
