"""Log lines for people: one line an outcome, severity and time first, as klog writes them."""

import logging
import sys
from datetime import UTC, datetime

_LETTERS = {
    logging.DEBUG: "D",
    logging.INFO: "I",
    logging.WARNING: "W",
    logging.ERROR: "E",
    logging.CRITICAL: "F",
}


class KlogFormatter(logging.Formatter):
    """``I1121 09:23:43.123456 runtime.reflector] text``, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record; a traceback follows on lines of its own."""
        at = datetime.fromtimestamp(record.created, tz=UTC)
        name = record.name.removeprefix("endpointd.")
        line = f"{_LETTERS.get(record.levelno, 'I')}{at:%m%d %H:%M:%S.%f} {name}] {record.getMessage()}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def configure(verbosity: int) -> None:
    """Send the logs to standard error: at 0 what an operator should know, from 4 on each request and decision."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KlogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    level = logging.DEBUG if verbosity >= 4 else logging.INFO
    logging.getLogger("endpointd").setLevel(level)
