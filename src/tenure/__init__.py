"""Tenure: a durable runtime for AI agents, in your own database.

The public names are imported when they are first used, so that `tenure --help` and `import tenure` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "app": ("Job", "Tenure", "Tool", "Turn"),
    "context": ("AsyncToolContext", "EffectCall", "ToolContext"),
    "errors": ("RetryableError", "TenureError", "TerminalError"),
    "planner": ("Final", "From", "Step", "Steps", "TurnView"),
    "tools": ("Call",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tenure' has no attribute {name!r}")
    value = getattr(import_module(f"tenure.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
