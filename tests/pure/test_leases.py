import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import SettingsError
from tenure.leases import DEFAULT_LEASE, REFUND_CAP, LeaseClass, clamp_retry_after, refund_granted, retry_delay


def test_defaults() -> None:
    assert LeaseClass(90, 30, 1, 20) == DEFAULT_LEASE
    DEFAULT_LEASE.check()


@pytest.mark.parametrize("lease", [60.0, 79.9, 80.0])
def test_the_inequality_is_strict_and_shown_in_numbers(lease: float) -> None:
    with pytest.raises(SettingsError, match=rf"slow: .*{lease:g} > \(1 \+ 1\) × 30 \+ 20 = 80 is false"):
        LeaseClass(lease, 30, 1, 20).check("slow")


def test_just_above_holds() -> None:
    LeaseClass(80.001, 30, 1, 20).check()


@pytest.mark.parametrize("field", ["lease", "heartbeat", "missed", "margin"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_every_number_is_positive_and_finite(field: str, value: float) -> None:
    numbers = {"lease": 90.0, "heartbeat": 30.0, "missed": 1.0, "margin": 20.0} | {field: value}
    if field == "missed" and value == 0:  # a class that forgives no miss is a strict one, not a wrong one
        LeaseClass(**numbers).check()  # type: ignore[arg-type]
        return
    with pytest.raises(SettingsError, match=f"{field} must be positive"):
        LeaseClass(**numbers).check()  # type: ignore[arg-type]


@pytest.mark.parametrize("attempt", [-5, 0, 1, 16, 47, 1_024, 1_100, 1_999, 2_000, 10**9])
@pytest.mark.parametrize("factor", [0.0, 1.0, 2.0, 5.0, 1e300])
@pytest.mark.parametrize("base", [0.0, 1e-300, 1.0, 1e300, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("cap", [0.0, 3600.0, 1e300])
def test_delay_is_within_the_cap(attempt: int, factor: float, base: float, cap: float) -> None:
    for dice in (lambda: 0.0, lambda: 1 - 2**-53, random.random):
        assert 0 <= retry_delay(attempt, base, factor, cap, dice) <= cap


def test_delay_doubles_until_the_cap() -> None:
    delays = [retry_delay(attempt, 1, 2, 60, lambda: 1.0) for attempt in range(1, 9)]
    assert delays == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])


def test_delay_is_full_jitter() -> None:
    dice = random.Random(5)
    delays = [retry_delay(4, 1, 2, 60, dice.random) for _ in range(2_000)]
    assert min(delays) < 0.1
    assert max(delays) > 7.9
    assert sum(delays) / len(delays) == pytest.approx(4, rel=0.05)


@given(st.floats(), st.floats(0, 1e9))
def test_retry_after_is_clamped_and_noted(value: float, cap: float) -> None:
    seconds, note = clamp_retry_after(value, cap)
    assert 0 <= seconds <= cap
    assert (note is None) == (seconds == value)


@pytest.mark.parametrize(
    ("ending", "charge", "refunded"),
    [
        ("released", True, True),
        ("away", True, True),
        ("ghost", True, True),
        ("retry", False, True),
        ("retry", True, False),
        ("failed", False, False),
        ("lease_expired", False, False),
        ("timed_out", False, False),
        ("cancelled", False, False),
    ],
)
def test_refunds(ending: str, charge: bool, refunded: bool) -> None:
    assert refund_granted(ending, 0, charge=charge) == refunded
    assert refund_granted(ending, 49, charge=charge) == refunded
    assert not refund_granted(ending, REFUND_CAP, charge=charge)


def test_refunds_of_all_kinds_end_at_fifty() -> None:
    refunds = 0
    for ending in ["released", "away", "ghost"] * 40:
        refunds += refund_granted(ending, refunds)
    assert refunds == REFUND_CAP == 50
