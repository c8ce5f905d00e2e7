"""The desired endpoints of a service, always sorted, so that an update costs only its change.

Addresses are kept in sorted lists, one per group of pods with the same ports and readiness. Adding or
removing one is a binary search. A plan for a large service reads only the beginning of a list.
"""

from bisect import bisect_left, insort

from aiokube.api.endpoints import EndpointAddress, EndpointPort, EndpointSubset
from endpointd.controllers.canonical import sort_ports_core, sort_subsets
from endpointd.controllers.endpoints.entries import Entry
from endpointd.controllers.endpoints.plan import Wanted
from endpointd.controllers.endpoints.subsets import MAX_ADDRESSES, counts_that_fit, truncate
from endpointd.controllers.repack import address_order

Ports = tuple[EndpointPort, ...]


class _Group:
    """The addresses of all pods with the same ports, each list in canonical order (E-31)."""

    __slots__ = ("not_ready", "ready")

    def __init__(self) -> None:
        self.ready: list[EndpointAddress] = []
        self.not_ready: list[EndpointAddress] = []

    def __len__(self) -> int:
        return len(self.ready) + len(self.not_ready)

    def add(self, entry: Entry) -> None:
        insort(self.ready if entry.is_ready else self.not_ready, entry.address, key=address_order)

    def remove(self, entry: Entry) -> None:
        addresses = self.ready if entry.is_ready else self.not_ready
        del addresses[bisect_left(addresses, address_order(entry.address), key=address_order)]


class DesiredEndpoints:
    """The entries of a service's pods, by pod name, and the resulting subsets.

    The subsets always equal the repacked entries (E-30 to E-32). :meth:`set` takes a binary search;
    :meth:`wanted` takes O(addresses written) if all pods have the same ports, otherwise O(pods).
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._groups: dict[Ports, _Group] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entry_of(self, pod: str) -> Entry | None:
        """Return a pod's entry, or None."""
        return self._entries.get(pod)

    def snapshot(self) -> dict[str, object]:
        """Return a copy of all state, part by part, for comparison in audits and tests."""
        return {
            "its endpoints": dict(self._entries),
            "the ports of its endpoints": set(self._groups),
            "its endpoints in order": [
                address
                for _, group in sorted(self._groups.items(), key=lambda item: str(item[0]))
                for address in (*group.ready, None, *group.not_ready)
            ],
        }

    def set(self, pod: str, entry: Entry | None) -> bool:
        """Set a pod's entry, or remove it with None; return whether that changed anything."""
        old = self._entries.get(pod)
        if old == entry:
            return False
        if old is not None:
            group = self._groups[old.ports]
            group.remove(old)
            if not len(group):
                del self._groups[old.ports]
        if entry is None:
            del self._entries[pod]
        else:
            self._entries[pod] = entry
            self._groups.setdefault(entry.ports, _Group()).add(entry)
        return True

    def wanted(self, limit: int = MAX_ADDRESSES) -> Wanted:
        """Return the subsets to publish (E-31, E-40)."""
        if not self._groups:
            return Wanted()
        if len(self._groups) > 1:
            subsets, over_capacity = truncate(sort_subsets(self._subsets()), limit)
            return Wanted(subsets, over_capacity)
        # The usual case: one subset, whose omitted rest is never read.
        ((ports, group),) = self._groups.items()
        (ready,), (not_ready,) = counts_that_fit([len(group.ready)], [len(group.not_ready)], limit)
        subset = EndpointSubset(
            addresses=tuple(group.ready[:ready]) or None,
            not_ready_addresses=tuple(group.not_ready[:not_ready]) or None,
            ports=ports or None,
        )
        return Wanted((subset,), len(group) > limit)

    def _subsets(self) -> tuple[EndpointSubset, ...]:
        """Return one subset for all ports with the same groups of pods (E-30.5)."""
        offered_by: dict[EndpointPort | None, list[int]] = {}
        groups = list(self._groups.items())
        for number, (ports, _) in enumerate(groups):
            for port in ports or (None,):
                offered_by.setdefault(port, []).append(number)
        ports_of: dict[tuple[int, ...], list[EndpointPort]] = {}
        for port, numbers in offered_by.items():
            together = ports_of.setdefault(tuple(numbers), [])
            if port is not None:
                together.append(port)
        return tuple(
            EndpointSubset(
                addresses=_merged([groups[number][1].ready for number in numbers]),
                not_ready_addresses=_merged([groups[number][1].not_ready for number in numbers]),
                ports=sort_ports_core(tuple(ports)) or None,
            )
            for numbers, ports in ports_of.items()
        )


def _merged(lists: list[list[EndpointAddress]]) -> tuple[EndpointAddress, ...] | None:
    if len(lists) == 1:
        return tuple(lists[0]) or None
    merged = [address for addresses in lists for address in addresses]
    merged.sort(key=address_order)  # Timsort merges the sorted runs
    return tuple(merged) or None
