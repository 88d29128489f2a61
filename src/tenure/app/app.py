"""`Tenure`: tools and recipes are registered on it, and each of its methods is one call into the house."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, Unpack, cast, overload

from tenure import flow
from tenure.app.asking import (
    Options,
    TurnOptions,
    agreement,
    bare_job,
    checked_cursor,
    json_object,
    row_key,
    turn_request,
)
from tenure.app.declaring import declared
from tenure.app.embedding import lifespan, running
from tenure.app.handles import Job, Turn, follow
from tenure.app.tool import Decorator, Tool
from tenure.canon import name as checked_name
from tenure.db.adopt import adopted
from tenure.errors import NotFound, SettingsError
from tenure.flow import BareJob, Decision, Program
from tenure.planner import Final, Planner, Recipe, Step, Steps, TurnView
from tenure.records import DEFAULT_TENANT, Approval, Artifact, Event, RowKey, Session, SessionKey
from tenure.runtime import Runtime
from tenure.settings import load
from tenure.store import approvals, artifacts, events, jobs, projects, sessions, turns
from tenure.tools import Approval as ApprovalPolicy
from tenure.tools import Isolation, OnRefusal, Registry, ToolSpec
from tenure.worker import Lifespan, Worker

T = TypeVar("T")


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
        bare: None = None,
        /,
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
        options = {option: value for option, value in locals().items() if option not in ("self", "bare")}
        if bare is not None:
            raise SettingsError("write @app.tool() with its parentheses")

        def register(fn: Callable[..., Any]) -> Tool[..., Any]:
            spec = declared(fn, options)
            self._tools.add(spec)
            return Tool(self, spec)

        return cast("Decorator", register)

    def recipe(self, command: str) -> Callable[[Callable[[TurnView], Steps | Final]], Recipe]:
        """Registers a function as the planner of a command."""

        def register(fn: Callable[[TurnView], Steps | Final]) -> Recipe:
            recipe = Recipe(checked_name(command, "command"), fn)
            if recipe.name in self._planners:
                raise SettingsError(f"command {recipe.name!r} has two recipes")
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
        request = bare_job(tool if isinstance(tool, str) else tool.name, input, options)
        if connection is None:
            row, replayed = flow.enqueue(self.program, request)
        else:
            row, replayed = self._enqueue_on(connection, request)
        return Job(self.program, row, self._tools.get(request.tool), replayed=replayed)

    def _enqueue_on(self, connection: Any, request: BareJob) -> Any:
        with adopted(self.program.database, connection) as tx:
            return flow.enqueue_on(self.program, tx, request)

    def _enqueue_tool(self, spec: ToolSpec, arguments: dict[str, Any]) -> Job[Any]:
        """What `tool.enqueue(…)` calls."""
        row, replayed = flow.enqueue(self.program, BareJob(tool=spec.name, arguments=arguments))
        return Job(self.program, row, spec, replayed=replayed)

    @overload
    async def aenqueue(self, tool: Tool[..., T], input: Mapping[str, Any], **options: Unpack[Options]) -> Job[T]: ...
    @overload
    async def aenqueue(self, tool: str, input: Mapping[str, Any], **options: Unpack[Options]) -> Job[Any]: ...
    async def aenqueue(self, tool: Any, input: Mapping[str, Any], **options: Unpack[Options]) -> Job[Any]:
        """As `enqueue`, from async code; `connection` may also be an AsyncConnection or AsyncSession."""
        connection: Any = options.get("connection")
        if hasattr(connection, "run_sync"):
            rest: Any = {option: value for option, value in options.items() if option != "connection"}
            made: Job[Any] = await connection.run_sync(lambda sync: self.enqueue(tool, input, connection=sync, **rest))
            return made
        return await asyncio.to_thread(lambda: self.enqueue(tool, input, **options))

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
        fields = {
            "session_id": session_id,
            "profile": profile,
            "project_id": project_id,
            "user_id": user_id,
            "tenant_id": tenant_id,
            "idempotency_key": idempotency_key,
            "on_busy": on_busy,
        }
        request = turn_request(input, steps=steps, command=command, commands=self._planners, fields=fields)
        row, replayed = flow.submit(self.program, request)
        return Turn(self.program, row, replayed=replayed)

    async def asubmit(self, input: Any = None, **options: Unpack[TurnOptions]) -> Turn:
        """As `submit`, from async code."""
        return await asyncio.to_thread(lambda: self.submit(input, **options))

    # -- deciding ------------------------------------------------------------------------------------------------------

    def approve(
        self,
        approval_id: str,
        *,
        by: str,
        scope: Mapping[str, Any] | None = None,
        expires: str | datetime | None = None,
        uses: int | None = None,
        reason: str | None = None,
        source: str | None = None,
        tenant_id: str = DEFAULT_TENANT,
    ) -> Approval:
        """A person agrees: once, or for a `scope` of arguments until `expires` (a duration, or an instant with its
        offset) and for so many `uses`. NotFound, AlreadyDecided, ApprovalExpired, InvalidInput.
        """
        key = row_key(tenant_id, approval_id, "approval")
        given = {"by": by, "reason": reason, "source": source}
        return self._decide(agreement(key, scope=scope, expires=expires, uses=uses, **given))

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
        key = row_key(tenant_id, approval_id, "approval")
        return self._decide(
            Decision(approval_id=key.id, approve=False, by=by, tenant_id=tenant_id, source=source, reason=reason)
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
        key = row_key(tenant_id, id, "job or turn")
        is_job = self.program.database.read(lambda tx: jobs.get(tx, key)) is not None
        settled = (flow.cancel_job if is_job else flow.cancel_turn)(self.program, key, by)
        flow.follow(self.program, settled)

    def retry(self, job_id: str, *, by: str = "user", tenant_id: str = DEFAULT_TENANT) -> Job[Any]:
        """Opens a failed or cancelled job again. NotFound, StateConflict, SessionBusy."""
        return self.job(job_id, tenant_id=tenant_id).retry(by)

    # -- reading -------------------------------------------------------------------------------------------------------

    def job(self, job_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Job[Any]:
        """A job by its id. NotFound."""
        row = self.program.database.read(lambda tx: jobs.get(tx, row_key(tenant_id, job_id, "job")))
        if row is None:
            raise NotFound(f"no job {job_id!r}")
        return Job(self.program, row, self._tools.get(row.tool) if row.tool in self._tools else None)

    def turn(self, turn_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Turn:
        """A turn by its id. NotFound."""
        row = self.program.database.read(lambda tx: turns.get(tx, row_key(tenant_id, turn_id, "turn")))
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
        """Events of a session strictly after a cursor. NotFound; InvalidInput for a cursor that is none."""
        checked_cursor(after)
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

        stored = json_object(settings, "settings")

        def body(tx: Any) -> None:
            projects.ensure(tx, key)
            projects.set_settings(tx, key, stored)

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

    def artifacts(self, of: str, *, tenant_id: str = DEFAULT_TENANT) -> list[Artifact]:
        """What a turn or a job published, by its id, oldest first."""
        key = row_key(tenant_id, of, "turn or job")
        return self.program.database.read(lambda tx: artifacts.of_turn(tx, key) or artifacts.of_job(tx, key))

    def artifact_path(self, artifact: Artifact) -> Path:
        """Where an artifact's file is. NotFound."""
        return self.program.runtime.files.path(artifact.location)

    # -- running -------------------------------------------------------------------------------------------------------

    def worker(
        self,
        *,
        name: str = "embedded",
        slots: int = 10,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
        grace: str = "30s",
    ) -> AbstractContextManager[Worker]:
        """A worker in this process for the body; leaving releases what it still holds."""
        return running(lambda: self.new_worker(name=name, slots=slots, only=only, without=without), grace)

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

        return lifespan((lambda: self.new_worker(name="embedded")) if worker else None, grace)

    def connection(self) -> Any:
        """A connection of the right build to the app's database, for `enqueue(…, connection=…)`: a SQLAlchemy
        Connection in a write transaction, to be used in a `with` block and committed by the caller."""
        return self.program.database.engine.connect()

    def close(self) -> None:
        """Closes every connection; the next use opens anew."""
        self.program.runtime.close()
