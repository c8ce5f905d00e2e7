"""The endpoints of one service, merged incrementally from its slices. Without I/O; mutable.

A change costs O(entries of the changed slice): other slices are compared only for addresses that both have.
"""

from collections.abc import Iterator

from aiokube.discovery.endpoint import EndpointView, PortKey, in_order, preferred
from aiokube.discovery.slice_parser import EMPTY, SliceView

_NOTHING: dict[str, EndpointView] = {}

Touched = tuple[PortKey, str, EndpointView | None]
"""A port and an address whose endpoint changed, and its previous value (None if absent)."""


class _Port:
    """The endpoints of one port. ``holders`` has the slices of each address, sorted by name."""

    __slots__ = ("endpoints", "holders", "in_order")

    def __init__(self) -> None:
        self.holders: dict[str, tuple[str, ...]] = {}
        self.endpoints: dict[str, EndpointView] = {}
        self.in_order: tuple[EndpointView, ...] | None = None


class MergedService:
    """The endpoints of one service in one family.

    If several slices contain one address, they are processed in the order of their names with the rule of
    :func:`aiokube.discovery.endpoint.preferred`. Each address counts once, and the result depends only on
    the slices, never on their order of arrival; if Kubernetes leaves the choice open (C-36), the last name
    wins.
    """

    __slots__ = ("_ports", "_slices", "compared")

    def __init__(self) -> None:
        self._slices: dict[str, SliceView] = {}
        self._ports: dict[PortKey, _Port] = {}
        self.compared = 0
        """The number of compared addresses so far, to which all work is proportional."""

    def __bool__(self) -> bool:
        """Return whether it has any slice."""
        return bool(self._slices)

    def ports(self) -> list[PortKey]:
        """Return the ports that have endpoints, of any readiness (C-30)."""
        return list(self._ports)

    def has_udp(self) -> bool:
        """Return whether any port with endpoints has the protocol UDP (C-56)."""
        return any(port.protocol == "UDP" for port in self._ports)

    def endpoints(self, port: PortKey) -> tuple[EndpointView, ...]:
        """Return the endpoints of a port in order (C-39); the same tuple until one of them changes."""
        found = self._ports.get(port)
        if found is None:
            return ()
        if found.in_order is None:
            found.in_order = in_order(found.endpoints)
        return found.in_order

    def find(self, port: PortKey, address: str) -> EndpointView | None:
        """Return the endpoint of an address, None if it is unknown."""
        found = self._ports.get(port)
        return found.endpoints.get(address) if found is not None else None

    def addresses(self, port: PortKey) -> Iterator[str]:
        """Iterate over the addresses of a port, in no particular order."""
        found = self._ports.get(port)
        return iter(found.endpoints if found is not None else ())

    def put(self, name: str, view: SliceView | None) -> list[Touched]:
        """Set or (None) remove a slice; return the changes."""
        before = self._slices.get(name, EMPTY)
        if view is None:
            self._slices.pop(name, None)
        else:
            self._slices[name] = view
        after = view if view is not None else EMPTY
        touched: list[Touched] = []
        for port in dict.fromkeys((*before.ports, *after.ports)):
            self._put_port(
                port, name, before.ports.get(port, _NOTHING), after.ports.get(port, _NOTHING), touched
            )
        return touched

    def _put_port(
        self,
        key: PortKey,
        name: str,
        before: dict[str, EndpointView],
        after: dict[str, EndpointView],
        touched: list[Touched],
    ) -> None:
        port = self._ports.get(key)
        if port is None:
            port = self._ports[key] = _Port()
        alone = (name,)  # shared by all addresses that only this slice has
        told = len(touched)
        for address, view in before.items():
            self.compared += 1
            if address not in after:
                names = port.holders[address]
                if len(names) == 1:
                    del port.holders[address]
                    del port.endpoints[address]
                    touched.append((key, address, view))
                else:
                    port.holders[address] = tuple(other for other in names if other != name)
                    self._decide(port, key, address, touched)
        for address, view in after.items():
            self.compared += 1
            was = before.get(address)
            if was == view:
                continue
            names = port.holders.get(address, ())
            if was is None:
                port.holders[address] = names = tuple(sorted((*names, name))) if names else alone
            if len(names) > 1:
                self._decide(port, key, address, touched)
            else:
                port.endpoints[address] = view
                touched.append((key, address, was))
        if len(touched) > told:
            port.in_order = None
        if not port.endpoints:
            del self._ports[key]

    def _decide(self, port: _Port, key: PortKey, address: str, touched: list[Touched]) -> None:
        """Choose among the slices that contain an address."""
        before = port.endpoints.get(address)
        now: EndpointView | None = None
        for name in port.holders[address]:
            now = preferred(now, self._slices[name].ports[key][address])
        if now is not None and now != before:
            port.endpoints[address] = now
            touched.append((key, address, before))
