"""Live pods that match a label selector, for routers that need labels, which slices do not have."""

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from aiokube.api.addresses import Family, canonical_ip, ip_family
from aiokube.api.core import NODES, ZONE_LABEL, NamedPort, Node, Pod, PodWire, project_pod
from aiokube.api.interning import InternPool
from aiokube.api.meta import NarrowMeta, ObjectKey, ObjectReference, key_of
from aiokube.api.resource import Resource
from aiokube.api.selectors import parse_selector
from aiokube.api.times import parse_time
from aiokube.clock import Clock, SystemClock
from aiokube.discovery.address_order import AddressOrder
from aiokube.discovery.changes import ServiceEndpoints
from aiokube.discovery.endpoint import (
    NO_LABELS,
    NOWHERE,
    EndpointView,
    FrozenLabels,
    Location,
    ServicePortName,
)
from aiokube.discovery.informer_group import Cluster
from aiokube.discovery.live_view import LiveView, ViewSettings
from aiokube.runtime.informer import Informer
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector_settings import ReflectorSettings

if TYPE_CHECKING:
    from aiokube.client.rest import Client

_FINISHED_PHASES = ("Succeeded", "Failed")
_MOST_SHARED_LABELS = 1024


class DiscoveredPod(msgspec.Struct, frozen=True, gc=False):
    """The fields of a pod that make an endpoint. ``ips`` is empty for pods that have finished or have no address."""

    metadata: NarrowMeta
    ips: tuple[str, ...]
    ready: bool
    terminating: bool
    node_name: str
    hostname: str
    zone: str
    """From the label ``topology.kubernetes.io/zone``, which Kubernetes copies to pods from 1.35 on; else
    ``""``."""
    ports: tuple[NamedPort, ...]
    since: datetime | None
    labels: FrozenLabels
    annotations: FrozenLabels


def pod_resource(labels: Iterable[str], annotations: Iterable[str]) -> Resource[DiscoveredPod]:
    """Return the resource ``pods`` in a projection that keeps these labels and annotations."""
    wanted_labels, wanted_annotations = tuple(labels), tuple(annotations)
    shared: InternPool[FrozenLabels, FrozenLabels] = InternPool(_MOST_SHARED_LABELS)

    def keep(found: dict[str, str] | None, wanted: tuple[str, ...]) -> FrozenLabels:
        if not found or not wanted:
            return NO_LABELS
        kept = FrozenLabels({name: found[name] for name in wanted if name in found})
        return shared.of(kept, kept)

    def project(wire: PodWire) -> DiscoveredPod:
        pod = project_pod(wire)
        meta = wire.metadata
        return DiscoveredPod(
            metadata=pod.metadata,
            ips=_ips(pod),
            ready=pod.ready,
            terminating=pod.terminating,
            node_name=pod.node_name,
            hostname=pod.hostname,
            zone=pod.labels.get(ZONE_LABEL, ""),
            ports=pod.named_ports,
            since=parse_time(pod.ready_since),
            labels=keep(meta.labels if meta is not None else None, wanted_labels),
            annotations=keep(meta.annotations if meta is not None else None, wanted_annotations),
        )

    return Resource(group="", version="v1", plural="pods", kind="Pod", wire=PodWire, project=project)


def _ips(pod: Pod) -> tuple[str, ...]:
    if pod.phase in _FINISHED_PHASES:
        return ()
    texts = pod.pod_ips or ((pod.pod_ip,) if pod.pod_ip else ())
    return tuple(ip for ip in map(canonical_ip, texts) if ip is not None)


def watch_pods(
    cluster: Cluster,
    namespace: str,
    selector: str,
    *,
    port: str | int,
    protocol: str = "TCP",
    labels: Iterable[str] = (),
    annotations: Iterable[str] = (),
    family: Family | None = None,
    node_zones: bool = False,
    location: Location = NOWHERE,
    timeout_seconds: float = 30.0,
    stale_after: float | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    settings: ReflectorSettings | None = None,
) -> "LivePods":
    """Watch the pods of a namespace (``""`` for all of them) that a label selector matches.

    For example::

        async with watch_pods(client, "llm", "app=vllm", port=8000, labels=["model"]) as live:
            async for endpoints in live:
                router.use({each.address: each.labels.get("model", "") for each in endpoints.usable})

    ``port`` is a number, or the name of a container port. A pod without that port is left out, and
    :meth:`LivePods.problems` lists it. ``family`` None takes each pod's first address. ``labels`` and ``annotations``
    name the ones to keep on the endpoints. The zone of an endpoint comes from the pod's label
    ``topology.kubernetes.io/zone``; with ``node_zones`` it comes from the nodes, which takes the right to list and
    watch ``nodes``.

    A pod that is Ready is ``ready``; a deleted one is ``terminating`` and, while Ready, ``serving``. Pods that have
    finished, and pods that stop matching, are no endpoints. If two pods have one address, the one that does not
    terminate counts. ``cluster``, ``timeout_seconds`` and ``stale_after`` are as in :func:`watch_service`; the rights
    needed are ``list`` and ``watch`` on ``pods``.

    Raises ValueError for a selector that is empty or cannot be parsed. Entering raises ConfigError and NotSyncedError
    as :func:`watch_service` does.
    """
    if not selector.strip():
        raise ValueError("selector must name at least one label, as in 'app=web'")
    parse_selector(selector)
    view_settings = ViewSettings(
        cluster=cluster,
        timeout_seconds=timeout_seconds,
        stale_after=stale_after,
        clock=clock or SystemClock(),
        rng=rng or random.SystemRandom(),
        reflector=settings,
    )
    return LivePods(
        namespace,
        selector,
        view_settings,
        resource=pod_resource(labels, annotations),
        port=port,
        protocol=protocol,
        family=family,
        node_zones=node_zones,
        location=location,
    )


