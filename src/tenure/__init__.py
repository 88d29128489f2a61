"""Tenure: a durable runtime for AI agents, in your own database."""

from tenure.app import Job, Tenure, Tool, Turn
from tenure.context import AsyncToolContext, EffectCall, ToolContext
from tenure.errors import RetryableError, TenureError, TerminalError
from tenure.planner import Final, From, Step, Steps, TurnView
from tenure.tools import Call

__version__ = "0.1.0"

__all__ = [
    "AsyncToolContext",
    "Call",
    "EffectCall",
    "Final",
    "From",
    "Job",
    "RetryableError",
    "Step",
    "Steps",
    "Tenure",
    "TenureError",
    "TerminalError",
    "Tool",
    "ToolContext",
    "Turn",
    "TurnView",
    "__version__",
]
