"""The observer interface of the EndpointSlice controller (behaviour 2.12)."""

from collections.abc import Sequence
from typing import Literal, Protocol

from aiokube.api.core import Service
from aiokube.api.meta import ObjectKey
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.service_counts import ServiceCounts

Operation = Literal["create", "update", "delete"]
Result = Literal["success", "stale", "error"]


class SliceObserver(Protocol):
    """Called synchronously during events and syncs; must be fast and must not raise.

    A sync calls :meth:`planned`, then :meth:`address_type_written` and :meth:`changed` for writes, then
    either :meth:`completed` or :meth:`failed`. Syncs of one service never overlap.
    """

    def pod_changed(self, service: ObjectKey) -> None:
        """Observe a pod change that must be published, in the loop turn in which it was stored."""
        ...

    def planned(self, service: Service, plans: Sequence[AddressTypePlan], address_types: int) -> None:
        """Observe the plans of a sync, and the service's total number of address types."""
        ...

    def changed(self, operation: Operation, count: int = 1) -> None:
        """Observe successful writes."""
        ...

    def address_type_written(self, service: Service, plan: AddressTypePlan) -> None:
        """Observe that a non-empty plan was executed completely."""
        ...

    def completed(self, service: ObjectKey, *, wrote: bool) -> None:
        """Observe that the planned state is published; it may have been already."""
        ...

    def failed(self, service: ObjectKey) -> None:
        """Observe that a planned write failed or was cancelled."""
        ...

    def synced(self, result: Result) -> None:
        """Observe the result of a sync; ``stale`` means that the server's state was newer and another sync follows."""
        ...

    def described(self, service: Service, counts: ServiceCounts) -> None:
        """Observe the current counts of a service."""
        ...

    def forgot(self, service: ObjectKey) -> None:
        """Observe that a service was removed; may also be called for one that was never described."""
        ...


class NoObserver:
    """Ignores all observations. Implements :class:`SliceObserver`."""

    def pod_changed(self, service: ObjectKey) -> None:
        """Do nothing."""

    def planned(self, service: Service, plans: Sequence[AddressTypePlan], address_types: int) -> None:
        """Do nothing."""

    def changed(self, operation: Operation, count: int = 1) -> None:
        """Do nothing."""

    def address_type_written(self, service: Service, plan: AddressTypePlan) -> None:
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
