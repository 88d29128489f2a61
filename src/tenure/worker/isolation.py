"""Where tools run: on an event loop of their own, in threads, or in processes that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


class Loop:
    """The tools' event loop, in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; started at first use."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="tenure-loop", daemon=True)
            self._thread.start()
        return self._loop

    def call(self, fn: Callable[..., Any], *args: Any) -> None:
        """Runs a plain function on the loop, soon."""
        self.loop.call_soon_threadsafe(fn, *args)

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        """Runs a coroutine on the loop and waits for it here."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_s)

    def stop(self) -> None:
        """Cancels what still runs, and ends the loop; again is fine."""
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        loop.call_soon_threadsafe(_cancel_all, loop)
        thread.join(timeout=5)
        if not thread.is_alive():
            loop.close()
        self._loop = self._thread = None


class Lifetime:
    """An async context manager that is entered and left in one coroutine of the loop, as task groups within demand."""

    def __init__(self, loop: Loop, enter: Callable[[], contextlib.AbstractAsyncContextManager[Any]]) -> None:
        self._loop = loop
        self._enter = enter
        self._closing: asyncio.Event | None = None
        self._entered: Future[Any] = Future()
        self._left: Future[None] | None = None

    def open(self) -> Any:
        """Enters and returns what was yielded; raises what entering raised."""
        self._left = asyncio.run_coroutine_threadsafe(self._live(), self._loop.loop)
        return self._entered.result()

    async def _live(self) -> None:
        self._closing = asyncio.Event()
        try:
            async with self._enter() as state:
                self._entered.set_result(state)
                await self._closing.wait()
        except BaseException as error:
            if self._entered.done():
                raise
            self._entered.set_exception(error)

    def close(self, timeout_s: float) -> None:
        """Leaves, and raises what leaving raised; again is fine."""
        if self._left is None or self._closing is None:
            return
        left, self._left = self._left, None
        self._loop.call(self._closing.set)
        left.result(timeout_s)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    pending = asyncio.all_tasks(loop)
    for each in pending:
        each.cancel()

    async def end() -> None:
        await asyncio.gather(*pending, return_exceptions=True)
        await loop.shutdown_default_executor()
        loop.stop()

    ending = loop.create_task(end())
    loop.call_later(3.0, loop.stop)
    del ending


class Threads:
    """Daemon threads, started as needed, reused afterwards. A stuck one keeps no process from its end."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = 0
        self._all: list[threading.Thread] = []
        self._guard = threading.Lock()

    def run(self, work: Callable[[], None]) -> None:
        """Runs it in an idle thread, or a new one."""
        with self._guard:
            if self._idle > 0:
                self._idle -= 1
            else:
                thread = threading.Thread(target=self._serve, name="tenure-tool", daemon=True)
                self._all.append(thread)
                thread.start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            work()
            with self._guard:
                self._idle += 1

    def stop(self) -> None:
        """Ends the idle threads; those that still run a tool end with it."""
        for _ in self._all:
            self._work.put(None)
