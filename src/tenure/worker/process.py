"""Tools in processes of their own: killed with their children when their time is over, with a context like the rest.

The child imports the tool by module and name; nothing but JSON values and file paths crosses the pipe.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tenure.context import Attempt, Hold, ToolContext
from tenure.context.bounded import within
from tenure.errors import InvalidInput, RetryableError, SettingsError, TerminalError
from tenure.flow import Completed, Failed, Outcome
from tenure.leases import retry_delay
from tenure.payload import classify
from tenure.tools import ToolSpec
from tenure.worker.executor import encoded, of_error, of_stop

POLL_S = 0.2
_spawn = multiprocessing.get_context("spawn")


def importable(spec: ToolSpec) -> tuple[str, str]:
    """Module and name under which a child finds the tool. SettingsError when it cannot."""
    module, name = spec.fn.__module__, spec.fn.__qualname__
    found = getattr(sys.modules.get(module), name, None)
    if getattr(found, "spec", None) is not spec:
        raise SettingsError(f"tool {spec.name!r}: isolation='process' imports it as {module}.{name}, which is not it")
    if module == "__main__" and getattr(sys.modules[module], "__file__", None) is None:
        raise SettingsError(f"tool {spec.name!r}: isolation='process' needs a module that a process can import")
    return module, name


class Child:
    """One process that runs one tool call at a time."""

    def __init__(self) -> None:
        self.pipe, end = _spawn.Pipe()
        self.process = _spawn.Process(target=_serve, args=(end,), name="tenure-tool", daemon=True)
        self.process.start()
        end.close()

    def kill(self) -> None:
        """Kills the process and its children, which may have outlived it."""
        if self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join(timeout=5)
        self.pipe.close()


class Processes:
    """Children, kept warm for the next call."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        self._guard = threading.Lock()

    def perform(self, attempt: Attempt, spec: ToolSpec) -> Outcome:
        """Runs a tool in a child; this thread answers what its context asks. Stopping the hold kills the child."""
        child = self._take()
        try:
            outcome = self._converse(child, attempt, spec)
        except (EOFError, OSError):
            child.kill()
            return _died(attempt.hold, child)
        except BaseException as error:  # noqa: BLE001  (a context call that failed in a way that nobody foresaw)
            child.kill()
            return of_error(attempt.hold, error)
        if outcome is None:
            child.kill()
            stop = attempt.hold.stop
            return of_stop(attempt.hold, stop) or Failed("ownership_lost", f"killed: {stop}", "retryable")
        with self._guard:
            self._idle.append(child)
        return outcome

    def _take(self) -> Child:
        with self._guard:
            while self._idle:
                child = self._idle.pop()
                if child.process.is_alive():
                    return child
        return Child()

    def _converse(self, child: Child, attempt: Attempt, spec: ToolSpec) -> Outcome | None:
        context = ToolContext(attempt)
        child.pipe.send(("run", *importable(spec), spec.name, attempt.lease.input, _facts(attempt)))
        while True:
            if attempt.hold.stop is not None:
                return None
            if not child.pipe.poll(POLL_S):
                continue
            kind, *rest = child.pipe.recv()
            match kind:
                case "completed":
                    return Completed(rest[0])
                case "failed":
                    return _failed(attempt.hold, *rest)
                case _:
                    child.pipe.send(_answer(context, rest[0], rest[1], rest[2]))

    def stop(self) -> None:
        """Kills the idle children; again is fine."""
        with self._guard:
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()


def _died(hold: Hold, child: Child) -> Outcome:
    stopped = of_stop(hold, hold.stop)
    text = f"the tool's process ended with {child.process.exitcode}"
    return stopped or Failed("process_died", text, "retryable", retry_delay(hold.lease.attempt))


def _failed(hold: Hold, code: str, text: str, kind: Any, retry_after: float | None, charge: bool) -> Outcome:
    delay_s = retry_delay(hold.lease.attempt) if retry_after is None else retry_after
    return of_stop(hold, hold.stop) or Failed(code, text, kind, delay_s, charge)


def _facts(attempt: Attempt) -> dict[str, Any]:
    lease = attempt.lease
    names = ("tenant_id", "job_id", "turn_id", "session_id", "project_id", "user_id", "attempt", "fencing_token")
    return {name: getattr(lease, name) for name in names} | {"settings": dict(attempt.settings())}


def _answer(context: ToolContext, name: str, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[str, Any]:
    """What the parent's context says to a call from the child."""
    try:
        found = getattr(context, name)
        return "value", found(*args, **keywords) if callable(found) else found
    except Exception as error:  # noqa: BLE001  (it is raised again in the child)
        failure = classify(error)
        return "error", (failure.code, failure.text, failure.kind)


# -- in the child ------------------------------------------------------------------------------------------------------


class RemoteContext:
    """The context in a child: facts at hand, everything that writes asked of the parent."""

    def __init__(self, pipe: Connection, facts: Mapping[str, Any]) -> None:
        self._pipe = pipe
        self._facts = facts
        self._asking = threading.Lock()  # a tool may have threads of its own

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__["_facts"]
        if name in facts:
            return facts[name]
        if name in ("ownership", "cancelled"):
            return self._ask(name)
        raise AttributeError(f"a tool in a process has no ctx.{name}")

    def _ask(self, name: str, *args: Any, **keywords: Any) -> Any:
        with self._asking:
            self._pipe.send(("ask", name, args, keywords))
            kind, value = self._pipe.recv()
        if kind == "value":
            return value
        code, text, failure = value
        raise TerminalError(text, code=code) if failure == "terminal" else RetryableError(text)

    def progress(self, value: Any = None, /, **fields: Any) -> None:
        self._ask("progress", *(() if value is None else (value,)), **fields)

    def require_ownership(self) -> None:
        self._ask("require_ownership")

    def artifact(self, name: str, source: bytes | Path, media_type: str = "application/octet-stream") -> Any:
        return self._ask("artifact", name, source, media_type)

    def artifact_path(self, artifact_id: str) -> Any:
        return self._ask("artifact_path", artifact_id)

    def stage(self, name: str, fn: Callable[..., Any], *args: Any, timeout: str | None = None, part: str = "") -> Any:
        found, value = self._ask("find_stage", name, args, part)
        return value if found else self._ask("save_stage", name, args, within(timeout, name, fn, *args), part)


def _serve(pipe: Connection) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, name="tenure-parent", daemon=True).start()
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it may have children
    while True:
        try:
            _, module, name, tool, arguments, facts = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_performed(pipe, module, name, tool, arguments, facts))


def _die_with_parent() -> None:
    """A worker that was killed leaves no tool behind that goes on without a lease."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _performed(
    pipe: Connection, module: str, name: str, tool: str, arguments: Mapping[str, Any], facts: Mapping[str, Any]
) -> tuple[Any, ...]:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        spec: ToolSpec = found.spec
        context = {} if spec.context is None else {spec.context: RemoteContext(pipe, facts)}
        try:
            bound = spec.bound(arguments)
        except InvalidInput as error:
            return "failed", "input_invalid", classify(error).text, "terminal", None, True
        return "completed", encoded(spec, spec.fn(**bound, **context))
    except BaseException as error:  # noqa: BLE001  (every ending is told to the parent)
        failure = classify(error)
        return "failed", failure.code, failure.text, failure.kind, failure.retry_after, failure.charge
