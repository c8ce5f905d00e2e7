"""Chance that does not depend on who comes first: every draw is made from the seed and what it is for."""

import json
import random
from typing import Any

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # those of generated names: no vowels, nothing to be misread
_FNV32_OFFSET, _FNV32_PRIME = 0x811C9DC5, 0x01000193


class Chance:
    """Draws that are equal whenever seed and purpose are, in whatever order they are made."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, *purpose: object) -> random.Random:
        """Return a source of chance for one purpose."""
        return random.Random("\0".join(map(str, (self._seed, *purpose))))  # noqa: S311 - a game, no secrets

    def around(self, mean: float, *purpose: object) -> float:
        """Return a duration from half the mean to one and a half times it."""
        return mean * self.draw(*purpose).uniform(0.5, 1.5) if mean else 0.0

    def until_crash(self, per_hour: float, *purpose: object) -> float | None:
        """Return after how many seconds something happens that happens so often; None where it never does."""
        return self.draw(*purpose).expovariate(per_hour / 3600.0) if per_hour else None

    def suffix(self, *purpose: object) -> str:
        """Return five letters for the end of a name."""
        return "".join(self.draw(*purpose).choices(_LETTERS, k=5))


def fnv1a_32(data: bytes) -> int:
    """Return the FNV-1a hash of 32 bits."""
    value = _FNV32_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV32_PRIME) & 0xFFFFFFFF
    return value


def template_hash(template: Any, collisions: int = 0) -> str:
    """Return a short name for the content of a template: the same for equal ones, in whatever order their keys stand.

    ``collisions`` gives another one, where a name is taken by another content.
    """
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    if collisions:
        text += f"#{collisions}"
    return "".join(_LETTERS[int(digit)] for digit in str(fnv1a_32(text.encode())))
