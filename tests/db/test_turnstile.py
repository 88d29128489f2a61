"""The turnstile of SQLite's writers: one at a time, first come first served, urgent ones before all others."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tenure.db.turnstile import Turnstile


def queue_up(turnstile: Turnstile, names: list[str], visit: Callable[[str], None]) -> list[threading.Thread]:
    """Threads that wait at the turnstile, in this order; a name that begins with "!" is urgent."""
    threads = []
    for name in names:
        waiting = len(turnstile._waiting) + len(turnstile._urgent)
        thread = threading.Thread(target=_pass, args=(turnstile, name, visit), daemon=True)
        thread.start()
        threads.append(thread)
        while len(turnstile._waiting) + len(turnstile._urgent) == waiting:
            threading.Event().wait(0.001)
    return threads


def _pass(turnstile: Turnstile, name: str, visit: Callable[[str], None]) -> None:
    with turnstile.passing(urgent=name.startswith("!")):
        visit(name)


def order_of(names: list[str]) -> list[str]:
    turnstile = Turnstile()
    seen: list[str] = []
    with turnstile.passing():
        threads = queue_up(turnstile, names, seen.append)
        assert seen == []
    for thread in threads:
        thread.join(10)
    return seen


def test_first_come_first_served() -> None:
    assert order_of(list("abcdef")) == list("abcdef")


def test_urgent_ones_go_first_and_among_themselves_in_order() -> None:
    assert order_of(["a", "!1", "b", "!2"]) == ["!1", "!2", "a", "b"]


def test_an_error_inside_lets_the_next_one_in() -> None:
    turnstile = Turnstile()
    for _ in range(2):
        try:
            with turnstile.passing():
                raise ValueError
        except ValueError:
            pass
    assert order_of(["a"]) == ["a"]
    with turnstile.passing():
        pass


def test_one_at_a_time() -> None:
    turnstile = Turnstile()
    inside, most = 0, 0

    def run() -> None:
        nonlocal inside, most
        for _ in range(200):
            with turnstile.passing():
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=run, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (inside, most) == (0, 1)
    assert not turnstile._busy
