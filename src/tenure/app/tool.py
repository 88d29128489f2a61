"""A registered tool: still callable, and enqueued with the arguments of its function, typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from tenure.context import AsyncToolContext, ToolContext
from tenure.tools import ToolSpec

if TYPE_CHECKING:
    from tenure.app.handles import Job

P = ParamSpec("P")
R = TypeVar("R")


class Enqueues(Protocol):
    """What a tool needs of its app."""

    def _enqueue_tool(self, spec: ToolSpec, arguments: dict[str, Any]) -> Any: ...


class Tool(Generic[P, R]):
    """`tool.enqueue(**arguments) -> Job[R]` makes a bare job; calling the tool calls the function itself."""

    def __init__(self, app: Enqueues, spec: ToolSpec) -> None:
        self._app = app
        self.spec = spec
        self.name = spec.name
        self.__name__ = spec.name
        self.__doc__ = spec.fn.__doc__
        self.__module__ = spec.fn.__module__
        self.__wrapped__ = spec.fn

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.spec.fn(*args, **keywords)

    def enqueue(self, *args: P.args, **keywords: P.kwargs) -> Job[R]:
        """Makes a job of this call. InvalidInput names an argument that does not fit; NeedsTurn when the tool asks for
        approval or writes a slot."""
        if args:
            raise TypeError(f"{self.name}.enqueue takes named arguments only: they are stored by name")
        job: Job[R] = self._app._enqueue_tool(self.spec, dict(keywords))
        return job

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


class Decorator(Protocol):
    """`@app.tool(…)`: the context parameter, if there is one, is Tenure's to fill."""

    @overload
    def __call__(self, fn: Callable[Concatenate[AsyncToolContext, P], Awaitable[R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext, P], R], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...
