"""`Tenure`: tools and recipes are registered on it, and each of its methods is one call into the house."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypedDict, TypeVar, Unpack, cast, overload

from tenure import flow
from tenure.app.handles import Job, Turn, follow
from tenure.app.tool import Decorator, Tool
from tenure.canon import duration
from tenure.canon import name as checked_name
from tenure.db.adopt import adopted
from tenure.errors import InvalidInput, NotFound
from tenure.flow import BareJob, Decision, Program, Request
from tenure.leases import LeaseClass
from tenure.planner import Final, Planner, Recipe, Step, Steps, TurnView
from tenure.records import DEFAULT_TENANT, Approval, Artifact, Event, RowKey, Session, SessionKey
from tenure.runtime import Runtime
from tenure.settings import load
from tenure.store import approvals, events, jobs, projects, sessions, turns
from tenure.tools import Approval as ApprovalPolicy
from tenure.tools import Isolation, OnRefusal, Registry, ToolSpec, declare
from tenure.worker import Lifespan, Worker

T = TypeVar("T")


class Options(TypedDict, total=False):
    """What `enqueue` takes beside tool and input. `delay` is a duration; `priority` is 0…10."""

    idempotency_key: str | None
    delay: str | None
    priority: int | None
    user_id: str | None
    project_id: str | None
    tenant_id: str
    connection: Any


class Tenure:
    """An app. Its database is the argument, else TENURE_DATABASE_URL, else `sqlite:///tenure.db`.

    Opens nothing until first used; installs no signal handlers, configures no logging, never exits. `lifespan` is an
    async context manager factory: it opens the tools' clients once per worker, and what it yields is `ctx.state`.
    """

    def __init__(
        self, database: str | None = None, *, lifespan: Lifespan | None = None, artifacts: str | None = None
    ) -> None:
        self.settings = load(database_url=database, artifacts=artifacts)
        self._tools = Registry()
        self._planners: dict[str, Planner] = {}
        self._lifespan = lifespan
        self.program = Program(Runtime(self.settings), self._tools, self._planners)

    # -- registering ---------------------------------------------------------------------------------------------------

    def tool(
        self,
        *,
        name: str | None = None,
        mode: str = "write",
        approval: ApprovalPolicy = "never",
        on_refusal: OnRefusal = "fail",
        writes: str | None = None,
        on_conflict: Literal["wait", "reject"] = "wait",
        timeout: str = "10m",
        idle_timeout: str | None = None,
        max_runtime: str = "12h",
        max_attempts: int = 3,
        lease: str = "90s",
        heartbeat: str = "30s",
        missed: int = 1,
        margin: str = "20s",
        isolation: Isolation | None = None,
        limit: int | None = None,
        limit_per_user: int | None = None,
        priority: int = 0,
        provider: str | None = None,
        model: str | None = None,
        aliases: Sequence[str] = (),
        example: Mapping[str, Any] | None = None,
    ) -> Decorator:
        """Registers a function as a tool. Durations carry a unit ("90s", "10m"). SettingsError, InvalidInput.

        `approval`: "never", "required", or a function of the `Call`. `writes`: the slot of the project that one
        operation at a time may write. `limit`: attempts at a time in the whole database. `lease > (missed + 1) ×
        heartbeat + margin` must hold.
        """
        lease_class = LeaseClass(
            duration(lease, "lease"), duration(heartbeat, "heartbeat"), missed, duration(margin, "margin")
        )
        options: dict[str, Any] = {
            "mode": checked_name(mode, "mode"),
            "approval": approval,
            "on_refusal": on_refusal,
            "writes": writes,
            "on_conflict": on_conflict,
            "timeout_s": duration(timeout, "timeout"),
            "idle_timeout_s": None if idle_timeout is None else duration(idle_timeout, "idle_timeout"),
            "max_runtime_s": duration(max_runtime, "max_runtime"),
            "max_attempts": max_attempts,
            "lease": lease_class,
            "isolation": isolation,
            "limit": limit,
            "limit_per_user": limit_per_user,
            "priority": priority,
            "provider": provider,
            "model": model,
            "aliases": tuple(aliases),
            "example": example,
        }

        def register(fn: Callable[..., Any]) -> Tool[..., Any]:
            spec = declare(fn, name=name, **options)
            self._tools.add(spec)
            return Tool(self, spec)

        return cast("Decorator", register)

    def recipe(self, command: str) -> Callable[[Callable[[TurnView], Steps | Final]], Recipe]:
        """Registers a function as the planner of a command."""

        def register(fn: Callable[[TurnView], Steps | Final]) -> Recipe:
            recipe = Recipe(checked_name(command, "command"), fn)
            self._planners[recipe.name] = recipe
            return recipe

        return register

    # -- making work ---------------------------------------------------------------------------------------------------

    @overload
    def enqueue(self, tool: Tool[..., T], input: Mapping[str, Any], **options: Unpack[Options]) -> Job[T]: ...
    @overload
    def enqueue(self, tool: str, input: Mapping[str, Any], **options: Unpack[Options]) -> Job[Any]: ...
    def enqueue(self, tool: Tool[..., Any] | str, input: Mapping[str, Any], **options: Unpack[Options]) -> Job[Any]:
        """Makes a bare job; the same idempotency key gives the same job back. With `connection` (SQLAlchemy
        Connection or Session, psycopg or sqlite3) the job exists if and only if the caller commits.

        InvalidInput, NeedsTurn, IdempotencyConflict, UnsafeConnection, NotImmediate.
        """
        connection = options.pop("connection", None)
        request = _bare(tool if isinstance(tool, str) else tool.name, input, options)
        if connection is None:
            row, replayed = flow.enqueue(self.program, request)
        else:
            row, replayed = self._enqueue_on(connection, request)
        return Job(self.program, row, self._tools.get(request.tool), replayed=replayed)

    def _enqueue_on(self, connection: Any, request: BareJob) -> Any:
        with adopted(self.program.database, connection) as tx:
            return flow.enqueue_on(self.program, tx, request)

    def enqueue_tool(self, spec: ToolSpec, arguments: dict[str, Any]) -> Job[Any]:
        """What `tool.enqueue(…)` calls."""
        row, replayed = flow.enqueue(self.program, BareJob(tool=spec.name, arguments=arguments))
        return Job(self.program, row, spec, replayed=replayed)

    async def aenqueue(
        self, tool: Any, input: Mapping[str, Any], *, connection: Any = None, **options: Any
    ) -> Job[Any]:
        """As `enqueue`, from async code; `connection` may also be an AsyncConnection or AsyncSession."""
        if connection is not None and hasattr(connection, "run_sync"):
            made: Job[Any] = await connection.run_sync(
                lambda sync: self.enqueue(tool, input, connection=sync, **options)
            )
            return made
        return await asyncio.to_thread(lambda: self.enqueue(tool, input, connection=connection, **options))

    def submit(
        self,
        input: Any = None,
        *,
        session_id: str,
        command: str | None = None,
        steps: Sequence[Step | Mapping[str, Any]] | None = None,
        profile: str | None = None,
        project_id: str | None = None,
        user_id: str | None = None,
        tenant_id: str = DEFAULT_TENANT,
        idempotency_key: str | None = None,
        on_busy: Literal["reject", "queue"] = "reject",
    ) -> Turn:
        """Makes a turn: planned by the recipe of `command`, or by the given `steps`.

        InvalidInput, SessionBusy (with `on_busy="reject"`), IdempotencyConflict; nothing is written then.
        """
        if on_busy not in ("reject", "queue"):
            raise InvalidInput(f"on_busy is 'reject' or 'queue', not {on_busy!r}", field="on_busy")
        if (command is None) == (steps is None):
            raise InvalidInput("a turn has either a command or steps", field="command")
        if command is not None and command not in self._planners:
            known = ", ".join(sorted(self._planners)) or "none"
            raise InvalidInput(f"no recipe for command {command!r}; known: {known}", field="command")
        plan = None
        if steps is not None:
            plan = [step.stored() if isinstance(step, Step) else dict(step) for step in steps]
        request = Request(
            session_id=session_id,
            input=input,
            tenant_id=checked_name(tenant_id, "tenant_id"),
            command=command,
            profile=profile,
            steps=plan,
            project_id=_optional_name(project_id, "project_id"),
            user_id=_optional_name(user_id, "user_id"),
            idempotency_key=idempotency_key,
            on_busy=on_busy,
        )
        row, replayed = flow.submit(self.program, request)
        return Turn(self.program, row, replayed=replayed)

    async def asubmit(self, input: Any = None, **options: Any) -> Turn:
        """As `submit`, from async code."""
        return await asyncio.to_thread(lambda: self.submit(input, **options))

    # -- deciding ------------------------------------------------------------------------------------------------------

    def approve(
        self,
        approval_id: str,
        *,
        by: str,
        scope: Mapping[str, Any] | None = None,
        expires: str | None = None,
        uses: int | None = None,
        reason: str | None = None,
        source: str | None = None,
        tenant_id: str = DEFAULT_TENANT,
    ) -> Approval:
        """A person agrees: once, or for a `scope` of arguments for `expires` and `uses`.

        NotFound, AlreadyDecided, ApprovalExpired.
        """
        return self._decide(
            Decision(
                approval_id=approval_id,
                approve=True,
                by=by,
                tenant_id=tenant_id,
                source=source,
                reason=reason,
                scope=None if scope is None else dict(scope),
                scope_s=None if expires is None else duration(expires, "expires"),
                uses=uses,
            )
        )

    def deny(
        self,
        approval_id: str,
        *,
        by: str,
        reason: str | None = None,
        source: str | None = None,
        tenant_id: str = DEFAULT_TENANT,
    ) -> Approval:
        """A person refuses. NotFound, AlreadyDecided, ApprovalExpired."""
        return self._decide(
            Decision(approval_id=approval_id, approve=False, by=by, tenant_id=tenant_id, source=source, reason=reason)
        )

    def _decide(self, decision: Decision) -> Approval:
        approval = flow.decide(self.program, decision)
        turn = RowKey(approval.tenant_id, approval.turn_id)
        flow.follow(self.program, flow.Settled(turns={turn}))
        return approval

    def pending(self, *, tenant_id: str = DEFAULT_TENANT, limit: int = 50) -> list[Approval]:
        """Open questions to a person, newest first."""
        return self.program.database.read(lambda tx: approvals.listed(tx, tenant_id, limit=limit))

    def cancel(self, id: str, *, by: str = "user", tenant_id: str = DEFAULT_TENANT) -> None:
        """Cancels a job or a turn. NotFound, StateConflict."""
        key = RowKey(tenant_id, id)
        is_job = self.program.database.read(lambda tx: jobs.get(tx, key)) is not None
        settled = (flow.cancel_job if is_job else flow.cancel_turn)(self.program, key, by)
        flow.follow(self.program, settled)

    def retry(self, job_id: str, *, by: str = "user", tenant_id: str = DEFAULT_TENANT) -> Job[Any]:
        """Opens a failed or cancelled job again. NotFound, StateConflict, SessionBusy."""
        return self.job(job_id, tenant_id=tenant_id).retry(by)

    # -- reading -------------------------------------------------------------------------------------------------------

    def job(self, job_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Job[Any]:
        """A job by its id. NotFound."""
        row = self.program.database.read(lambda tx: jobs.get(tx, RowKey(tenant_id, job_id)))
        if row is None:
            raise NotFound(f"no job {job_id!r}")
        return Job(self.program, row, self._tools.get(row.tool) if row.tool in self._tools else None)

    def turn(self, turn_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Turn:
        """A turn by its id. NotFound."""
        row = self.program.database.read(lambda tx: turns.get(tx, RowKey(tenant_id, turn_id)))
        if row is None:
            raise NotFound(f"no turn {turn_id!r}")
        return Turn(self.program, row)

    def session(self, session_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Session:
        """A session's card. NotFound."""
        card = self.program.database.read(lambda tx: sessions.get(tx, SessionKey(tenant_id, session_id)))
        if card is None:
            raise NotFound(f"no session {session_id!r}")
        return card

    def events(
        self, session_id: str, after: int = 0, limit: int = 500, *, tenant_id: str = DEFAULT_TENANT
    ) -> list[Event]:
        """Events of a session strictly after a cursor. NotFound."""
        key = SessionKey(tenant_id, session_id)
        return self.program.database.read(lambda tx: events.page(tx, key, after, limit)).events

    def follow(
        self, session_id: str, after: int = 0, *, timeout: str | None = None, tenant_id: str = DEFAULT_TENANT
    ) -> Iterator[Event]:
        """Events as they come, for ever, or until none has come for `timeout`."""
        return follow(self.program, SessionKey(tenant_id, session_id), after, timeout)

    async def afollow(
        self, session_id: str, after: int = 0, *, timeout: str | None = None, tenant_id: str = DEFAULT_TENANT
    ) -> AsyncIterator[Event]:
        """As `follow`, from async code."""
        found = self.follow(session_id, after, timeout=timeout, tenant_id=tenant_id)
        while (event := await asyncio.to_thread(next, found, None)) is not None:
            yield event

    # -- projects and files --------------------------------------------------------------------------------------------

    def set_project(self, project_id: str, settings: Mapping[str, Any], *, tenant_id: str = DEFAULT_TENANT) -> None:
        """Creates the project if need be and replaces its settings as a new version."""
        key = RowKey(tenant_id, checked_name(project_id, "project_id"))

        def body(tx: Any) -> None:
            projects.ensure(tx, key)
            projects.set_settings(tx, key, dict(settings))

        self.program.database.write(body)

    def put_artifact(
        self,
        name: str,
        source: bytes | Path | BinaryIO,
        media_type: str = "application/octet-stream",
        *,
        project_id: str | None = None,
        user_id: str | None = None,
        tenant_id: str = DEFAULT_TENANT,
    ) -> Artifact:
        """Stores a file that a person gives, so that a request can name it by id."""
        return flow.put_artifact(
            self.program, name, source, media_type, tenant_id=tenant_id, project_id=project_id, user_id=user_id
        )

    def artifact_path(self, artifact: Artifact) -> Path:
        """Where an artifact's file is. NotFound."""
        return self.program.runtime.files.path(artifact.location)

    # -- running -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def worker(
        self,
        *,
        name: str = "embedded",
        slots: int = 10,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
        grace: str = "30s",
    ) -> Iterator[Worker]:
        """A worker in this process for the body; leaving releases what it still holds."""
        worker = self.new_worker(name=name, slots=slots, only=only, without=without)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop(duration(grace, "grace"))

    def new_worker(
        self,
        *,
        name: str = "worker",
        slots: int = 10,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
    ) -> Worker:
        """A worker to be started and stopped by the caller."""
        return Worker(self.program, name=name, slots=slots, only=only, without=without, lifespan=self._lifespan)

    def lifespan(self, *, worker: bool = False, grace: str = "10s") -> Callable[[Any], Any]:
        """A lifespan for a web framework: `FastAPI(lifespan=app.lifespan(worker=True))` runs a worker beside it."""

        @contextlib.asynccontextmanager
        async def manage(_: Any) -> AsyncIterator[None]:
            running = self.new_worker(name="embedded") if worker else None
            if running is not None:
                await asyncio.to_thread(running.start)
            try:
                yield
            finally:
                if running is not None:
                    await asyncio.to_thread(running.stop, duration(grace, "grace"))

        return manage

    def connection(self) -> Any:
        """A connection of the right build to the app's database, for `enqueue(…, connection=…)`: a SQLAlchemy
        Connection in a write transaction, to be used in a `with` block and committed by the caller."""
        return self.program.database.engine.connect()

    def close(self) -> None:
        """Closes every connection; the next use opens anew."""
        self.program.runtime.close()


def _bare(tool: str, arguments: Mapping[str, Any], options: Options) -> BareJob:
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"enqueue() has no argument {min(unknown)!r}")
    delay, priority = options.get("delay"), options.get("priority")
    if priority is not None and not 0 <= priority <= 10:
        raise InvalidInput(f"priority {priority} is not within 0…10", field="priority")
    return BareJob(
        tool=tool,
        arguments=arguments,
        tenant_id=checked_name(options.get("tenant_id", DEFAULT_TENANT), "tenant_id"),
        project_id=_optional_name(options.get("project_id"), "project_id"),
        user_id=_optional_name(options.get("user_id"), "user_id"),
        idempotency_key=options.get("idempotency_key"),
        delay_s=None if delay is None else duration(delay, "delay"),
        priority=priority,
    )


def _optional_name(value: str | None, field: str) -> str | None:
    return None if value is None else checked_name(value, field)
