"""Create the initial nodes, and maintain each node's status, networks and readiness as a kubelet does."""

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.client.errors import AlreadyExistsError
from aiokube.client.rest import STRATEGIC_MERGE_PATCH
from aiokube.work_queue import WorkQueue
from tinykube.simulate.api import create, merge
from tinykube.simulate.nodes import (
    NOT_READY_TAINT,
    SIMULATED_NODES,
    SimulatedNode,
    conditions,
    free_index,
    node_document,
    node_name,
    node_status,
    pod_networks,
    should_be_ready,
)
from tinykube.simulate.simulation_state import SimulationState

NAME = "simulate-nodes"


class NodeController:
    """Reconcile nodes by name. A node that a user deletes is not recreated while the simulation runs.

    A node that a user creates gets the networks, addresses and readiness that it lacks, unless a real kubelet
    runs it.
    """

    def __init__(self, state: SimulationState, queue: WorkQueue[str]) -> None:
        self._state = state
        self._queue = queue
        self._seen: set[str] = set()
        self._numbers = {node_name(index): index for index in range(state.settings.nodes)}
        state.nodes.store.subscribe(self._on_node)

    def start(self) -> None:
        """Enqueue all nodes; call this once the caches have synced."""
        for name in (*self._numbers, *(node.metadata.name for node in self._state.nodes.store.values())):
            self._queue.add(name)

    def _on_node(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if new is not None:
            self._queue.add(new.metadata.name)

    async def reconcile(self, name: str) -> None:
        """Reconcile one node. Raises the client's errors."""
        state, store = self._state, self._state.nodes.store
        node = store.get(ObjectKey("", name))
        if node is None:
            index = self._numbers.get(name)
            if index is None or name in self._seen:
                return
            networks = free_index(store.values(), index)
            document = node_document(index, networks, state.settings, state.moment())
            try:
                node = await create(state.api, SIMULATED_NODES, document)
            except AlreadyExistsError:
                return  # the watch event requeues it
            store.record_write(node)
        self._seen.add(name)
        if not state.nodes_created and self._seen.issuperset(self._numbers):
            state.mark_nodes_created()
        if not node.is_real and node.metadata.deletion_timestamp is None:
            await self._keep(node)

    async def _keep(self, node: SimulatedNode) -> None:
        state, store, key = self._state, self._state.nodes.store, node.metadata.key
        spec: dict[str, object] = {}
        if not node.pod_networks:
            cidrs = pod_networks(free_index(each for each in store.values() if each.metadata.key != key))
            spec |= {"podCIDR": cidrs[0], "podCIDRs": cidrs}
        taints = node.spec.taints or ()
        left = [msgspec.to_builtins(taint) for taint in taints if taint.key != NOT_READY_TAINT]
        if len(left) != len(taints):
            spec["taints"] = left or None
        if spec:
            version = node.metadata.resource_version
            node = await merge(state.api, SIMULATED_NODES, key, {"spec": spec}, resource_version=version)
            store.record_write(node)
        ready = should_be_ready(node)
        change: dict[str, object] = {}
        if not node.host_ips:
            number = free_index((each for each in store.values() if each is not node), 0)
            change = node_status(node.metadata.name, number, state.settings, state.moment())
        if change or node.is_ready != ready:
            change["conditions"] = conditions(ready=ready, moment=state.moment())
            body = msgspec.json.encode({"status": change})
            node = await state.api.patch(
                SIMULATED_NODES, key, body, patch_type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
            store.record_write(node)
