"""Planners: anything with `next(context) -> Steps | Final`, asked once a round."""

from tenure.planner.given import GivenSteps
from tenure.planner.recipes import Recipe
from tenure.planner.steps import Final, From, Planner, Step, Steps, TurnView, references

__all__ = ["Final", "From", "GivenSteps", "Planner", "Recipe", "Step", "Steps", "TurnView", "references"]
