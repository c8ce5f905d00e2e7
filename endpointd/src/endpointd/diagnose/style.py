"""The one place where terminal pages are assembled, coloured and made safe. Pure.

Lines may contain any text from a cluster, such as pod messages, names and zones. :meth:`Style.page` escapes
everything that could move a cursor or start another line, so commands need not.
"""

import re
import secrets
import textwrap
from collections.abc import Iterable
from typing import Literal

from aiokube.api.printable import printable

Colour = Literal["green", "yellow", "red", "dim", "bold"]
_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "dim": "2", "bold": "1"}

_RESET = "0"


class Style:
    """Colours, wraps and assembles pages."""

    def __init__(self, *, colours: bool, width: int = 100) -> None:
        # Colours are marked inside a line with a random token that cluster text cannot contain.
        self._mark = f"\ufdd0{secrets.token_hex(8)}:" if colours else ""
        self._marks = re.compile(f"{self._mark}([0-9]+);")
        self.width = max(width, 60)

    def paint(self, text: str, colour: Colour) -> str:
        """Return the text in a colour, or unchanged without colours.

        Only :meth:`page` makes the colour visible.
        """
        return f"{self._mark}{_CODES[colour]};{text}{self._mark}{_RESET};" if self._mark else text

    def wrapped(self, text: str, indent: str, first: str) -> list[str]:
        """Return a wrapped paragraph: its first line starts with ``first``, the others with ``indent``."""
        body = textwrap.wrap(
            printable(text), self.width - len(indent), break_long_words=False, break_on_hyphens=False
        )
        return [(first if number == 0 else indent) + line for number, line in enumerate(body or [""])]

    def page(self, lines: Iterable[str]) -> str:
        r"""Return lines as text that is safe to print; unprintable characters become escapes (``\x1b``)."""
        return "".join(f"{self._safe(line)}\n" for line in lines)

    def _safe(self, line: str) -> str:
        if not self._mark:
            return printable(line)
        parts = self._marks.split(line)  # text, code, text, code, ..., text
        codes = [f"\x1b[{code}m" for code in parts[1::2]]
        return "".join(printable(text) + code for text, code in zip(parts[::2], [*codes, ""], strict=True))
