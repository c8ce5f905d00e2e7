"""Run the pods of all nodes as a kubelet does, without containers."""

import math
from collections.abc import Sequence

import msgspec

from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import ConflictError, NotFoundError
from aiokube.client.rest import STRATEGIC_MERGE_PATCH
from aiokube.runtime.controller import RequeueAfter
from aiokube.runtime.errors import ReconcileError
from aiokube.work_queue import WorkQueue
from tinykube.simulate.addresses import Addresses, AddressesExhaustedError
from tinykube.simulate.annotations import annotation_overrides
from tinykube.simulate.container_lifecycle import StartPlan, has_no_image
from tinykube.simulate.nodes import SimulatedNode
from tinykube.simulate.pod_events import killing_events, pod_events
from tinykube.simulate.pod_lifecycle import PodRun, new_run, step
from tinykube.simulate.pod_status import OWN_CONDITIONS, pod_status, run_of_status
from tinykube.simulate.pods import (
    SIMULATED_PODS,
    Container,
    PodCondition,
    PodStatus,
    SimulatedPod,
    is_finished,
    is_terminating,
)
from tinykube.simulate.simulation_state import SimulationState

NAME = "simulate-kubelet"
_ORPHAN_SECONDS = 40.0  # grace period for a pod whose node has never existed
_LATE_SECONDS = 0.0005  # a timer that fires early by a rounding error would fire twice


