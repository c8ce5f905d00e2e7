"""Cluster sizes: a number of services with a number of pods each."""

import re

import msgspec

_SIZE = re.compile(r"([1-9]\d*)x([1-9]\d*)")


class Size(msgspec.Struct, frozen=True, order=True):
    """``1x5000`` is one service of 5,000 pods, ``1000x5`` a thousand of five: equally many pods, different load."""

    services: int
    pods_per_service: int

    @classmethod
    def parse(cls, text: str) -> "Size":
        """Parse ``SERVICESxPODS``. Raises ``ValueError`` that describes the format."""
        match = _SIZE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no size: write SERVICESxPODS, such as 1x1000")
        return cls(int(match[1]), int(match[2]))

    @property
    def pods(self) -> int:
        """Total number of pods."""
        return self.services * self.pods_per_service

    def __str__(self) -> str:
        return f"{self.services}x{self.pods_per_service}"
