"""The keeper: what it renews, what it makes of a renewal that does not come back, and what it never waits for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.context import Attempt, boottime
from tenure.db.engine import Database
from tenure.errors import CancelRequested, OwnershipLost, SettingsError
from tenure.leases import LeaseClass
from tenure.records import RowKey
from tenure.store import endings, jobs
from tests.proxy import Pair, Proxy, running
from tests.worker.scene import SHORT_CLASS, Kept, Scene, keep, lease_left, row_locked, until

ROOMY = LeaseClass(lease=30.0, heartbeat=5.0, missed=1, margin=1.0)


def test_a_renewal_gives_the_full_lease_again(database: Database) -> None:
    kept = keep(database, 3)
    time.sleep(0.2)
    before = [lease_left(database, hold.lease) for hold in kept.holds]
    kept.tick()
    after = [lease_left(database, hold.lease) for hold in kept.holds]
    assert all(new > old for old, new in zip(before, after, strict=True))
    assert all(hold.state() == "owned" for hold in kept.holds)


def test_the_deadline_counts_from_the_sending(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the answer took, the local deadline is not later than the database's."""
    kept = keep(database)
    hold, real = kept.hold_of(), kept.keeper._kept.single

    def slowly(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        time.sleep(0.3)
        return found

    monkeypatch.setattr(kept.keeper._kept, "single", slowly)
    kept.tick()
    left = lease_left(database, hold.lease)
    assert hold.deadline - boottime() <= left + 0.002


def test_what_was_settled_is_renewed_no_more(database: Database) -> None:
    kept = keep(database, 2)
    gone, stays = kept.holds
    kept.keeper.remove([gone.lease.held])
    assert not kept.keeper.knows(gone.lease.held)
    time.sleep(0.1)
    before = lease_left(database, gone.lease), lease_left(database, stays.lease)
    kept.tick()
    assert lease_left(database, gone.lease) < before[0]
    assert lease_left(database, stays.lease) > before[1]


def test_zero_rows_for_a_settled_pair_judge_nothing(database: Database) -> None:
    kept = keep(database)
    hold = kept.hold_of()
    database.single(lambda tx: endings.complete_bare(tx, kept.keeper.owner, {hold.lease.held: "1"}))
    kept.keeper.remove([hold.lease.held])
    kept.keeper.run_once()
    assert kept.stopped == []


def test_not_mine_any_more_is_lost_for_good(database: Database) -> None:
    kept = keep(database, 2)
    taken, mine = kept.holds
    key = RowKey(taken.lease.tenant_id, taken.lease.job_id)
    database.write(lambda tx: endings.quarantine(tx, key))
    kept.tick()
    assert kept.stopped == [(taken.lease.job_id, "lost")]
    assert (taken.state(), mine.state()) == ("lost", "owned")
    taken.confirm(boottime(), 30.0, False)  # a late answer changes nothing
    assert taken.state() == "lost"
    kept.tick()
    assert kept.stopped == [(taken.lease.job_id, "lost")]


def test_the_local_deadline_alone_is_a_loss_for_good(database: Database) -> None:
    kept = keep(database)
    hold = kept.hold_of()
    hold.deadline = boottime() - 0.001
    assert hold.state() == "lost"
    hold.confirm(boottime(), 30.0, False)
    assert hold.state() == "lost"
    kept.tick(due=False)
    assert kept.stopped == [(hold.lease.job_id, "lost")]


def test_a_locked_row_is_unknown_and_then_owned_again(database: Database) -> None:
    kept = keep(database, 1, ROOMY)
    hold = kept.hold_of()
    with row_locked(database, hold.lease.job_id):
        began = time.monotonic()
        kept.tick()
        assert time.monotonic() - began < 5.0  # it waited for no lock, at most for the margin
        assert hold.state() == "unknown"
        assert hold.next_due <= boottime() + 1.0  # tried again within a second
    kept.owned_again()
    assert kept.stopped == []


def test_a_locked_row_stops_no_other(postgres: Database) -> None:
    kept = keep(postgres, 3, ROOMY)
    time.sleep(0.1)
    before = [lease_left(postgres, hold.lease) for hold in kept.holds]
    with row_locked(postgres, kept.hold_of(1).lease.job_id):
        kept.tick()
        after = [lease_left(postgres, hold.lease) for hold in kept.holds]
    assert [hold.state() for hold in kept.holds] == ["owned", "unknown", "owned"]
    assert [new > old for old, new in zip(before, after, strict=True)] == [True, False, True]


def test_a_cancel_request_comes_with_a_renewal(database: Database) -> None:
    kept = keep(database, 2)
    asked = kept.hold_of()
    key = RowKey(asked.lease.tenant_id, asked.lease.job_id)
    database.write(lambda tx: jobs.request_cancel(tx, key, "someone"))
    kept.tick()
    kept.tick()
    assert kept.stopped == [(asked.lease.job_id, "cancel")]
    assert asked.cancel_requested
    assert asked.state() == "owned"  # cancelled is not lost: the holder settles it
    time.sleep(0.05)
    before = lease_left(database, asked.lease)
    kept.tick()
    assert lease_left(database, asked.lease) > before


def test_after_a_timeout_renewal_stops_and_the_keeper_sleeps(database: Database) -> None:
    kept = keep(database)
    hold = kept.hold_of()
    hold.end("timeout")
    hold.next_due = boottime() - 1.0
    before = lease_left(database, hold.lease)
    kept.keeper.run_once()
    assert lease_left(database, hold.lease) <= before
    assert kept.keeper._sleep_s() > 0.5  # a hold that is not renewed keeps nobody awake


def test_a_process_that_was_away_marks_everything(database: Database) -> None:
    kept = keep(database, 2)
    kept.keeper.last_tick = boottime() - SHORT_CLASS.lease - 1.0
    kept.keeper.run_once()
    assert sorted(kept.stopped) == sorted((hold.lease.job_id, "away") for hold in kept.holds)
    assert [hold.state() for hold in kept.holds] == ["lost", "lost"]


def test_a_short_gap_is_no_absence(database: Database) -> None:
    kept = keep(database)
    kept.keeper.last_tick = boottime() - SHORT_CLASS.lease + 0.5
    kept.keeper.run_once()
    assert kept.stopped == []


@pytest.mark.parametrize(
    ("lease_class", "numbers"),
    [
        (LeaseClass(60.0, 20.0, 1, 20.0), "60 > (1 + 1) × 20 + 20 = 60"),
        (LeaseClass(6.0, 6.0, 1, 1.0), "6 > (1 + 1) × 6 + 1 = 13"),
        (LeaseClass(90.0, 30.0, 2, 20.0), "90 > (2 + 1) × 30 + 20 = 110"),
    ],
)
def test_a_lease_class_that_cannot_work_stops_the_start(scene: Scene, lease_class: LeaseClass, numbers: str) -> None:
    @scene.app.tool()
    def fine() -> int:
        return 1

    object.__setattr__(fine.spec, "lease", lease_class)  # past the decorator, which has a check of its own
    with pytest.raises(SettingsError) as told:
        scene.app.new_worker()
    assert numbers in str(told.value)


# -- links that are really cut -----------------------------------------------------------------------------------------


@pytest.fixture
def cut(postgres_url: str) -> Iterator[Proxy]:
    with running(postgres_url) as proxy:
        yield proxy


def through(proxy: Proxy, lease_class: LeaseClass) -> Kept:
    return keep(Database(proxy.url), 1, lease_class)


def test_a_cut_link_is_unknown_and_back_it_is_owned(cut: Proxy) -> None:
    kept = through(cut, ROOMY)
    hold = kept.hold_of()
    cut.cut()
    kept.tick()
    assert hold.state() == "unknown"
    assert kept.stopped == []
    cut.resume()
    kept.owned_again()
    kept.keeper.stop()
    kept.database.dispose()


def test_a_link_cut_for_longer_than_the_lease_is_lost(cut: Proxy) -> None:
    kept = through(cut, LeaseClass(2.0, 0.3, 1, 0.5))
    hold = kept.hold_of()
    kept.keeper.start()
    seen: list[str] = []

    def note() -> bool:
        state = hold.state()
        if not seen or seen[-1] != state:
            seen.append(state)
        return state == "lost"

    cut.cut()
    until(note, "lost")
    until(lambda: kept.stopped, "a stop")
    assert seen in (["owned", "unknown", "lost"], ["unknown", "lost"])
    assert kept.stopped == [(hold.lease.job_id, "lost")]
    assert boottime() >= hold.deadline
    cut.resume()
    kept.keeper.stop()
    kept.database.dispose()


class Silent(Proxy):
    """A link over which, from some moment on, nothing comes back and nothing says so."""

    def __init__(self, url: str) -> None:
        self.speaks = threading.Event()
        self.speaks.set()
        super().__init__(url)

    def _to_client(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.server.recv(65536):
                self.speaks.wait(60)
                pair.client.sendall(data)
        pair.close()


def test_a_try_over_a_silent_link_is_bounded_by_the_margin(postgres_url: str) -> None:
    proxy = Silent(postgres_url)
    kept = through(proxy, ROOMY)
    hold = kept.hold_of()
    kept.tick()
    assert hold.state() == "owned"
    proxy.speaks.clear()
    done = threading.Event()

    def tick() -> None:
        kept.tick()
        done.set()

    threading.Thread(target=tick, daemon=True).start()
    assert done.wait(10.0), "the keeper waits for an answer that never comes"
    assert hold.state() == "unknown"
    proxy.speaks.set()
    kept.owned_again()
    kept.keeper.stop()
    kept.database.dispose()
    proxy.close()


# -- what a tool hears -------------------------------------------------------------------------------------------------


def attempt_of(kept: Kept, scene: Scene) -> Attempt:
    return Attempt(scene.app.program, kept.keeper.owner, kept.hold_of())


def in_thread(fn: Callable[[], object]) -> tuple[threading.Event, list[object]]:
    done, ended = threading.Event(), []

    def run() -> None:
        try:
            ended.append(fn())
        except BaseException as error:  # noqa: BLE001  (the test judges it)
            ended.append(error)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done, ended


def test_require_ownership_waits_for_the_next_renewal(scene: Scene) -> None:
    kept = keep(scene.database, 1, ROOMY)
    hold = kept.hold_of()
    hold.fail_try(1.0)
    done, ended = in_thread(attempt_of(kept, scene).require)
    assert not done.wait(0.4), "it did not wait for an unknown ownership"
    kept.tick()
    assert done.wait(10.0)
    assert ended == [None]


def test_require_ownership_waits_at_most_to_the_deadline(scene: Scene) -> None:
    kept = keep(scene.database, 1, LeaseClass(1.5, 0.1, 1, 1.0))
    hold = kept.hold_of()
    hold.fail_try(60.0)
    done, ended = in_thread(attempt_of(kept, scene).require)
    assert done.wait(10.0)
    assert isinstance(ended[0], OwnershipLost)
    assert boottime() >= hold.deadline


def test_require_ownership_says_that_a_cancel_was_asked_for(scene: Scene) -> None:
    kept = keep(scene.database, 1, ROOMY)
    kept.hold_of().cancel_requested = True
    with pytest.raises(CancelRequested):
        attempt_of(kept, scene).require()


@pytest.mark.parametrize("stop", ["timeout", "shutdown", "away", "lost"])
def test_an_attempt_that_is_over_owns_nothing(scene: Scene, stop: str) -> None:
    kept = keep(scene.database, 1, ROOMY)
    assert kept.hold_of().end(stop)  # type: ignore[arg-type]
    with pytest.raises(OwnershipLost):
        attempt_of(kept, scene).require()