class Kubelet:
    """Reconcile pods that are bound to a node. Each state transition writes one status.

    Pods of a deleted node are deleted immediately; pods on nodes of a real kubelet are ignored.
    """

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._runs: dict[str, PodRun] = {}  # by uid
        self._addresses = Addresses()
        self._pulled: dict[tuple[str, str], float] = {}  # node, image: when the pull finishes
        self._node_missing_since: dict[str, float] = {}  # uid: when the missing node was first noticed
        self._gone_nodes: set[str] = set()
        self._killing_reported: set[str] = set()  # uids
        self._written: dict[
            str, tuple[PodStatus, str]
        ] = {}  # uid: the written status and the resulting resource version
        state.pods.store.subscribe(self._on_pod)
        state.nodes.store.subscribe(self._on_node)

    def _on_pod(self, old: SimulatedPod | None, new: SimulatedPod | None) -> None:
        if new is not None and new.spec.node_name:
            uid = new.metadata.uid
            has_its_own = bool(new.status.pod_ips) and not new.spec.host_network
            if old is None and has_its_own and self._addresses.of(uid) is None:
                self._addresses.keep(uid, [each.ip for each in new.status.pod_ips or ()])
            if old is None or not self._is_echo(old, new):
                self._queue.add(key_of(new))
        elif new is None and old is not None:
            uid = old.metadata.uid
            self._addresses.release(uid)
            for memory in (self._runs, self._node_missing_since, self._written):
                memory.pop(uid, None)
            self._killing_reported.discard(uid)

    def _is_echo(self, old: SimulatedPod, new: SimulatedPod) -> bool:
        """Return whether an update contains only the status written here."""
        _, version = self._written.get(new.metadata.uid, (None, ""))
        meta = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
        return (
            version == new.metadata.resource_version
            and meta == new.metadata
            and old.spec == new.spec
            and _foreign(old.status) == _foreign(new.status)
        )

    def _on_node(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if new is None and old is not None:
            self._gone_nodes.add(old.metadata.name)
        elif new is not None:
            self._gone_nodes.discard(new.metadata.name)
        if old is None or new is None or old.is_ready != new.is_ready or old.is_real != new.is_real:
            name = (new or old).metadata.name  # type: ignore[union-attr]  # one of them there is
            for pod in self._state.pods_on(name):
                self._queue.add(key_of(pod))

    # ---------------------------------------------------------------------------------------------- work

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Advance one pod to the current time. Raises the client's errors."""
        state = self._state
        pod = state.pods.store.get(key)
        if pod is None or not pod.spec.node_name:
            return None
        node = state.nodes.store.get(ObjectKey("", pod.spec.node_name))
        if node is None:
            return await self._without_node(pod)
        if node.is_real:
            return None
        if is_finished(pod) and not is_terminating(pod):
            self._addresses.release(pod.metadata.uid)
            return None
        uid = pod.metadata.uid
        now, moment = state.now(), state.moment()
        run, next_change = step(
            pod, self._run(pod, now, moment), now, moment, lambda *start: self._plan_start(pod, now, *start),
            self._stop_seconds(pod),
        )  # fmt: skip
        self._runs[uid] = run
        wanted = pod_status(
            pod,
            run,
            moment,
            pod_ips=node.host_ips if pod.spec.host_network else self._pod_ips(pod, node),
            host_ips=node.host_ips,
            node_ready=node.is_ready,
            ready_while_terminating=state.settings.ready_while_terminating,
        )
        if is_terminating(pod) and uid not in self._killing_reported:
            self._killing_reported.add(uid)
            for event in killing_events(pod):
                state.record_event("kubelet", pod, event)
        try:
            await self._write(pod, wanted)
        except (ConflictError, NotFoundError):
            return None  # deleted or changed: the watch event requeues it
        if is_terminating(pod) and run.has_ended:
            await state.delete_pod(pod, grace_period_seconds=0)
            return None
        if math.isinf(next_change):
            return None
        return RequeueAfter(state.settings.real_seconds(max(next_change - now, 0.0)) + _LATE_SECONDS)

    def _run(self, pod: SimulatedPod, now: float, moment: str) -> PodRun:
        run = self._runs.get(pod.metadata.uid)
        if run is not None:
            return run
        if pod.status.start_time and pod.status.container_statuses:
            crash = annotation_overrides(pod.metadata.annotations).crash
            return run_of_status(pod, now, self._state.elapsed, crash)
        return new_run(pod, now, moment)

    async def _without_node(self, pod: SimulatedPod) -> RequeueAfter | None:
        """Delete a pod whose node was deleted, or did not appear in time."""
        since = self._node_missing_since.setdefault(pod.metadata.uid, self._state.now())
        left = since + _ORPHAN_SECONDS - self._state.now()
        if pod.spec.node_name not in self._gone_nodes and left > 0:
            return RequeueAfter(self._state.settings.real_seconds(left) + _LATE_SECONDS)
        await self._state.delete_pod(pod, grace_period_seconds=0)
        return None

    def _pod_ips(self, pod: SimulatedPod, node: SimulatedNode) -> Sequence[str]:
        try:
            return self._addresses.assign(pod.metadata.uid, node.pod_networks)
        except AddressesExhaustedError as error:
            raise ReconcileError(f"node {node.metadata.name}: {error}", retry_after_seconds=5.0) from None

    def _plan_start(self, pod: SimulatedPod, now: float, container: Container, starts: int) -> StartPlan:
        """Draw the random course of a container's next start."""
        state = self._state
        settings, seeded_random = state.settings, state.seeded_random
        inits = pod.spec.init_containers or ()
        is_init = container.restart_policy != "Always" and any(each.name == container.name for each in inits)
        of = (pod.metadata.namespace, pod.metadata.name, container.name, starts)
        image = pod.spec.node_name, container.image
        if image not in self._pulled:
            self._pulled[image] = now + seeded_random.around(settings.image_pull_seconds, "pull", *image)
        return StartPlan(
            pull_seconds=math.inf if has_no_image(container.image) else max(self._pulled[image] - now, 0.0),
            startup_seconds=0.0
            if is_init
            else seeded_random.around(settings.startup_seconds, "startup", *of),
            crash_after_seconds=seeded_random.until_crash(settings.crash_rate, "crash", *of),
            complete_after_seconds=seeded_random.around(settings.init_seconds, "init", *of)
            if is_init
            else None,
        )

    def _stop_seconds(self, pod: SimulatedPod) -> float:
        settings = self._state.settings
        return self._state.seeded_random.around(
            settings.stop_seconds, "stop", pod.metadata.namespace, pod.metadata.name
        )

    async def _write(self, pod: SimulatedPod, wanted: PodStatus) -> None:
        """Write a status unless the pod already has it, or it was already written to this version of the pod."""
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if self._written.get(uid) == (wanted, version) or _own(pod.status) == _own(wanted):
            return
        for event in pod_events(pod, wanted):
            self._state.record_event("kubelet", pod, event)
        body = {"metadata": {"uid": uid}, "status": msgspec.to_builtins(wanted)}
        written = await self._state.api.patch(
            SIMULATED_PODS,
            key_of(pod),
            msgspec.json.encode(body),
            patch_type=STRATEGIC_MERGE_PATCH,
            subresource="status",
        )
        if self._state.pods.store.get(key_of(pod)) is not None:
            self._written[uid] = wanted, written.metadata.resource_version
        self._state.pods.store.record_write(written)


def _own(status: PodStatus) -> tuple[object, ...]:
    """Return the kubelet's part of a status, independent of the order of conditions."""
    conditions = {each.type: each for each in status.conditions or () if each.type in OWN_CONDITIONS}
    return msgspec.structs.replace(status, conditions=None), conditions


def _foreign(status: PodStatus) -> list[PodCondition]:
    """Return the conditions set by other writers."""
    return [each for each in status.conditions or () if each.type not in OWN_CONDITIONS]