class LivePods(LiveView):
    """The endpoints that a label selector matches; see :class:`~aiokube.discovery.live_view.LiveView`.

    ``name`` of the value is the namespace, the selector in place of the service, and the port.
    """

    def __init__(
        self,
        namespace: str,
        selector: str,
        settings: ViewSettings,
        *,
        resource: Resource[DiscoveredPod],
        port: str | int,
        protocol: str,
        family: Family | None,
        node_zones: bool,
        location: Location,
    ) -> None:
        super().__init__(f"pods {selector} in {namespace or 'all namespaces'}", settings)
        self._namespace = namespace
        self._selector = selector
        self._resource = resource
        self._port = port
        self._family = family
        self._location = location
        self._node_zones = node_zones
        self._port_name = ServicePortName(namespace, selector, str(port), protocol)
        self._zones: dict[str, str] = {}
        self._endpoints = AddressOrder()
        self._problems: dict[ObjectKey, str] = {}
        self._pods: Informer[DiscoveredPod] | None = None

    @property
    def resource_version(self) -> str:
        """The moment of the server's history that the pods are of; ``""`` before the first."""
        return self._pods.store.resource_version if self._pods is not None else ""

    def problems(self) -> dict[ObjectKey, str]:
        """Return each matching pod that is left out although it has an address, with the reason."""
        return dict(self._problems)

    def _make_informers(self, client: "Client") -> Sequence[Informer[Any]]:
        reachability = Reachability(clock=self._settings.clock, rng=self._settings.rng)
        source = client.source(self._resource, namespace=self._namespace, label_selector=self._selector)
        self._pods = self._informer(source, self._name, reachability)
        self._pods.store.subscribe(self._on_pod)
        if not self._node_zones:
            return (self._pods,)
        nodes = self._informer(client.source(NODES), "nodes", reachability)
        nodes.store.subscribe(self._on_node)
        return self._pods, nodes

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        name = (new or old).metadata.name  # type: ignore[union-attr]
        zone = new.zone if new is not None else ""
        if self._zones.get(name, "") == zone or self._pods is None:
            return
        self._zones[name] = zone
        for pod in self._pods.store.values():
            if pod.node_name == name:
                self._on_pod(pod, pod)

    def _on_pod(self, old: DiscoveredPod | None, new: DiscoveredPod | None) -> None:
        if new is None:
            if old is not None:
                self._endpoints.remove(key_of(old))
                self._problems.pop(key_of(old), None)
            return
        key = key_of(new)
        view, problem = self._view_of(new)
        if view is None:
            self._endpoints.remove(key)
        else:
            self._endpoints.put(key, view)
        if problem:
            self._problems[key] = problem
        else:
            self._problems.pop(key, None)

    def _view_of(self, pod: DiscoveredPod) -> tuple[EndpointView | None, str]:
        ip = _first(pod.ips, lambda ip: self._family in (None, ip_family(ip)))
        if ip is None:
            return None, f"the pod has no {self._family} address" if pod.ips else ""
        port = self._port
        if isinstance(port, str):
            protocol = self._port_name.protocol
            named = _first(pod.ports, lambda each: each.name == port and each.protocol == protocol)
            if named is None:
                return None, f"the pod has no {protocol} container port named {port!r}"
            port = named.number
        meta = pod.metadata
        return EndpointView(
            ip=ip,
            port=port,
            ready=pod.ready and not pod.terminating,
            serving=pod.ready,
            terminating=pod.terminating,
            node_name=pod.node_name,
            zone=self._zones.get(pod.node_name, "") if self._node_zones else pod.zone,
            hostname=pod.hostname,
            target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
            labels=pod.labels,
            annotations=pod.annotations,
            ports=pod.ports,
            since=pod.since,
        ), ""

    def _compute(self) -> ServiceEndpoints:
        return ServiceEndpoints(
            self._port_name, self._family or "IPv4", self._endpoints.endpoints(), location=self._location
        )


def _first(items: Iterable[Any], suits: Callable[[Any], bool]) -> Any:
    return next((item for item in items if suits(item)), None)
