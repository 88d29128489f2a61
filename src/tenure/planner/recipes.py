"""Recipes: a registered Python function per command, the embedded default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenure.planner.steps import Final, Steps, TurnView


@dataclass(frozen=True, slots=True)
class Recipe:
    """A planner from a function of the turn.

    The function is asked each round. One that proposes nothing but steps that the turn has already has said all: the
    answer is then the outputs of the steps by name. So a recipe may simply return its steps.
    """

    name: str
    fn: Callable[[TurnView], Steps | Final]

    def next(self, turn: TurnView) -> Steps | Final:
        answer = self.fn(turn)
        known = {item.name for item in turn.items}
        if isinstance(answer, Steps) and known and all(step.name in known for step in answer.steps):
            return Final(turn.outputs)
        return answer
