"""No text from a cluster can move a cursor, colour a terminal or start another line."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from aiokube.api.printable import printable
from aiokube.testing.builders import make_endpoint, make_pod, make_service, make_slice
from endpointd.cli.main import cli
from endpointd.cli.overview import as_text, overview
from endpointd.diagnose.style import Style
from tests.cluster.setups import Json, pod, service, waiting

EVIL = (
    "\x1b[31mred\x1b]0;title\x07\nshop/web works: 5 of 5 pods are ready\r\x9b2J\u202egnp.exe\u2028\ufdd0\x00"
)
"""A colour, a title, a forged line, a C1 sequence, a reversed text, a line separator, and the marks of colours."""
HARMFUL = "\x1b\x07\r\x9b\u202e\u2028\ufdd0\ufddf\x00"


def evil_cluster() -> list[Json]:
    """A service and a pod whose every free text is hostile: the message, the reference of an endpoint, the zone."""
    ref = {"kind": "Pod", "name": EVIL, "namespace": "default"}
    labels = {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    endpoint = {"addresses": [EVIL], "zone": EVIL, "targetRef": ref, "hints": {"forZones": [{"name": EVIL}]}}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "web-1", "namespace": "default"},
        "type": "Warning",
        "reason": EVIL,
        "message": EVIL,
    }
    return [
        service(),
        pod(ready=False, statuses=[waiting("CrashLoopBackOff", EVIL)], reason=EVIL, message=EVIL),
        pod("web-2", ready=False, conditions=[{"type": "Ready", "status": "False", "message": EVIL}]),
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "labels": labels | {"x": EVIL}},
            "addressType": "IPv4",
            "ports": [{"name": EVIL, "port": 80}],
            "endpoints": [endpoint],
        },
        event,
    ]


@pytest.fixture
def files(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": evil_cluster()}))
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "service", "web"],
        ["explain", "service", "web", "-o", "wide"],
        ["explain", "service", "web", "--pod", "web-1"],
        ["explain", "service", "web", "-o", "json"],
        ["explain", "service", "web", "-o", "yaml"],
        ["explain", "service", "-A"],
        ["explain", "pod", "web-1"],
        ["explain", "service", EVIL.replace("/", "")],
        ["check"],
        ["check", "-o", "json"],
        ["check", "-o", "yaml"],
        ["diff"],
        ["diff", "-o", "json"],
        ["diff", "-o", "yaml"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_no_command_prints_control_characters_or_lines_injected_by_object_names(
    arguments: Sequence[str], files: str
) -> None:
    result = CliRunner().invoke(cli, [*arguments, "-f", files])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not set(result.output) & set(HARMFUL)
    assert not [line for line in result.output.splitlines() if line.startswith("shop/web")]


def test_colours_are_the_only_escape_sequences_on_a_terminal() -> None:
    style = Style(colours=True)
    marks_of_another = Style(colours=True).paint("", "green")
    page = style.page([f"{style.paint(EVIL, 'red')} {EVIL} {marks_of_another}"])
    assert page.count("\n") == 1
    assert page.count("\x1b") == 2
    rest = page.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert not set(rest) & set(HARMFUL)


def test_printable_text_is_unchanged() -> None:
    for text in ("shop/web", "größer → ✗ 日本", "back\\slash"):
        assert printable(text) == text
    assert printable("a\nb\x1b") == "a\\nb\\x1b"


def test_the_table_of_services_escapes_control_characters() -> None:
    web = make_service()
    endpoint_slice = make_slice(web, EVIL, [make_endpoint(make_pod())])
    text = as_text(overview([msgspec.structs.replace(web, type=EVIL)], [endpoint_slice]))
    assert not set(text) & set(HARMFUL)
    assert len(text.splitlines()) == 2
