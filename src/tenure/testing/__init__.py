"""For tests of programs that use Tenure: a settable clock, kill points, and a worker that takes one step at a time.

- `Clock` moves a *test* database's clock; `attach_clock` lets a child process see it.
- `KillPoints` lists every point at which a process can die, and ends it at the n-th.
- `Driver` is a worker without threads: claim, begin, run, settle, follow, each when the test says so.
- `tenure_run` (module `plugin`) is the pytest fixture that holds them together.
"""

from tenure.testing.clock import Clock, attach_clock
from tenure.testing.drive import VANISH, Driver, Scripted
from tenure.testing.killing import Killed, KillPoints

__all__ = ["VANISH", "Clock", "Driver", "KillPoints", "Killed", "Scripted", "attach_clock"]
