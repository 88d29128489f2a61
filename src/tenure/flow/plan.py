"""2. Planning: what the planner sees, and what its answer must be before it gains any authority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import InvalidInput, NoPlanner, NotFound, TerminalError
from tenure.flow import facts
from tenure.flow.outcomes import Planned
from tenure.flow.program import Program
from tenure.planner import Final, Step, Steps, TurnView, references
from tenure.planner.steps import ItemView
from tenure.records import Lease, PlanItem, RowKey, Turn
from tenure.states import ItemStatus, TurnStatus
from tenure.store import plans, projects, sessions, turns
from tenure.store.plans import NewItem

# How long a round waits for a program that knows its command, each time that one without it claimed it.
ELSEWHERE_S = 5.0


def view(program: Program, lease: Lease) -> TurnView:
    """The turn as its planner sees it."""

    def body(tx: Tx) -> TurnView:
        turn = turns.get(tx, RowKey(lease.tenant_id, lease.turn_id or ""))
        assert turn is not None
        session = sessions.get(tx, turn.session)
        project = None
        if turn.project_id is not None:
            project = projects.get(tx, RowKey(turn.tenant_id, turn.project_id))
        return TurnView(
            tenant_id=turn.tenant_id,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            project_id=turn.project_id,
            user_id=turn.user_id,
            input=turn.input,
            command=turn.command,
            profile=turn.profile,
            round=lease.round or 1,
            steps=turn.steps,
            items=[_item_view(item) for item in plans.of_turn(tx, turn.key)],
            settings=project.settings if project else {},
            summary=session.summary if session else "",
        )

    return program.database.read(body)


def _item_view(item: PlanItem) -> ItemView:
    arguments = item.arguments if item.final_arguments is None else item.final_arguments
    return ItemView(item.name, item.tool, item.status, arguments, item.output, item.error_code, item.error_text)


def ask(program: Program, lease: Lease) -> Planned:
    """Asks the planner for the round of this job and checks the answer. Raises what the planner raises.

    Runs outside any transaction, under the lease of the planning job.
    """
    turn = view(program, lease)
    try:
        planner = program.planner_of(turn)
    except NotFound as error:
        raise NoPlanner(str(error), retry_after=ELSEWHERE_S, charge=False) from None
    answer = planner.next(turn)
    match answer:
        case Final():
            return Planned(answer, canon.encode(answer.output))
        case Steps():
            check(program, turn, answer)
            return Planned(answer, canon.encode({"steps": [step.name for step in answer.steps]}))
        case _:
            raise TerminalError(f"a planner returns Steps or Final, not {type(answer).__name__}", code="plan_invalid")


def check(program: Program, turn: TurnView, answer: Steps) -> None:
    """Refuses a plan that names an unknown tool, reuses or misses a name, does not validate, or goes in circles."""
    known = {item.name for item in turn.items}
    lost = {item.name for item in turn.items if item.status in (ItemStatus.SKIPPED, ItemStatus.CANCELLED)}
    if len(known) + len(answer.steps) > program.settings.max_steps:
        raise TerminalError(f"more than {program.settings.max_steps} steps in one turn", code="too_many_steps")
    if not answer.steps:
        raise TerminalError("a round without steps; return Final(…) to end the turn", code="plan_invalid")
    for step in answer.steps:
        try:
            _check_step(program, step, known, lost)
        except (InvalidInput, LookupError) as error:
            raise TerminalError(f"step {step.name!r}: {error}", code="plan_invalid") from None
        known.add(step.name)


def _check_step(program: Program, step: Step, earlier: set[str], lost: set[str]) -> None:
    if canon.name(step.name, "name") != step.name or "." in step.name:
        raise InvalidInput("a step's name has no blanks around it and no dots", field="name")
    if step.name in earlier:
        raise InvalidInput("the name is taken in this turn", field="name")
    if step.tool not in program.tools:
        raise InvalidInput(f"no tool {step.tool!r} is registered", field="tool")
    missing = [name for name in dependencies(step) if name not in earlier]
    if missing:
        raise InvalidInput(f"depends on {missing[0]!r}, which no earlier step is named", field="arguments")
    never = [name for name in dependencies(step) if name in lost]
    if never:
        raise InvalidInput(f"depends on {never[0]!r}, which was skipped", field="arguments")
    canon.encode(step.arguments)
    if not any(True for _ in references(step.arguments)):
        program.tools.get(step.tool).validated(step.arguments)


def dependencies(step: Step) -> list[str]:
    """The steps whose outputs it refers to or that it was told to come after, in order, each once."""
    named = [path.split(".")[0] for path in references(step.arguments)] + step.depends_on
    return list(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a settled planning job leads to: the turn's end, or items to be assessed."""

    final: Final | None
    items: int = 0


def accept(tx: Tx, program: Program, turn: Turn, number: int, planned: Planned) -> Accepted:
    """Writes the answer to a turn that this transaction has locked. A turn that has ended takes none."""
    if isinstance(planned.answer, Final):
        return Accepted(planned.answer)
    steps = planned.answer.steps
    turns.change(tx, turn.key, round=number, status=TurnStatus.RUNNING)
    items = [_new_item(program, turn, number, place, step) for place, step in enumerate(steps, start=1)]
    plans.insert(tx, items)
    shown: list[dict[str, Any]] = [
        {"item_id": item.item_id, "name": item.name, "tool": item.tool, "depends_on": item.depends_on} for item in items
    ]
    facts.of_turn(tx, turn, "plan_created", round=number, items=shown)
    return Accepted(None, len(items))


def _new_item(program: Program, turn: Turn, number: int, place: int, step: Step) -> NewItem:
    spec = program.tools.get(step.tool)
    return NewItem(
        tenant_id=turn.tenant_id,
        item_id=canon.uuid7(),
        turn_id=turn.turn_id,
        round=number,
        position=place,
        name=step.name,
        tool=spec.name,
        mode=spec.mode,
        arguments=step.arguments,
        depends_on=dependencies(step),
        optional=step.is_optional,
    )
