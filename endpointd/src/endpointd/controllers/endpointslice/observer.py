"""What the EndpointSlice controller reports of its work (behaviour 2.12)."""

from collections.abc import Sequence
from typing import Literal, Protocol

from aiokube.api.core import Service
from aiokube.api.meta import ObjectKey
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.service_counts import ServiceCounts

Operation = Literal["create", "update", "delete"]
Result = Literal["success", "stale", "error"]


class SliceObserver(Protocol):
    """Called synchronously, from within changes and syncs; it must be quick and must not raise.

    A sync of a service calls :meth:`planned`, then :meth:`family_written` and :meth:`changed` if something is
    written, then one of :meth:`completed` and :meth:`failed`. Syncs of one service follow each other.
    """

    def pod_changed(self, service: ObjectKey) -> None:
        """Take note of a pod's change that has to be published, in the loop turn in which it was stored."""
        ...

    def planned(self, service: Service, plans: Sequence[AddressTypePlan], families: int) -> None:
        """Take note of a sync's plan: those of its address types that were looked at, of so many in all."""
        ...

    def changed(self, operation: Operation, count: int = 1) -> None:
        """Take note of writes that succeeded."""
        ...

    def family_written(self, service: Service, plan: AddressTypePlan) -> None:
        """Take note of a plan, not an empty one, that has been carried out in full."""
        ...

    def completed(self, service: ObjectKey, *, wrote: bool) -> None:
        """Take note that what was planned is published; it may have been already."""
        ...

    def failed(self, service: ObjectKey) -> None:
        """Take note that something that was planned has not been written, or was cut short."""
        ...

    def synced(self, result: Result) -> None:
        """Take note of how a sync ended; ``stale``: the server knew better, and there is another one at once."""
        ...

    def described(self, service: Service, counts: ServiceCounts) -> None:
        """Take note of how a service is now."""
        ...

    def forgot(self, service: ObjectKey) -> None:
        """Take note that a service has gone; also of one that was never described."""
        ...


class NoObserver:
    """Counts nothing. Fulfils :class:`SliceObserver`."""

    def pod_changed(self, service: ObjectKey) -> None:
        """Do nothing."""

    def planned(self, service: Service, plans: Sequence[AddressTypePlan], families: int) -> None:
        """Do nothing."""

    def changed(self, operation: Operation, count: int = 1) -> None:
        """Do nothing."""

    def family_written(self, service: Service, plan: AddressTypePlan) -> None:
        """Do nothing."""

    def completed(self, service: ObjectKey, *, wrote: bool) -> None:
        """Do nothing."""

    def failed(self, service: ObjectKey) -> None:
        """Do nothing."""

    def synced(self, result: Result) -> None:
        """Do nothing."""

    def described(self, service: Service, counts: ServiceCounts) -> None:
        """Do nothing."""

    def forgot(self, service: ObjectKey) -> None:
        """Do nothing."""
