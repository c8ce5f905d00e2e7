"""The live table of ``endpointd up`` on a terminal: full screen, scrollable, services with problems first."""

import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from endpointd.cli.overview import HEADERS, Overview, ServiceRow, cells

_NUMBERS = {"READY": "green", "NOT READY": "yellow", "TERMINATING": "red"}
_OPTIONAL_COLUMNS = ("SLICES", "FAMILIES", "TYPE", "TERMINATING", "NAMESPACE")
_SHORTEST_SLICES = 20
_COLUMN_GAP = 2
_HEADER_LINES = 1
_FOOTER_LINES = 2

Command = Literal["up", "down", "page up", "page down", "home", "end", "quit"]
_KEYS: dict[bytes, Command] = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"k": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"j": "down",
    b"\x1b[5~": "page up",
    b"b": "page up",
    b"\x1b[6~": "page down",
    b" ": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"g": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"G": "end",
    b"q": "quit",
    b"Q": "quit",
    b"\x04": "quit",
}


def parse_keys(typed: bytes) -> list[Command]:
    """Return the commands for typed bytes; unknown keys are ignored."""
    commands: list[Command] = []
    while typed:
        found = next((key for key in sorted(_KEYS, key=len, reverse=True) if typed.startswith(key)), None)
        if found is not None:
            commands.append(_KEYS[found])
        typed = typed[len(found or b"x") :]
    return commands


class Scroll(msgspec.Struct, frozen=True):
    """The visible rows: ``height`` of ``total``, starting at ``offset``."""

    offset: int = 0
    height: int = 1
    total: int = 0

    def fitted(self, height: int, total: int) -> "Scroll":
        """Return the scroll position adjusted to a new screen height or table length."""
        height = max(height, 1)
        return Scroll(max(min(self.offset, total - height), 0), height, total)

    def moved(self, command: Command) -> "Scroll":
        """Return the scroll position after a key press."""
        page = max(self.height - 1, 1)
        offsets = {
            "up": self.offset - 1,
            "down": self.offset + 1,
            "page up": self.offset - page,
            "page down": self.offset + page,
            "home": 0,
            "end": self.total,
        }
        moved = Scroll(offsets.get(command, self.offset), self.height, self.total)
        return moved.fitted(self.height, self.total)


def worst_first(found: Overview) -> tuple[ServiceRow, ...]:
    """Return services without ready endpoints first, then those with unready endpoints, then changing ones."""
    return tuple(sorted(found.services, key=lambda row: (_severity(row), row.namespace, row.name)))


def _severity(row: ServiceRow) -> int:
    if not row.ready and "selectorless" not in row.type and row.type != "ExternalName":
        return 0
    if row.not_ready:
        return 1
    return 2 if row.terminating else 3


def screen(
    found: Overview, scroll: Scroll, notes: Sequence[str], width: int, height: int
) -> tuple[RenderableType, Scroll]:
    """Render one screen of this size; return it with the scroll position.

    ``notes`` are shown above the table.

    A narrow screen drops the least important columns, so that names stay readable.
    """
    rows = worst_first(found)
    scroll = scroll.fitted(height - len(notes) - _HEADER_LINES - _FOOTER_LINES, len(rows))
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    shown = rows[scroll.offset : scroll.offset + scroll.height]
    headers = _fitting(shown, width)
    for header in headers:
        right = header in _NUMBERS
        table.add_column(header, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for row in shown:
        table.add_row(*(text for header, text in zip(HEADERS, _row(row), strict=True) if header in headers))
    above = [Text(note, no_wrap=True, overflow="ellipsis") for note in notes]
    return Group(*above, table, Text(), _footer(scroll, len(shown))), scroll


def _fitting(rows: Sequence[ServiceRow], width: int) -> list[str]:
    """Return the columns that fit."""
    columns = zip(HEADERS, *(cells(row) for row in rows), strict=True)
    widths = {column[0]: max(map(len, column)) + _COLUMN_GAP for column in columns}
    headers = list(HEADERS)
    for header in _OPTIONAL_COLUMNS:
        if sum(widths[each] for each in headers) <= width + _COLUMN_GAP:
            break
        if header == "SLICES" and sum(widths[each] for each in headers[:-1]) + _SHORTEST_SLICES <= width:
            break  # it is truncated
        headers.remove(header)
    return headers


def _footer(scroll: Scroll, shown: int) -> Text:
    first = scroll.offset + 1 if shown else 0
    place = f"services {first}-{scroll.offset + shown} of {scroll.total}, worst first"
    keys = "q: quit" if scroll.height >= scroll.total else "q: quit   arrows, PgUp, PgDn, Home, End: scroll"
    return Text(f"{place}   {keys}", style="reverse", no_wrap=True, overflow="ellipsis")


def _row(row: ServiceRow) -> list[Text]:
    texts = []
    for header, cell in zip(HEADERS, cells(row), strict=True):
        colour = _NUMBERS.get(header)
        if header == "SERVICE" and _severity(row) == 0:
            colour = "bold red"
        texts.append(Text(cell, style=colour if colour and cell != "-" else ""))
    return texts


@contextlib.contextmanager
def keyboard(
    add_reader: Callable[[int, Callable[[], None]], None], typed: Callable[[bytes], None]
) -> Iterator[bool]:
    """Call ``typed`` with each key press; yields False if standard input is not a terminal.

    Ctrl-C remains a signal. Restores the terminal settings on exit.
    """
    if not sys.stdin.isatty():
        yield False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    add_reader(descriptor, lambda: typed(os.read(descriptor, 1024)))
    try:
        yield True
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
