"""A stage that may take only so long."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from tenure.canon import duration
from tenure.errors import StageTimeout


def within(timeout: str | None, what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)`, or StageTimeout after `timeout`. A thread cannot be stopped: what it returns later is discarded."""
    if timeout is None:
        return fn(*args)
    ended: list[tuple[bool, Any]] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            ended.append((True, context.run(fn, *args)))
        except BaseException as error:  # noqa: BLE001  (raised again by the thread that waits)
            ended.append((False, error))

    thread = threading.Thread(target=run, name="tenure-stage", daemon=True)
    thread.start()
    thread.join(duration(timeout, "timeout"))
    if not ended:
        raise _late(timeout, what)
    returned, value = ended[0]
    if not returned:
        raise value
    return value


async def within_async(timeout: str | None, what: str, value: Awaitable[Any]) -> Any:
    """What is awaited, or StageTimeout after `timeout`; it is cancelled then."""
    if timeout is None:
        return await value
    try:
        return await asyncio.wait_for(value, duration(timeout, "timeout"))
    except TimeoutError:
        raise _late(timeout, what) from None


def _late(timeout: str, what: str) -> StageTimeout:
    return StageTimeout(f"stage {what} took longer than {timeout}")
