"""The addresses of pods: out of their node's networks, one of each family, not given again soon."""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressesExhaustedError(Exception):
    """A network has no address left; the text names it."""


class Addresses:
    """Who has which address. An address has one holder, keeps it until released, and rests as long as others do.

    Addresses come in order, each network in turn from the last one given; the same requests give the same addresses.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, ...]] = {}  # by holder
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}  # by network

    def of(self, holder: str) -> tuple[str, ...] | None:
        """Return what a holder has, None where it has nothing."""
        return self._held.get(holder)

    def keep(self, holder: str, addresses: Sequence[str]) -> None:
        """Take note of addresses that somebody has already."""
        self._held[holder] = tuple(addresses)
        self._taken.update(addresses)

    def assign(self, holder: str, networks: Sequence[str]) -> tuple[str, ...]:
        """Return the holder's addresses, from each network one; the same again when asked again.

        Raises :class:`AddressesExhaustedError`.
        """
        held = self._held.get(holder)
        if held is None:
            held = self._held[holder] = tuple(map(self._next, networks))
            self._taken.update(held)
        return held

    def release(self, holder: str) -> None:
        """Give back what a holder has, if anything."""
        self._taken.difference_update(self._held.pop(holder, ()))

    def _next(self, text: str) -> str:
        network: Network = ipaddress.ip_network(text, strict=False)
        first = int(network.network_address)
        # Neither the network's own address, nor the gateway's, nor (of IPv4) the broadcast address.
        most = network.num_addresses - (3 if network.version == 4 else 2)
        last = self._last.get(text, -1)
        for step in range(1, min(most, len(self._taken) + 1) + 1):
            number = (last + step) % most
            address = str(type(network.network_address)(first + 2 + number))
            if address not in self._taken:
                self._last[text] = number
                return address
        raise AddressesExhaustedError(f"no address is left in {text}")
