"""Random numbers that do not depend on call order: each is drawn from the seed and its purpose."""

import json
import random
from typing import Any

from aiokube.api.names import SUFFIX_ALPHABET, name_suffix

_FNV32_OFFSET, _FNV32_PRIME = 0x811C9DC5, 0x01000193


class SeededRandom:
    """Random draws that are equal for equal seeds and purposes, in any order."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, *purpose: object) -> random.Random:
        """Return a random generator for one purpose."""
        return random.Random("\0".join(map(str, (self._seed, *purpose))))  # noqa: S311 - no secrets

    def around(self, mean: float, *purpose: object) -> float:
        """Return a duration between 0.5 and 1.5 times the mean."""
        return mean * self.draw(*purpose).uniform(0.5, 1.5) if mean else 0.0

    def until_crash(self, per_hour: float, *purpose: object) -> float | None:
        """Return the seconds until the next crash at this average rate; None for a rate of 0."""
        return self.draw(*purpose).expovariate(per_hour / 3600.0) if per_hour else None

    def suffix(self, *purpose: object) -> str:
        """Return a five-letter name suffix."""
        return name_suffix(self.draw(*purpose))


def fnv1a_32(data: bytes) -> int:
    """Return the FNV-1a hash of 32 bits."""
    value = _FNV32_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV32_PRIME) & 0xFFFFFFFF
    return value


def template_hash(template: Any, collisions: int = 0) -> str:
    """Return a short hash of a template, independent of key order.

    ``collisions`` varies the hash when another template has taken the name.
    """
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    if collisions:
        text += f"#{collisions}"
    return "".join(SUFFIX_ALPHABET[int(digit)] for digit in str(fnv1a_32(text.encode())))
