"""Log formatting: a constant message followed by key=value pairs, as klog text or as JSON.

Log calls have the form ``logger.info("controller stopped: controller=%s waiting=%d", ...)``: a constant
message, then keys with one value each. Both formats are derived from that, so log calls do not depend on the
format.
"""

import functools
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from aiokube.api.printable import printable
from aiokube.api.times import format_micro_time
from aiokube.process.redaction import redact

Format = Literal["text", "json"]
PACKAGES = ("aiokube", "tinykube", "endpointd")
FORMATS: tuple[Format, ...] = ("text", "json")

WRITES_VERBOSITY = 2
SYNCS_VERBOSITY = 4
REQUESTS_VERBOSITY = 6
LIBRARIES_VERBOSITY = 8

_LETTERS = {
    logging.DEBUG: "D",
    logging.INFO: "I",
    logging.WARNING: "W",
    logging.ERROR: "E",
    logging.CRITICAL: "F",
}
_DIRECTIVE = r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]"
_PAIRS = re.compile(rf"(?:^|:? )(?P<pairs>\w+={_DIRECTIVE}(?: \w+={_DIRECTIVE})*)$")
_PAIR = re.compile(rf"(\w+)=({_DIRECTIVE})")
_PLACE = re.compile(_DIRECTIVE)
_RESERVED = frozenset({"ts", "severity", "logger", "msg", "trace"})


class Template(msgspec.Struct, frozen=True):
    """The parsed format string of a log call."""

    message: str
    places: int
    """Placeholders inside the message: 0 if the message is constant."""
    pairs: tuple[tuple[str, str], ...]
    """The keys, each with the format directive of its value."""


@functools.lru_cache(maxsize=1024)
def parse_template(text: str) -> Template:
    """Parse a :mod:`logging` format string; without pairs at its end, the whole text is the message."""
    found = _PAIRS.search(text)
    if found is None:
        return Template(text, len(_PLACE.findall(text.replace("%%", ""))), ())
    message = text[: found.start()]
    pairs = tuple((key, directive) for key, directive in _PAIR.findall(found["pairs"]))
    return Template(message, len(_PLACE.findall(message.replace("%%", ""))), pairs)


def message_and_values(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """Return the message and the values of its keys: numbers and booleans unchanged, others as strings."""
    template = parse_template(str(record.msg))
    arguments = record.args
    if (
        not template.pairs
        or not isinstance(arguments, tuple)
        or len(arguments) != template.places + len(template.pairs)
    ):
        return record.getMessage(), {}
    message = template.message
    if template.places:
        message = message % arguments[: template.places]
    values: dict[str, Any] = {}
    for (key, directive), value in zip(template.pairs, arguments[template.places :], strict=True):
        shown = directive % (value,)  # the value may itself be a tuple
        if isinstance(value, bool | int):
            values[key] = value
        elif isinstance(value, float):
            values[key] = float(shown) if re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?", shown) else shown
        else:
            values[key] = shown
    return message, values


class KlogFormatter(logging.Formatter):
    """``I1121 09:23:43.123456 4711 runtime.manager] "running" controllers="endpointslice-controller"``, in UTC.

    A record is one line: a value cannot start another. A traceback follows on separate, indented lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        at = datetime.fromtimestamp(record.created, tz=UTC)
        message, values = message_and_values(record)
        pairs = "".join(
            f" {key}={value if isinstance(value, float | int) and not isinstance(value, bool) else _quoted(str(value))}"
            for key, value in values.items()
        )
        letter = _LETTERS.get(record.levelno, "I")
        head = f"{letter}{at:%m%d %H:%M:%S.%f} {os.getpid()} {_short(record.name)}]"
        line = f"{head} {_quoted(message)}{pairs}"
        if record.exc_info:
            indented = self.formatException(record.exc_info).replace("\n", "\n  ")
            line = f"{line}\n  {indented}"
        return redact(line)


class JsonFormatter(logging.Formatter):
    """JSON lines: ``ts`` (RFC 3339, UTC), ``severity``, ``logger``, ``msg``, the keys, and ``trace``.

    ``trace`` is the traceback of an exception. A key with one of these names gets a trailing ``_``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._encoder = msgspec.json.Encoder()

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        at = datetime.fromtimestamp(record.created, tz=UTC)
        message, values = message_and_values(record)
        line: dict[str, Any] = {
            "ts": format_micro_time(at),
            "severity": record.levelname.lower(),
            "logger": _short(record.name),
            "msg": redact(message),
        }
        for key, value in values.items():
            # Redact with the key, because "token=..." is recognised by the key.
            shown = redact(f"{key}={value}").partition("=")[2] if isinstance(value, str) else value
            line[f"{key}_" if key in _RESERVED else key] = shown
        if record.exc_info:
            line["trace"] = redact(self.formatException(record.exc_info))
        return self._encoder.encode(line).decode()


def configure(verbosity: int, logging_format: Format = "text", *, write_logger: str = "") -> None:
    """Send logs to standard error, in klog format or as JSON.

    ``write_logger`` names the logger that logs each write of the program.

    Verbosity 0 logs what an operator should know; 2 adds each write, 4 each sync, 6 each request, 8 the
    messages of libraries.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if logging_format == "json" else KlogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= LIBRARIES_VERBOSITY else logging.WARNING)
    ours = logging.DEBUG if verbosity >= SYNCS_VERBOSITY else logging.INFO
    for package in PACKAGES:
        logging.getLogger(package).setLevel(ours)
    writes = logging.DEBUG if verbosity >= WRITES_VERBOSITY else logging.INFO
    if write_logger:
        logging.getLogger(write_logger).setLevel(writes)
    requests = logging.DEBUG if verbosity >= REQUESTS_VERBOSITY else logging.INFO
    logging.getLogger("aiokube.client.http").setLevel(requests)


def _short(name: str) -> str:
    package, _, rest = name.partition(".")
    return rest if rest and package in PACKAGES else name


_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def _quoted(text: str) -> str:
    """Return the text as a Go string: in quotes, with nothing in it that could move the cursor."""
    return f'"{printable(text.translate(_ESCAPES))}"'
