"""The endpoints of pods in the order of their addresses, kept up to date one pod at a time. Pure."""

from bisect import bisect_left

from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import EndpointView


class AddressOrder:
    """One endpoint for each pod, and one for each address in :meth:`endpoints`.

    If pods share an address, one that does not terminate wins, then a ready one, then the first by name. A change
    costs a binary search and a move of references; the endpoints are neither sorted nor built again.
    """

    __slots__ = ("_by_pod", "_order", "_shared", "_views")

    def __init__(self) -> None:
        self._by_pod: dict[ObjectKey, EndpointView] = {}
        self._order: list[tuple[str, ObjectKey]] = []
        self._views: list[EndpointView] = []
        """At each index, the endpoint of the pod at that index of the order."""
        self._shared = 0
        """Neighbours in the order that have the same address."""

    def __len__(self) -> int:
        return len(self._views)

    def put(self, pod: ObjectKey, view: EndpointView) -> None:
        """Add or replace the endpoint of a pod."""
        held = self._by_pod.get(pod)
        if held is not None and (held.ip, held.port) != (view.ip, view.port):
            self.remove(pod)
            held = None
        place = (view.address, pod)
        index = bisect_left(self._order, place)
        if held is not None:
            self._views[index] = view
        else:
            self._shared -= self._same_address(index - 1, index)
            self._order.insert(index, place)
            self._views.insert(index, view)
            self._shared += self._same_address(index - 1, index) + self._same_address(index, index + 1)
        self._by_pod[pod] = view

    def remove(self, pod: ObjectKey) -> None:
        """Remove the endpoint of a pod; do nothing without one."""
        view = self._by_pod.pop(pod, None)
        if view is None:
            return
        index = bisect_left(self._order, (view.address, pod))
        self._shared -= self._same_address(index - 1, index) + self._same_address(index, index + 1)
        del self._order[index], self._views[index]
        self._shared += self._same_address(index - 1, index)

    def endpoints(self) -> tuple[EndpointView, ...]:
        """Return the endpoints in the order of their addresses as text."""
        if not self._shared:
            return tuple(self._views)
        found: dict[str, EndpointView] = {}
        for (address, _), view in zip(self._order, self._views, strict=True):
            held = found.get(address)
            if held is None or (held.terminating, not held.ready) > (view.terminating, not view.ready):
                found[address] = view
        return tuple(found.values())

    def _same_address(self, left: int, right: int) -> bool:
        return left >= 0 and right < len(self._order) and self._order[left][0] == self._order[right][0]
