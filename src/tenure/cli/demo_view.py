"""How the demo is shown: live bars on a terminal, lines elsewhere, one JSON object for programs."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.prompt import Confirm
from rich.table import Table
from rich.text import Text

from tenure.cli.demo_facts import STEPS, Killed, Result, State
from tenure.cli.demo_story import closing, lease_line
from tenure.cli.output import clock_time, print_json
from tenure.records import Approval, Event, Job
from tenure.states import JobStatus

if TYPE_CHECKING:
    from tenure import Tenure

WIDTH = 24


def view_of(*, as_json: bool, yes: bool) -> View:
    """The view for this output."""
    if as_json:
        return JsonView(yes)
    return LiveView(yes) if sys.stdout.isatty() else LineView(yes)


class View(ABC):
    """What the story tells of itself. Entering shows nothing yet; leaving clears what was only for the moment."""

    def __init__(self, yes: bool) -> None:
        self._yes = yes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @abstractmethod
    def begin(self, demo: Tenure, session: str) -> None: ...
    @abstractmethod
    def note(self, text: str, style: str = "") -> None: ...
    @abstractmethod
    def show(self, state: State) -> None: ...
    @abstractmethod
    def end(self, result: Result) -> None: ...

    def killed(self, killed: Killed, job: Job) -> None:
        """Worker 1 is gone, and nobody tells the database."""
        self.note(
            f"{clock_time(killed.at)}  SIGKILL to worker-1 (pid {killed.pid}) inside {killed.stage}: "
            f"exit code {killed.returncode}",
            "bold red",
        )
        if job.lease_expires_at is not None:
            left = (job.lease_expires_at - killed.at).total_seconds()
            self.note(f"            its lease on {job.tool}, token {killed.fencing_token}, runs out in {left:.1f} s")

    def agrees(self, approval: Approval, draft: Path) -> bool:
        """A person's answer; nobody and nothing waits at it but this process."""
        rows = approval.items[0]["arguments"].get("rows", {})
        counts = ", ".join(f"{count:,} {name}" for name, count in rows.items())
        self.note(f"approval needed: publish the workbook and the report ({counts})", "bold yellow")
        self.note(f"the report to be published is {draft}")
        if self._yes:
            self.note("--yes: approved")
            return True
        return self._ask()

    def _ask(self) -> bool:
        return bool(Confirm.ask("Publish?", console=Console(stderr=True), default=False))


class JsonView(View):
    """Silent up to the one object."""

    def begin(self, demo: Tenure, session: str) -> None:
        return None

    def note(self, text: str, style: str = "") -> None:
        return None

    def show(self, state: State) -> None:
        return None

    def agrees(self, approval: Approval, draft: Path) -> bool:
        return self._yes or self._ask()

    def end(self, result: Result) -> None:
        print_json(result.as_dict())


class Printing(View):
    """What lines and live bars share."""

    def __init__(self, yes: bool) -> None:
        super().__init__(yes)
        terminal = sys.stdout.isatty()
        self.console = Console(highlight=False, width=None if terminal else 120)

    def begin(self, demo: Tenure, session: str) -> None:
        self.note("tenure demo: clean a workbook, lose a worker, lose nothing", "bold")
        self.note(f"database  {demo.program.database.name}")
        self.note(f"session   {session}")
        self.note(f"leases    {lease_line(demo)}")

    def note(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def show(self, state: State) -> None:
        """Says what has happened since the last look, as the log has it."""
        for event in state.events:
            if event.payload.get("tool") in STEPS:
                self._tell(event, state)

    def _tell(self, event: Event, state: State) -> None:
        facts, token = event.payload, event.fencing_token or 0
        tool, worker = facts["tool"], facts.get("owner", "").partition(":")[0]
        match event.type:
            case "job_started" if facts["attempt"] == 1:
                self._at(event, f"{tool} claimed by {worker}, token {token}")
            case "job_started":
                kept = sum(stage.fencing_token < token for stage in state.saved)
                self._at(event, f"{worker} took over {tool}, token {token}; finished stages kept: {kept}", "bold green")
            case "lease_expired":
                self._at(event, f"nobody renewed {worker}'s lease on {tool}: it is queued again", "yellow")
            case "job_completed":
                self._at(event, f"{tool} completed, token {token}")
            case "job_failed":
                self._at(event, f"{tool} failed: {facts.get('code')}: {facts.get('text')}", "bold red")
            case _:
                pass

    def _at(self, event: Event, text: str, style: str = "") -> None:
        self.note(f"{clock_time(event.created_at)}  {text}", style)

    def end(self, result: Result) -> None:
        for part in closing(result):
            self.console.print(part, soft_wrap=isinstance(part, Text))


class LineView(Printing):
    """A line for each thing that happens."""


class LiveView(Printing):
    """Lines, and under them a bar for each step."""

    def __init__(self, yes: bool) -> None:
        super().__init__(yes)
        self._live = self._new_live()

    def _new_live(self) -> Live:
        return Live(console=self.console, refresh_per_second=12, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, state: State) -> None:
        super().show(state)
        self._live.update(Group(Text(), _bars(state)))

    def _ask(self) -> bool:
        self._live.stop()
        answer = bool(Confirm.ask("Publish?", console=self.console, default=False))
        self._live = self._new_live()  # a used one would clear what was printed meanwhile
        self._live.start()
        return answer


def _bars(state: State) -> Table:
    table = Table.grid(padding=(0, 2))
    for step in STEPS:
        job = state.jobs.get(step)
        table.add_row(Text(step), _bar(job), *_holder(job, state, step))
    return table


def _bar(job: Job | None) -> ProgressBar:
    done = 0.0 if job is None else 1.0 if job.status == JobStatus.COMPLETED else _share(job.progress)
    return ProgressBar(total=1.0, completed=done, width=WIDTH)


def _share(progress: Any) -> float:
    value = progress.get("value") if isinstance(progress, Mapping) else None
    return float(value) if isinstance(value, int | float) else 0.0


def _holder(job: Job | None, state: State, step: str) -> tuple[Text, Text]:
    if job is None or job.fencing_token is None:
        asked = any(step in approval.tools for approval in state.pending)
        return Text("waits for a person", "yellow") if asked else Text("-", "dim"), Text()
    owner = (job.lease_owner or "").partition(":")[0]
    holder = Text(f"{owner}  token {job.fencing_token}")
    if job.status != JobStatus.RUNNING or job.lease_expires_at is None:
        return holder, Text(str(job.status), "green" if job.status == JobStatus.COMPLETED else "")
    left = (job.lease_expires_at - state.now).total_seconds()
    return holder, Text(f"lease ends in {max(left, 0.0):.1f} s", "cyan" if left > 4 else "red")
