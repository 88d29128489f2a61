"""The command `tenure`: commands in groups, one file each. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; every error is one line on stderr."""
    from tenure.cli.faults import reported
    from tenure.cli.root import command

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = command().main(args=given or ["--help"], prog_name="tenure", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  (the outermost place: whatever it was becomes one line)
        return reported(error)
    return code if isinstance(code, int) else 0
