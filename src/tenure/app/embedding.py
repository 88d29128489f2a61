"""A worker beside the user's own program: for the body of a `with`, or for the life of a web application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from tenure.canon import duration
from tenure.worker import Worker


@contextlib.contextmanager
def running(make: Callable[[], Worker], grace: str) -> Iterator[Worker]:
    """Runs the worker that `make` makes for the body; leaving waits `grace` for what runs and gives back the rest."""
    grace_s = duration(grace, "grace")
    worker = make()
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace_s)


def lifespan(make: Callable[[], Worker] | None, grace: str) -> Callable[[Any], Any]:
    """A lifespan for a web framework, which starts and stops the worker that `make` makes, if any."""
    grace_s = duration(grace, "grace")

    @contextlib.asynccontextmanager
    async def manage(_: Any) -> AsyncIterator[None]:
        worker = None if make is None else make()
        if worker is not None:
            await asyncio.to_thread(worker.start)
        try:
            yield
        finally:
            if worker is not None:
                await asyncio.to_thread(worker.stop, grace_s)

    return manage
