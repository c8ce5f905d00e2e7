"""Allocation of node ports and service addresses."""

import ipaddress
import random


class Allocator:
    """A range of numbers, each allocated at most once.

    Explicit requests may allocate any number. Others get a random number from the dynamic band (from
    ``dynamic_from``) until it is full, so that the static band below stays free for explicit requests. Not
    thread-safe.
    """

    def __init__(self, first: int, last: int, *, dynamic_from: int) -> None:
        self.first = first
        self.last = last
        self._dynamic_from = dynamic_from
        self._allocated: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def is_allocated(self, number: int) -> bool:
        """Return whether a number is allocated."""
        return number in self._allocated

    def allocate(self, number: int) -> bool:
        """Allocate a number; return False if it is already allocated or out of range."""
        if number in self._allocated or number not in self:
            return False
        self._allocated.add(number)
        return True

    def release(self, number: int) -> None:
        """Release a number; no-op if it is not allocated."""
        self._allocated.discard(number)

    def allocate_next(self, rng: random.Random) -> int | None:
        """Allocate a random free number; return None if the range is full."""
        number = self._free(rng, self._dynamic_from, self.last)
        if number is None:
            number = self._free(rng, self.first, self._dynamic_from - 1)
        if number is not None:
            self._allocated.add(number)
        return number

    def _free(self, rng: random.Random, low: int, high: int) -> int | None:
        size = high - low + 1
        if size <= 0:
            return None
        start = rng.randrange(size)
        # One step more than there are allocated numbers reaches a free one, unless the band is full.
        for step in range(min(size, len(self._allocated) + 1)):
            number = low + (start + step) % size
            if number not in self._allocated:
                return number
        return None


def static_band(size: int, *, step: int, most: int) -> int:
    """Return the size of the static band: numbers at the bottom of a range, preferred for explicit requests."""
    least = 16
    return 0 if size < least else min(max(size // step, least), most)


def port_allocator(first: int, last: int) -> Allocator:
    """Return the allocator of node ports."""
    return Allocator(first, last, dynamic_from=first + static_band(last - first + 1, step=32, most=128))


def address_allocator(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> Allocator:
    """Return the allocator of a network's addresses as integers, excluding its own and IPv4's broadcast address."""
    base = int(network.network_address)
    last = int(network.broadcast_address) - (1 if network.version == 4 else 0)
    kept = static_band(network.num_addresses, step=16, most=256)
    return Allocator(base + 1, last, dynamic_from=base + max(kept, 1))
