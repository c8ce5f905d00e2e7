"""How large a cluster is: so many services of so many pods each."""

import re

import msgspec

_SIZE = re.compile(r"([1-9]\d*)x([1-9]\d*)")


class Size(msgspec.Struct, frozen=True, order=True):
    """``1x5000`` is one service of 5,000 pods, ``1000x5`` a thousand of five: the same pods, other work."""

    services: int
    pods_per_service: int

    @classmethod
    def parse(cls, text: str) -> "Size":
        """Read ``SERVICESxPODS``. Raises ``ValueError`` with what is expected."""
        match = _SIZE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no size: write SERVICESxPODS, such as 1x1000")
        return cls(int(match[1]), int(match[2]))

    @property
    def pods(self) -> int:
        """All pods."""
        return self.services * self.pods_per_service

    def __str__(self) -> str:
        return f"{self.services}x{self.pods_per_service}"
