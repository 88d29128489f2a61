"""What a tool sees while it runs."""

from tenure.context.aio import AsyncToolContext
from tenure.context.effects import EffectCall
from tenure.context.hold import Hold, State, Stop, boottime
from tenure.context.tool import Attempt, ToolContext

__all__ = ["AsyncToolContext", "Attempt", "EffectCall", "Hold", "State", "Stop", "ToolContext", "boottime"]
