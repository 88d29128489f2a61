"""The context of a plain tool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from tenure import canon
from tenure.context.bounded import within
from tenure.context.effects import EffectCall, Ended, NotDone, Reconcile, Repeat, of_answer, of_error
from tenure.context.hold import Hold, State, boottime
from tenure.errors import CancelRequested, InvalidInput, NotFound, OwnershipLost, TerminalError
from tenure.flow import during, effects
from tenure.flow.during import StagePlace
from tenure.flow.effects import EffectRequest
from tenure.flow.enqueue import BareJob, enqueue
from tenure.flow.program import Program
from tenure.payload import storable
from tenure.records import Artifact, Job, Lease, RowKey, Stage
from tenure.store import artifacts, projects

_any: TypeAdapter[Any] = TypeAdapter(Any)
_GUARD = threading.Lock()  # one for all attempts: held for a moment, and most attempts never need it


class Attempt:
    """One attempt of one job in this process: what both kinds of context work on. Loads nothing until asked."""

    def __init__(self, program: Program, owner: str, hold: Hold, state: Any = None) -> None:
        self.program = program
        self.owner = owner
        self.hold = hold
        self.state = state
        self._entered: set[StagePlace] = set()
        self._saved: dict[StagePlace, Stage] | None = None
        self._settings: Mapping[str, Any] | None = None
        self._database_id: str | None = None

    @property
    def lease(self) -> Lease:
        return self.hold.lease

    def require(self) -> None:
        """Waits for an unknown ownership to become known. OwnershipLost, CancelRequested."""
        if not self.hold.wait_owned():
            raise OwnershipLost(f"job {self.lease.job_id}: the lease is over")
        if self.hold.cancel_requested:
            raise CancelRequested(f"job {self.lease.job_id} is to be cancelled")

    def enter(self, name: str, part: str) -> StagePlace:
        """A name may be entered once an attempt."""
        place = placed(name, part)
        with _GUARD:
            if place in self._entered:
                raise TerminalError(
                    f"{place} was entered twice in one attempt; tell them apart by part=", code="entered_twice"
                )
            self._entered.add(place)
        return place

    def saved(self, place: StagePlace) -> Stage | None:
        """What an earlier attempt saved; all of it is read at once."""
        with _GUARD:
            if self._saved is None:
                self._saved = during.saved_stages(self.program, self.lease)
            return self._saved.get(place)

    def save(self, place: StagePlace, digest: str, value: Any) -> Any:
        """Saves a stage and gives back the decoded stored value."""
        encoded = canon.encode(storable(_any.dump_python(value, mode="json")))
        sent_at = boottime()
        remaining_s = during.save_stage(self.program, self.owner, self.lease, place, digest, encoded)
        self.hold.confirm(sent_at, remaining_s, False)
        self.hold.progressed_at = sent_at
        return _any.validate_json(encoded)

    def settings(self) -> Mapping[str, Any]:
        """The project's settings, read once an attempt."""
        if self._settings is None:
            project_id = self.lease.project_id
            key = RowKey(self.lease.tenant_id, project_id or "")
            found = self.program.database.read(lambda tx: projects.get(tx, key)) if project_id else None
            self._settings = found.settings if found else {}
        return self._settings

    def resource(self, name: str | None) -> str:
        """What a fence is about: the slot of a tool that writes one, else the job, unless named."""
        if self._database_id is None:
            self._database_id = effects.database_id(self.program)
        return f"{self._database_id}/{name or self.lease.slot_key or f'job/{self.lease.job_id}'}"

    def request(
        self, place: StagePlace, request: Any, key: str | None, resource: str | None, repeat: Repeat
    ) -> EffectRequest:
        """The effect to enter."""
        return EffectRequest(
            place=place,
            digest=canon.digest(request),
            key=key or f"tenure:{self.lease.job_id}:{place}",
            resource=self.resource(resource),
            repeat=repeat if isinstance(repeat, str) else "reconcile",
        )

    def call(self, request: EffectRequest) -> EffectCall:
        return EffectCall(request.key, self.lease.fencing_token, request.resource, request.place.name)

    def artifact_path(self, artifact_id: str) -> Path:
        """Where an artifact's file is. NotFound."""
        key = RowKey(self.lease.tenant_id, artifact_id)
        found = self.program.database.read(lambda tx: artifacts.get(tx, key))
        if found is None:
            raise NotFound(f"no artifact {artifact_id!r}")
        return self.program.runtime.files.path(found.location)


