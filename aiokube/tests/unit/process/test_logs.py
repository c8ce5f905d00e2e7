"""Log lines: one per outcome in both formats, constant keys, and no secrets."""

import ast
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokube.api.meta import ObjectKey
from aiokube.process import logs
from aiokube.process.logs import JsonFormatter, KlogFormatter, parse_template
from aiokube.process.redaction import redact

ROOT = Path(__file__).parents[4]
SOURCES = (ROOT / "aiokube/src", ROOT / "endpointd/src/endpointd/cli")


def record(
    text: str, *arguments: object, level: int = logging.INFO, failed: bool = False
) -> logging.LogRecord:
    details = None
    if failed:
        try:
            raise ValueError("token=hush-hush")
        except ValueError:
            details = sys.exc_info()
    made = logging.LogRecord("aiokube.runtime.x", level, "x.py", 1, text, arguments, details)
    made.created = 1_763_726_659.123456
    return made


def test_text_lines_follow_the_klog_format() -> None:
    line = KlogFormatter().format(
        record("controller stopped: controller=%s finished=%d waiting=%d", "endpoints", 2, 0)
    )
    assert re.fullmatch(
        r'I1121 12:04:19\.123456 \d+ runtime\.x\] "controller stopped" controller="endpoints" finished=2 waiting=0',
        line,
    )


def test_json_lines_contain_the_same_fields_with_their_types() -> None:
    line = JsonFormatter().format(
        record(
            "tried: attempt=%d next_try_seconds=%.3g ok=%s error=%s",
            3,
            1.5,
            False,
            'a "b"',
            level=logging.ERROR,
        )
    )
    assert json.loads(line) == {
        "ts": "2025-11-21T12:04:19.123456Z",
        "severity": "error",
        "logger": "runtime.x",
        "msg": "tried",
        "attempt": 3,
        "next_try_seconds": 1.5,
        "ok": False,
        "error": 'a "b"',
    }


def test_a_value_may_be_a_tuple() -> None:
    key = ObjectKey("shop", "web")
    assert KlogFormatter().format(record("done: key=%s", key)).endswith('] "done" key="shop/web"')


def test_line_breaks_in_values_are_escaped() -> None:
    evil = 'x"\nE1121 00:00:00 1 y] "all is lost'
    line = KlogFormatter().format(record("found: name=%s", f"{evil}\x1b[2J"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert "\n" not in JsonFormatter().format(record("found: name=%s", evil))


def test_unstructured_messages_are_written_unchanged() -> None:
    assert KlogFormatter().format(record("100 %% of %s", "it")).endswith('] "100 % of it"')
    assert KlogFormatter().format(record("nothing=else")).endswith('] "nothing=else"')
    assert KlogFormatter().format(record("{'a': %s}", 1)).endswith("\"{'a': 1}\"")


def test_tracebacks_are_logged_with_secrets_redacted() -> None:
    text = KlogFormatter().format(record("broke: key=%s", "a", failed=True))
    assert "\n  Traceback" in text
    assert "hush-hush" not in text
    line = JsonFormatter().format(record("broke: key=%s", "a", failed=True))
    assert "Traceback" in json.loads(line)["trace"]
    assert "hush-hush" not in line


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "authorization: {}",
        "{{'Authorization': 'Bearer {}'}}",
        '{{"Authorization": "Basic {}"}}',
        "headers=[(b'authorization', b'Bearer {}')]",
        "sent bearer {} to it",
        "GET /x?token={}&a=b",
        '{{"token": "{}"}}',
        '{{"id_token":"{}"}}',
        "refresh-token={}",
        "password={}",
        "client_secret='{}'",
        "https://me:{}@proxy.example:3128/",
        "-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n{}\n",
    ],
)
def test_apparent_secrets_are_redacted_from_every_line(text: str) -> None:
    secret = "c2VjcmV0LXZhbHVl"
    full = text.format(secret)
    assert secret not in redact(full)
    for formatter in (KlogFormatter(), JsonFormatter()):
        assert secret not in formatter.format(record("failed: error=%s", full))
        assert secret not in formatter.format(record(full.replace("%", "%%")))


def test_unnamed_tokens_are_recognised_by_their_format() -> None:
    token = "eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2ln"
    assert token not in redact(f"it said {token}, and left")
    assert "c2ln" not in redact(f"it said {token}, and left")


@pytest.mark.parametrize(
    "text",
    [
        "token file cannot be used, using the last token",
        "the continue token is too old",
        "reconcile failed",
        "https://127.0.0.1:6443/api/v1/pods?limit=500",
        "key=default/web",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


@pytest.fixture
def levels() -> Iterator[None]:
    names = ("", *logs.PACKAGES, "endpointd.cli.write_log", "aiokube.client.http")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers = list(logging.getLogger().handlers)
    yield
    logging.getLogger().handlers[:] = handlers
    for logger, level in before:
        logger.setLevel(level)


@pytest.mark.parametrize(
    ("verbosity", "writes", "syncs", "requests", "libraries"),
    [
        (0, False, False, False, False),
        (2, True, False, False, False),
        (4, True, True, False, False),
        (6, True, True, True, False),
        (8, True, True, True, True),
    ],
)
@pytest.mark.usefixtures("levels")
def test_each_verbosity_level_includes_the_previous_one(
    verbosity: int, writes: bool, syncs: bool, requests: bool, libraries: bool
) -> None:
    logs.configure(verbosity, write_logger="endpointd.cli.write_log")
    heard = [
        logging.getLogger(name).isEnabledFor(logging.DEBUG)
        for name in (
            "endpointd.cli.write_log",
            "aiokube.runtime.controller",
            "aiokube.client.http",
            "asyncio",
        )
    ]
    assert heard == [writes, syncs, requests, libraries]
    assert logging.getLogger("aiokube.client.http").isEnabledFor(logging.INFO)


def templates() -> Iterator[tuple[str, str]]:
    """Yield the format string and position of every logging call in the program."""
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id in ("log", "logger")
                    and node.func.attr
                    in ("debug", "info", "warning", "error", "exception", "critical", "log")
                ):
                    text = node.args[1 if node.func.attr == "log" else 0]
                    if isinstance(text, ast.Constant):
                        yield f"{path.name}:{node.lineno}", str(text.value)


def test_every_log_message_is_constant_and_every_value_has_a_key() -> None:
    found = list(templates())
    assert len(found) > 30
    for place, text in found:
        template = parse_template(text)
        assert template.places == 0, f"{place}: {text!r} has a value without a key"
        assert template.message.strip(), f"{place}: {text!r} has no message"
        keys = [key for key, _ in template.pairs]
        assert len(set(keys)) == len(keys), place
        assert all(re.fullmatch(r"[a-z][a-z_]*", key) for key in keys), place
        assert not {"ts", "severity", "logger", "msg", "trace"}.intersection(keys), place
