"""Carries out what a plan says of a service: family by family, through the one way in which slices are written."""

from aiokube.api.core import Service
from aiokube.api.meta import key_of
from aiokube.runtime.writer import Writer
from endpointd.controllers.endpointslice.observer import SliceObserver
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.state import ServicePlan
from endpointd.controllers.slice_writes import SliceFailure, SliceWriter, SliceWrites, WrittenSlices


class SliceApplier:
    """Carries plans out.

    The promises are those of :class:`endpointd.controllers.slice_writes.SliceWriter`, for each address type by itself: a
    failure of one leaves the others alone (S-21). Slices of types that are not wanted go last (S-22).
    """

    def __init__(
        self,
        writer: Writer,
        told: WrittenSlices,
        *,
        writes_at_once: int,
        observer: SliceObserver,
    ) -> None:
        self._writer = SliceWriter(writer, told, writes_at_once=writes_at_once)
        self._observer = observer

    async def apply(self, service: Service, plan: ServicePlan) -> list[SliceFailure]:
        """Write what a plan says; return what failed."""
        owner = f"Service {key_of(service)}"
        failures: list[SliceFailure] = []
        for _, family_plan in plan.families:
            outcome = await self._writer.write(
                owner, create=family_plan.create, update=family_plan.update, delete=family_plan.delete
            )
            failures += outcome.failures
            self._observe(service, family_plan, outcome)
        if plan.strays:
            outcome = await self._writer.delete_all(owner, plan.strays, failure="error deleting")
            failures += outcome.failures
            self._observe(service, None, outcome)
        return failures

    def _observe(self, service: Service, plan: AddressTypePlan | None, outcome: SliceWrites) -> None:
        self._observer.changed("create", outcome.created)
        self._observer.changed("update", outcome.updated)
        self._observer.changed("delete", outcome.deleted)
        if plan is not None and not plan.is_empty and not outcome.failures and not outcome.abandoned:
            self._observer.family_written(service, plan)
