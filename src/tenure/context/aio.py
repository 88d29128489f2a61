"""The context of an `async def` tool: the same names, awaited. `progress()` is never awaited, in both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tenure.context.bounded import within_async
from tenure.context.effects import EffectCall, Ended, Repeat, of_answer, of_error
from tenure.context.hold import State
from tenure.context.tool import Attempt, ToolContext, digest_of, reconciled
from tenure.flow import effects
from tenure.records import Artifact, Job


class AsyncToolContext:
    """As ToolContext, for `async def` tools. Database work hops to a thread, once a call."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._plain = ToolContext(attempt)

    @property
    def tenant_id(self) -> str:
        return self._plain.tenant_id

    @property
    def job_id(self) -> str:
        return self._plain.job_id

    @property
    def turn_id(self) -> str | None:
        return self._plain.turn_id

    @property
    def session_id(self) -> str | None:
        return self._plain.session_id

    @property
    def project_id(self) -> str | None:
        return self._plain.project_id

    @property
    def user_id(self) -> str | None:
        return self._plain.user_id

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._plain.attempt

    @property
    def fencing_token(self) -> int:
        return self._plain.fencing_token

    @property
    def state(self) -> Any:
        """What the app's lifespan yielded."""
        return self._plain.state

    async def settings(self) -> Mapping[str, Any]:
        """The project's settings; empty without a project."""
        return await asyncio.to_thread(self._attempt.settings)

    @property
    def ownership(self) -> State:
        """ "owned", "unknown" or "lost", now."""
        return self._plain.ownership

    @property
    def cancelled(self) -> bool:
        """Whether the tool should stop."""
        return self._plain.cancelled

    async def require_ownership(self) -> None:
        """As in ToolContext."""
        if self._attempt.hold.state() != "owned" or self._attempt.hold.cancel_requested:
            await asyncio.to_thread(self._attempt.require)

    def progress(self, value: Any = None, /, **fields: Any) -> None:
        """As in ToolContext; not awaited."""
        self._plain.progress(value, **fields)

    async def stage(
        self, name: str, fn: Callable[..., Any], *args: Any, timeout: str | None = None, part: str = ""
    ) -> Any:
        """As in ToolContext; `fn` may be async, and only then can a `timeout` end it."""
        attempt = self._attempt
        place = attempt.enter(name, part)
        digest = digest_of(place, args)
        await self.require_ownership()
        found = await asyncio.to_thread(attempt.saved, place)
        if found is not None and found.digest == digest:
            return found.answer
        value = await within_async(timeout, name, _awaited(fn(*args)))
        return await asyncio.to_thread(attempt.save, place, digest, value)

    async def effect(
        self,
        name: str,
        send: Callable[[EffectCall], Any],
        *,
        request: Any = None,
        key: str | None = None,
        resource: str | None = None,
        repeat: Repeat = "never",
        part: str = "",
    ) -> Any:
        """As in ToolContext; `send` may be async."""
        attempt = self._attempt
        place = attempt.enter(name, part)
        await self.require_ownership()
        wanted = await asyncio.to_thread(attempt.request, place, request, key, resource, repeat)
        found = await asyncio.to_thread(effects.enter, attempt.program, attempt.owner, attempt.lease, wanted)
        call = attempt.call(wanted)
        if found is not None and found.state == "done":
            return found.answer
        if found is not None and callable(repeat):
            looked = await asyncio.to_thread(reconciled, wanted, call, repeat)
            if looked is not None:
                return await self._finished(wanted, looked)
            await asyncio.to_thread(effects.restart, attempt.program, attempt.owner, attempt.lease, wanted)
        try:
            ended = of_answer(wanted, call, await _awaited(send(call)))
        except BaseException as error:  # noqa: BLE001  (every ending of a request is recorded, then raised)
            ended = of_error(wanted, call, error)
        return await self._finished(wanted, ended)

    async def _finished(self, wanted: effects.EffectRequest, ended: Ended) -> Any:
        # Shielded: a cancelled tool must still leave behind what became of its request.
        return await asyncio.shield(asyncio.to_thread(self._plain._finished, wanted, ended))

    async def artifact(
        self, name: str, source: bytes | Path | BinaryIO, media_type: str = "application/octet-stream"
    ) -> Artifact:
        """As in ToolContext."""
        return await asyncio.to_thread(self._plain.artifact, name, source, media_type)

    async def artifact_path(self, artifact_id: str) -> Path:
        """As in ToolContext."""
        return await asyncio.to_thread(self._plain.artifact_path, artifact_id)

    async def enqueue(self, name: str, tool: Any, /, *, part: str = "", **arguments: Any) -> Job:
        """As in ToolContext."""
        return await asyncio.to_thread(lambda: self._plain.enqueue(name, tool, part=part, **arguments))


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