class ToolContext:
    """What a plain tool sees. Calls that write raise OwnershipLost when this attempt no longer owns its job, and
    CancelRequested when somebody asked to cancel it; let both pass."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    # -- who am I ------------------------------------------------------------------------------------------------------

    @property
    def tenant_id(self) -> str:
        return self._attempt.lease.tenant_id

    @property
    def job_id(self) -> str:
        return self._attempt.lease.job_id

    @property
    def turn_id(self) -> str | None:
        return self._attempt.lease.turn_id

    @property
    def session_id(self) -> str | None:
        return self._attempt.lease.session_id

    @property
    def project_id(self) -> str | None:
        return self._attempt.lease.project_id

    @property
    def user_id(self) -> str | None:
        return self._attempt.lease.user_id

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._attempt.lease.attempt

    @property
    def fencing_token(self) -> int:
        return self._attempt.lease.fencing_token

    @property
    def state(self) -> Any:
        """What the app's lifespan yielded."""
        return self._attempt.state

    @property
    def settings(self) -> Mapping[str, Any]:
        """The project's settings; empty without a project."""
        return self._attempt.settings()

    # -- do I still own it ---------------------------------------------------------------------------------------------

    @property
    def ownership(self) -> State:
        """ "owned", "unknown" or "lost", now."""
        return self._attempt.hold.state()

    def require_ownership(self) -> None:
        """Returns while this attempt owns its job; waits while that is unknown, at most to the local deadline."""
        self._attempt.require()

    @property
    def cancelled(self) -> bool:
        """Whether the tool should stop: cancel asked for, time over, or the lease lost."""
        hold = self._attempt.hold
        return hold.cancel_requested or hold.stop is not None or hold.state() == "lost"

    # -- what it says and keeps ----------------------------------------------------------------------------------------

    def progress(self, value: Any = None, /, **fields: Any) -> None:
        """Reports progress: a number from 0 to 1, a text, or fields. The latest wins; a few a second are stored."""
        hold = self._attempt.hold
        hold.progress = {**({} if value is None else {"value": value}), **fields}

    def stage(self, name: str, fn: Callable[..., Any], *args: Any, timeout: str | None = None, part: str = "") -> Any:
        """Runs `fn(*args)` once for the job and gives back what was stored; a later attempt gets the stored value.

        With other arguments than the stored ones it runs anew. Arguments and result are JSON values. StageTimeout when
        it takes longer than `timeout`, a duration: the attempt then ends unless the tool catches it.
        """
        found, stored = self.find_stage(name, args, part)
        return stored if found else self.save_stage(name, args, within(timeout, name, fn, *args), part)

    def find_stage(self, name: str, args: tuple[Any, ...], part: str = "") -> tuple[bool, Any]:
        """Enters a stage; whether an earlier attempt saved it for these arguments, and what."""
        attempt = self._attempt
        place = attempt.enter(name, part)
        attempt.require()
        found = attempt.saved(place)
        if found is not None and found.digest == digest_of(place, args):
            return True, found.answer
        return False, None

    def save_stage(self, name: str, args: tuple[Any, ...], value: Any, part: str = "") -> Any:
        """Saves an entered stage and gives back the decoded stored value."""
        place = placed(name, part)
        return self._attempt.save(place, digest_of(place, args), value)

    def effect(
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
        """Reaches outside once: `send(call)` carries the key and the fence; its answer (a JSON value, or the JSON of a
        2xx response) is stored and given back, and a later attempt gets it without sending.

        `repeat` says what to do when an earlier attempt's outcome is unknown: "never" ends the job
        (`outcome_unknown`), "safe" sends again under the same key, a function of the call looks and returns the
        answer, or `call.not_done(reason)`, or None when it cannot tell.
        """
        attempt = self._attempt
        place = attempt.enter(name, part)
        attempt.require()
        wanted = attempt.request(place, request, key, resource, repeat)
        found = effects.enter(attempt.program, attempt.owner, attempt.lease, wanted)
        call = attempt.call(wanted)
        if found is not None and found.state == "done":
            return found.answer
        if found is not None and callable(repeat):
            ended = reconciled(wanted, call, repeat)
            if ended is not None:
                return self._finished(wanted, ended)
            effects.restart(attempt.program, attempt.owner, attempt.lease, wanted)
        try:
            ended = of_answer(wanted, call, send(call))
        except BaseException as error:  # noqa: BLE001  (every ending of a request is recorded, then raised)
            ended = of_error(wanted, call, error)
        return self._finished(wanted, ended)

    def _finished(self, wanted: EffectRequest, ended: Ended) -> Any:
        attempt = self._attempt
        effects.finish(attempt.program, attempt.owner, attempt.lease, wanted, ended.end)
        if ended.error is not None:
            raise ended.error
        return _any.validate_json(ended.end.answer or "null")

    def artifact(
        self, name: str, source: bytes | Path | BinaryIO, media_type: str = "application/octet-stream"
    ) -> Artifact:
        """Stores a file and publishes it under the predicate: a stale owner publishes nothing."""
        attempt = self._attempt
        attempt.require()
        return during.publish(attempt.program, attempt.owner, attempt.lease, name, source, media_type)

    def artifact_path(self, artifact_id: str) -> Path:
        """The file of an artifact, to be read. NotFound."""
        return self._attempt.artifact_path(artifact_id)

    def enqueue(self, name: str, tool: Any, /, *, part: str = "", **arguments: Any) -> Job:
        """Makes a bare job once, however often this attempt or a later one comes here."""
        attempt = self._attempt
        place = attempt.enter(name, part)
        attempt.require()
        request = BareJob(
            tool=tool if isinstance(tool, str) else tool.name,
            arguments=arguments,
            tenant_id=self.tenant_id,
            project_id=self.project_id,
            user_id=self.user_id,
            idempotency_key=f"job/{self.job_id}/{place}",
        )
        return enqueue(attempt.program, request)[0]


def placed(name: str, part: str) -> StagePlace:
    """The place that a name and a part mean."""
    return StagePlace(canon.name(name, "stage"), canon.name(part, "part") if part else "")


def digest_of(place: StagePlace, args: tuple[Any, ...]) -> str:
    """The digest of a stage's arguments."""
    try:
        return canon.digest(_any.dump_python(list(args), mode="json"))
    except Exception as error:  # noqa: BLE001  (whatever a serializer raises)
        raise InvalidInput(f"stage {place}: its arguments must be JSON values: {error}", field="args") from None


def reconciled(wanted: EffectRequest, call: EffectCall, look: Reconcile) -> Ended | None:
    """What looking found: an ending, or None when it was not done and may be sent."""
    found = look(call)
    if isinstance(found, NotDone):
        return None
    if found is None:
        text = f"effect {wanted.place}: the reconcile function cannot tell"
        return Ended(
            effects.EffectEnd("unknown", None, call.external, "outcome_unknown", text),
            TerminalError(text, code="outcome_unknown"),
        )
    return of_answer(wanted, call, found)
