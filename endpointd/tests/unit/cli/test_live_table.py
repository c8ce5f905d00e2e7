"""The table of `endpointd up` on a terminal: keys, scrolling, order, and columns that fit the screen."""

import io

import pytest
from rich.console import Console

from endpointd.cli.live_table import Scroll, parse_keys, screen, worst_first
from endpointd.cli.overview import Overview, ServiceRow, SliceRow


def row(
    name: str, ready: int = 1, not_ready: int = 0, terminating: int = 0, kind: str = "ClusterIP"
) -> ServiceRow:
    return ServiceRow(
        "shop", name, kind, ready, not_ready, terminating, (SliceRow(f"{name}-abcde", "IPv4", ready),)
    )


def drawn(found: Overview, scroll: Scroll, width: int, height: int) -> tuple[list[str], Scroll]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    shown, place = screen(found, scroll, ("the API is here",), width, height)
    console.print(shown)
    return console.export_text().splitlines(), place


MANY = Overview(tuple(row(f"service-{number:02}") for number in range(40)))


def test_the_worst_services_come_first() -> None:
    rows = [
        row("fine"),
        row("going", terminating=1),
        row("partly", not_ready=1),
        row("down", ready=0),
        row("manual", ready=0, kind="selectorless"),
        row("dns", ready=0, kind="ExternalName"),
    ]
    names = [each.name for each in worst_first(Overview(tuple(rows)))]
    assert names == ["down", "partly", "going", "dns", "fine", "manual"]


@pytest.mark.parametrize(
    ("typed", "commands"),
    [
        (b"q", ["quit"]),
        (b"\x1b[B\x1b[B\x1b[A", ["down", "down", "up"]),
        (b"\x1b[6~G", ["page down", "end"]),
        (b"x\x1b[9~?", []),
    ],
)
def test_known_keys_are_parsed_and_others_ignored(typed: bytes, commands: list[str]) -> None:
    assert parse_keys(typed) == commands


def test_scrolling_stays_within_the_table() -> None:
    place = Scroll().fitted(10, 40)
    assert place.moved("up").offset == 0
    assert place.moved("page down").offset == 9
    assert place.moved("end").offset == 30
    assert place.moved("end").moved("down").offset == 30
    assert place.moved("end").moved("home").offset == 0


def test_every_screen_is_full_and_shows_the_position_and_how_to_quit() -> None:
    lines, place = drawn(MANY, Scroll(), 120, 20)
    assert len(lines) == 20
    assert "services 1-16 of 40" in lines[-1]
    assert "q: quit" in lines[-1]
    lines, _ = drawn(MANY, place.moved("end"), 120, 20)
    assert "services 25-40 of 40" in lines[-1]


def test_resizing_the_screen_keeps_the_scroll_position_if_possible() -> None:
    _, place = drawn(MANY, Scroll(), 120, 20)
    _, place = drawn(MANY, place.moved("end"), 120, 10)
    lines, place = drawn(MANY, place, 120, 60)
    assert place.offset == 0
    assert "services 1-40 of 40" in lines[-1]


@pytest.mark.parametrize("width", [50, 60, 80, 100])
def test_names_can_be_read_on_a_narrow_screen(width: int) -> None:
    lines, _ = drawn(MANY, Scroll(), width, 20)
    assert len(lines) == 20
    assert all(len(line) <= width for line in lines)
    assert any("service-07" in line for line in lines)
