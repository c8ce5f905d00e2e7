"""How text reaches a terminal: the one place where pages are put together, coloured and made safe. Pure.

Lines may hold anything that a cluster says: messages of pods, names, zones. :meth:`Style.page` escapes whatever could
move a cursor or begin another line, so no command has to think of it.
"""

import textwrap
from collections.abc import Iterable
from typing import Literal

from endpointd.api.printable import printable

Colour = Literal["green", "yellow", "red", "dim", "bold"]
_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "dim": "2", "bold": "1"}

# Colours travel through a line as noncharacters, which no text should hold, and become escape sequences in page().
_BEGIN: dict[Colour, str] = {colour: chr(0xFDD0 + number) for number, colour in enumerate(_CODES)}
_END = "\ufddf"
_RESET = "\x1b[0m"
_SEQUENCES = {mark: f"\x1b[{_CODES[colour]}m" for colour, mark in _BEGIN.items()} | {_END: _RESET}


class Style:
    """Paints, wraps, and puts pages together."""

    def __init__(self, *, colours: bool, width: int = 100) -> None:
        self._colours = colours
        self.width = max(width, 60)

    def paint(self, text: str, colour: Colour) -> str:
        """Return the text in a colour, as it is where there are none. Only :meth:`page` makes it visible."""
        return f"{_BEGIN[colour]}{text}{_END}" if self._colours else text

    def wrapped(self, text: str, indent: str, first: str) -> list[str]:
        """Return the lines of a paragraph, the first of which begins with ``first`` and the others with ``indent``."""
        body = textwrap.wrap(
            printable(text), self.width - len(indent), break_long_words=False, break_on_hyphens=False
        )
        return [(first if number == 0 else indent) + line for number, line in enumerate(body or [""])]

    def page(self, lines: Iterable[str]) -> str:
        r"""Return lines as a text that is safe to print: what is not printable in them is shown as an escape (``\x1b``)."""
        return "".join(f"{self._safe(line)}\n" for line in lines)

    def _safe(self, line: str) -> str:
        if line.isprintable():
            return line
        if not self._colours:
            return printable(line)
        text = "".join(_SEQUENCES.get(sign) or printable(sign) for sign in line)
        return text if text.endswith(_RESET) or not text.count("\x1b") else text + _RESET
