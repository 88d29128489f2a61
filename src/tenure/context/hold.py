"""What a process knows of its own lease: owned, unknown or lost, on a clock that runs while the machine sleeps.

`lost`: no row under the predicate, the local deadline has passed, or the attempt's time is over; final. `unknown`: not
lost, and a renewal sent after the last confirmed one failed or is overdue, or less than the margin is left. `owned`:
neither.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any, Literal

from tenure.leases import LeaseClass
from tenure.records import Lease

State = Literal["owned", "unknown", "lost"]
Stop = Literal["cancel", "timeout", "lost", "away", "shutdown"]
OVER: frozenset[Stop | None] = frozenset({"timeout", "lost", "away", "shutdown"})

if sys.platform == "linux":

    def boottime() -> float:
        """Seconds on a clock that runs during sleep."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def boottime() -> float:
        """Seconds on a clock that runs during sleep: on macOS and Windows the monotonic one does."""
        return time.monotonic()


class Hold:
    """One lease in this process. The keeper confirms or loses it; the tool asks for its state.

    `changed` is shared by all holds of a process, for most attempts end without anybody waiting on it.
    """

    __slots__ = (
        "cancel_requested",
        "changed",
        "confirmed_at",
        "deadline",
        "failed_try",
        "lease",
        "lease_class",
        "next_due",
        "progress",
        "progressed_at",
        "released",
        "started_at",
        "stop",
    )

    def __init__(self, lease: Lease, lease_class: LeaseClass, sent_at: float, changed: threading.Condition) -> None:
        self.lease = lease
        self.lease_class = lease_class
        self.changed = changed
        self.cancel_requested = False
        self.released = False
        self.failed_try = False
        self.stop: Stop | None = None
        self.progress: Any = None
        self.started_at = self.progressed_at = self.confirmed_at = sent_at
        self.deadline = sent_at + lease.remaining_s
        self.next_due = sent_at + lease_class.heartbeat

    def await_start(self) -> None:
        """The attempt waits for a loop that is busy: none of its time counts before it begins."""
        self.started_at = self.progressed_at = math.inf

    def start(self) -> None:
        """The function begins now."""
        self.started_at = self.progressed_at = boottime()

    def state(self) -> State:
        """The state now."""
        now = boottime()
        if self.stop in OVER or self.released or now >= self.deadline:
            return "lost"
        overdue = now > self.next_due + self.lease_class.margin
        if self.failed_try or overdue or self.deadline - now < self.lease_class.margin:
            return "unknown"
        return "owned"

    def confirm(self, sent_at: float, remaining_s: float, cancel_requested: bool) -> None:
        """A renewal that was sent at `sent_at` came back. One that comes after the loss changes nothing."""
        with self.changed:
            self.next_due = sent_at + self.lease_class.heartbeat
            if self.state() == "lost":
                return
            self.confirmed_at = sent_at
            self.deadline = max(self.deadline, sent_at + remaining_s)
            self.failed_try = False
            self.cancel_requested |= cancel_requested
            self.changed.notify_all()

    def fail_try(self, retry_in_s: float) -> None:
        """A renewal was sent and did not come back: unknown, tried again soon."""
        with self.changed:
            self.failed_try = True
            self.next_due = boottime() + retry_in_s
            self.changed.notify_all()

    def end(self, stop: Stop) -> bool:
        """Says why the attempt must stop; the first reason stands. False: there was one already."""
        with self.changed:
            if self.stop is not None:
                return False
            self.stop = stop
            self.changed.notify_all()
            return True

    def wait_owned(self) -> bool:
        """Waits while the state is unknown, at most to the local deadline; whether it is owned then."""
        with self.changed:
            while (state := self.state()) == "unknown":
                self.changed.wait(min(0.1, max(0.0, self.deadline - boottime())))
        return state == "owned"
