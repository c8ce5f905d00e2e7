"""Pod addresses: one per family from the node's networks, with the longest possible time before reuse."""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressesExhaustedError(Exception):
    """A network has no free address left; the text names the network."""


class Addresses:
    """The assigned addresses by holder. A holder keeps its addresses until it releases them.

    Each network is searched upwards from the last assigned address, so released addresses are reused as late
    as possible. The same requests give the same addresses.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, ...]] = {}  # by holder
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}  # by network

    def of(self, holder: str) -> tuple[str, ...] | None:
        """Return the addresses of a holder, or None."""
        return self._held.get(holder)

    def keep(self, holder: str, addresses: Sequence[str]) -> None:
        """Record addresses that are already in use."""
        self._held[holder] = tuple(addresses)
        self._taken.update(addresses)

    def assign(self, holder: str, networks: Sequence[str]) -> tuple[str, ...]:
        """Return the holder's addresses, one per network; repeated calls return the same addresses.

        Raises :class:`AddressesExhaustedError`.
        """
        held = self._held.get(holder)
        if held is None:
            held = self._held[holder] = tuple(map(self._next, networks))
            self._taken.update(held)
        return held

    def release(self, holder: str) -> None:
        """Release the addresses of a holder, if any."""
        self._taken.difference_update(self._held.pop(holder, ()))

    def _next(self, text: str) -> str:
        network: Network = ipaddress.ip_network(text, strict=False)
        first = int(network.network_address)
        # Skip the network address, the gateway and (for IPv4) the broadcast address.
        most = network.num_addresses - (3 if network.version == 4 else 2)
        last = self._last.get(text, -1)
        for step in range(1, min(most, len(self._taken) + 1) + 1):
            number = (last + step) % most
            address = str(type(network.network_address)(first + 2 + number))
            if address not in self._taken:
                self._last[text] = number
                return address
        raise AddressesExhaustedError(f"no free address in {text}")
