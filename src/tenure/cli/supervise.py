"""The parent of a working process: starts it, passes signals on, replaces it when it crashed or asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from tenure.cli.faults import Code, say

PARENT = "TENURE_PARENT_FD"
LONGEST_S = 30.0
STEADY_S = 60.0
"""A process that lived so long was well: the next crash is waited for as the first."""


def working_command(options: Sequence[str]) -> list[str]:
    """The command line of a working process; -P: what lies in the current folder must not shadow Python's own."""
    return [sys.executable, "-P", "-m", "tenure", "worker", *options, "--alone"]


class Leash:
    """A pipe whose end in a child is at its end when this process is gone, however it went."""

    def __init__(self) -> None:
        self.child_end, self._own_end = os.pipe()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Starts a child in a session of its own: the terminal's Ctrl-C is for the parent, which passes it on."""
        environment = {**(options.pop("env", None) or os.environ), PARENT: str(self.child_end)}
        return subprocess.Popen(
            list(command), env=environment, pass_fds=(self.child_end,), start_new_session=True, **options
        )

    def close(self) -> None:
        for end in (self.child_end, self._own_end):
            os.close(end)


class Supervisor:
    """Runs a working process until it ends by itself, or by a signal to this one."""

    def __init__(self, options: Sequence[str]) -> None:
        self._command = working_command(options)
        self._child: subprocess.Popen[bytes] | None = None
        self._signals = 0
        self._stopping = threading.Event()
        self._crashes = 0

    def run(self) -> int:
        """Returns the exit code for `tenure worker`."""
        leash = Leash()
        before = {each: signal.signal(each, self._pass_on) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            return self._run(leash)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
            self._end_child()
            leash.close()

    def _run(self, leash: Leash) -> int:
        while not self._stopping.is_set():
            started = time.monotonic()
            self._child = leash.start(self._command)
            if self._stopping.is_set():  # it came while the child was started
                self._child.send_signal(signal.SIGTERM)
            code = self._child.wait()
            lived = time.monotonic() - started
            if self._stopping.is_set():
                return Code.FAILED if code < 0 else code
            if code >= 0 and code != Code.REPLACE:
                return code
            self._replace(code, lived)
        return Code.OK

    def _replace(self, code: int, lived: float) -> None:
        """Says why, and waits, longer after each crash that follows soon."""
        self._crashes = 1 if lived >= STEADY_S else self._crashes + 1
        pause = min(2.0 ** (self._crashes - 1), LONGEST_S)
        if code == Code.REPLACE:
            self._crashes = 0 if lived >= 1.0 else self._crashes
            pause = 0.0 if lived >= 1.0 else pause
            say("tenure worker: the working process asked to be replaced")
        else:
            ended = signal.Signals(-code).name
            pid = self._child.pid if self._child else 0
            say(f"tenure worker: working process {pid} was ended by {ended}; the next starts in {pause:g} s")
        self._stopping.wait(pause)

    def _pass_on(self, number: int, _: Any) -> None:
        self._signals += 1
        self._stopping.set()
        if self._child is not None and self._child.poll() is None and self._signals <= 2:
            self._child.send_signal(signal.SIGTERM)

    def _end_child(self) -> None:
        """Nothing of it is left behind, whatever happened here."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
