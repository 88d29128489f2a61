"""Lease classes, back-off and refunds: the arithmetic of ownership, without a clock or a database."""

import math
import random as _random
from collections.abc import Callable
from dataclasses import dataclass

from tenure.canon import clamp_seconds
from tenure.errors import SettingsError

REFUND_CAP = 50
REFUNDED_ENDINGS = frozenset({"released", "away", "ghost"})


@dataclass(frozen=True, slots=True)
class LeaseClass:
    """How long a claim holds (``lease``), how often it is renewed (``heartbeat``), both in seconds.

    ``missed``: renewals in a row that may fail; ``margin``: seconds kept for a slow answer and for clocks that differ.
    """

    lease: float = 90.0
    heartbeat: float = 30.0
    missed: int = 1
    margin: float = 20.0

    def check(self, label: str = "lease class") -> None:
        """Raises SettingsError, with the numbers, unless L > (R + 1) × H + J and all are finite and positive."""
        for field in ("lease", "heartbeat", "missed", "margin"):
            value = getattr(self, field)
            fits = value >= 0 if field == "missed" else value > 0
            if not (math.isfinite(value) and fits):
                raise SettingsError(f"{label}: {field} must be positive, got {value:g}")
        if self.lease <= self.least:
            raise SettingsError(f"{label}: {self._inequality()}")

    @property
    def least(self) -> float:
        """Seconds that the lease must exceed."""
        return (self.missed + 1) * self.heartbeat + self.margin

    def _inequality(self) -> str:
        numbers = f"{self.lease:g} > ({self.missed:g} + 1) × {self.heartbeat:g} + {self.margin:g} = {self.least:g}"
        return f"lease > (missed + 1) × heartbeat + margin does not hold: {numbers} is false"


DEFAULT_LEASE = LeaseClass()


def retry_delay(
    attempt: int,
    base: float = 1.0,
    factor: float = 2.0,
    cap: float = 3600.0,
    random: Callable[[], float] = _random.random,
) -> float:
    """Seconds before the next attempt, full jitter: somewhere in [0, min(cap, base × factor^(attempt − 1))].

    ``attempt`` is the one that failed, from 1. Always within [0, cap], whatever is given.
    """
    ceiling = _ceiling(attempt, _within(base, 0.0), _within(factor, 1.0), _within(cap, 0.0))
    return min(max(random() * ceiling, 0.0), ceiling)


def _ceiling(attempt: int, base: float, factor: float, cap: float) -> float:
    if base <= 0 or cap <= 0:
        return 0.0
    # As logarithms: the power itself would overflow long before min() could cut it.
    exponent = max(attempt - 1, 0) * math.log(factor) + math.log(base)
    return cap if exponent >= math.log(cap) else min(cap, math.exp(exponent))


def _within(value: float, low: float) -> float:
    return low if math.isnan(value) else min(max(value, low), 1e300)


def clamp_retry_after(value: float, cap: float) -> tuple[float, str | None]:
    """(seconds within [0, cap], None or a note that says what was changed)."""
    return clamp_seconds(value, _within(cap, 0.0), "retry_after")


def refund_granted(ending: str, refunds: int, *, charge: bool = True) -> bool:
    """Whether the attempt that ended so is given back.

    Refunded are release, return after being away, a ghost claim, and a retry with ``charge=False``; all kinds
    together at most 50 times a job (``refunds`` so far), then every attempt is charged.
    """
    refundable = ending in REFUNDED_ENDINGS or (ending == "retry" and not charge)
    return refundable and refunds < REFUND_CAP
