"""What every verb of the flow works with: an open runtime, the registered tools, and who plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.db.engine import Database
from tenure.errors import NotFound
from tenure.planner import GivenSteps, Planner, TurnView
from tenure.runtime import Runtime
from tenure.settings import Settings
from tenure.tools import Registry

PLAN = "tenure.plan"


@dataclass(frozen=True, slots=True)
class Program:
    """`planners` by command; the default plans turns without one."""

    runtime: Runtime
    tools: Registry
    planners: Mapping[str, Planner] = field(default_factory=dict)

    @property
    def database(self) -> Database:
        return self.runtime.database

    @property
    def settings(self) -> Settings:
        return self.runtime.settings

    def planner_of(self, turn: TurnView) -> Planner:
        """Who plans this turn. NotFound lists the known commands."""
        if turn.steps is not None:
            return GivenSteps()
        planner = self.planners.get(turn.command or "")
        if planner is None:
            known = ", ".join(sorted(name for name in self.planners if name)) or "none"
            raise NotFound(f"no recipe for command {turn.command!r}; known: {known}")
        return planner
