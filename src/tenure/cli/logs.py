"""Log lines of the standard `logging` as a person or a program reads them."""

from __future__ import annotations

import json
import logging
from typing import Any

_OWN = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"})


def configure(*, as_json: bool) -> None:
    """Sends log lines to stderr, INFO and above."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else Text("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class Text(logging.Formatter):
    """A line, and its structured facts behind it."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        facts = "".join(f" {name}={value}" for name, value in _facts(record).items())
        return self.formatMessage(record) + facts + _trace(self, record, "\n")


class JsonLines(logging.Formatter):
    """A JSON object a line."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_facts(record),
        }
        trace = _trace(self, record, "")
        return json.dumps({**line, "traceback": trace} if trace else line, ensure_ascii=False, default=str)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _OWN}


def _trace(formatter: logging.Formatter, record: logging.LogRecord, before: str) -> str:
    return before + formatter.formatException(record.exc_info) if record.exc_info else ""
