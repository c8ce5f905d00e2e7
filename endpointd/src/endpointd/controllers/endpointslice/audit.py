"""The audit of the EndpointSlice controller: compares each service's state, and the zones, with rebuilt ones."""

from aiokube.api.core import Node, Service
from aiokube.api.meta import ObjectKey, key_of
from aiokube.runtime.pacing import Steps
from aiokube.runtime.store import Store
from aiokube.work_queue import WorkQueue
from endpointd.controllers.audit import differences
from endpointd.controllers.endpointslice.node_zones import NodeZones
from endpointd.controllers.endpointslice.service_states import ServiceStates, has_selector
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable

ZONES = ObjectKey("", "zones")
"""The queue and audit key for work that depends on all nodes: expired missing nodes and the zones' CPU ratios.
No service has an empty namespace."""


class SliceAudit:
    """Compares states with the caches and schedules repairs. Implements :class:`~endpointd.controllers.audit.Audited`."""

    def __init__(
        self,
        states: ServiceStates,
        *,
        services: Store[Service],
        nodes: Store[Node],
        node_zones: NodeZones,
        queue: WorkQueue[ObjectKey],
        max_endpoints_per_slice: int,
    ) -> None:
        self._states = states
        self._services = services
        self._nodes = nodes
        self._node_zones = node_zones
        self._queue = queue
        self._max_endpoints_per_slice = max_endpoints_per_slice

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services to audit, and the key of the zone table."""
        return [
            ZONES,
            *(self._states.by_key.keys() | {key_of(service) for service in self._services.values()}),
        ]

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Rebuild one service from the caches; if its state differs, schedule a rebuild and return the difference.

        Enqueues a service that needs a sync but is not queued. Costs O(the service).
        """
        if key == ZONES:
            return self._audit_zones()
        wrong: list[str] = []
        state = self._states.by_key.get(key)
        service = self._services.get(key)
        if service is None or not has_selector(service):
            if state is not None:
                self._states.forget(key)
                wrong.append("an unexpected state")
            return ", ".join(wrong) or None
        if state is None or not state.is_complete:
            if not self._queue.is_pending(key):
                self._queue.add(key)
                wrong.append("no state" if state is None else "a lost wake-up")
        elif (key in self._states.topology_aware) != state.is_topology_aware:
            wrong.append("the topology-aware services")
        elif not wrong:
            wrong = yield from self._compare(key, service, state)
        if wrong and state is not None and self._states.by_key.get(key) is state:
            self._states.schedule_rebuild(key)
        return ", ".join(wrong) or None

    def _compare(self, key: ObjectKey, service: Service, state: ServiceState) -> Steps[list[str]]:
        """Rebuild a complete state; return the differences, and writes that are needed but not queued."""
        rebuilt = self._states.new(service)
        rebuilt.rejected.update(state.rejected)
        self._states.audited = key, rebuilt
        try:
            yield from self._states.fill_steps(key, rebuilt)
            is_current = self._states.audited is not None
        finally:
            self._states.audited = None
        if not is_current or self._states.by_key.get(key) is not state or ZONES in self._queue.held():
            return []
        at_rest = not state.needs_plan
        current, expected = state.snapshot(at_rest=at_rest), rebuilt.snapshot(at_rest=at_rest)
        is_queued = not at_rest and self._queue.is_pending(key)
        is_lost = not is_queued and not self._plan_is_empty(rebuilt)
        wrong = yield from differences(current, expected)
        if is_lost and not wrong:
            wrong.append("the plan" if at_rest else "a lost wake-up")
        return wrong

    def _audit_zones(self) -> str | None:
        """Compare the zone table with the nodes, and replace it if it differs. Costs O(nodes)."""
        rebuilt = ZoneTable()
        for node in self._nodes.values():
            rebuilt.set_node(node.metadata.name, node)
        seconds = self._node_zones.seconds_until_expiry()
        if seconds is not None and not self._queue.is_pending(ZONES):
            self._queue.add_after(ZONES, seconds)
            return "a lost wake-up"
        if rebuilt.snapshot() == self._states.zones.snapshot():
            return None
        self._states.zones = rebuilt
        self._queue.add(ZONES)
        return "the table of zones"

    def _plan_is_empty(self, state: ServiceState) -> bool:
        return state.plan(self._max_endpoints_per_slice, None).is_empty
