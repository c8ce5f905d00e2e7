"""Execute the plan of a service, one address type at a time."""

from aiokube.api.core import Service
from aiokube.api.meta import key_of
from aiokube.runtime.writer import Writer
from endpointd.controllers.endpointslice.observer import SliceObserver
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.state import ServicePlan
from endpointd.controllers.slice_writes import SliceFailure, SliceWriter, SliceWrites, WrittenSlices


class SliceApplier:
    """Executes plans.

    The guarantees are those of :class:`endpointd.controllers.slice_writes.SliceWriter`, per address type: a
    failure of one does not affect the others (S-21). Slices of unwanted types are deleted last (S-22).
    """

    def __init__(
        self,
        writer: Writer,
        sink: WrittenSlices,
        *,
        max_concurrent_writes: int,
        observer: SliceObserver,
    ) -> None:
        self._writer = SliceWriter(writer, sink, max_concurrent_writes=max_concurrent_writes)
        self._observer = observer

    async def apply(self, service: Service, plan: ServicePlan) -> list[SliceFailure]:
        """Execute a plan; return the failures."""
        owner = f"Service {key_of(service)}"
        failures: list[SliceFailure] = []
        for _, address_type_plan in plan.address_type_plans:
            outcome = await self._writer.write(
                owner,
                create=address_type_plan.create,
                update=address_type_plan.update,
                delete=address_type_plan.delete,
            )
            failures += outcome.failures
            self._observe(service, address_type_plan, outcome)
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
            self._observer.address_type_written(service, plan)
