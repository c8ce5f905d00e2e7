"""Explain why a pod is, or is not, in a service: its published endpoints and the chain of reasons. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from aiokube.api.core import Service
from aiokube.api.discovery import (
    EndpointPort,
    EndpointSlice,
)
from aiokube.api.events import Event
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from endpointd.controllers.endpointslice.desired import PodTranslator
from endpointd.diagnose.changes import Settings, managed_by
from endpointd.diagnose.explain_pod import PodExplainer, events_of
from endpointd.diagnose.explain_summary import service_notes, summarise
from endpointd.diagnose.explanation import AddressExplanation, ServiceExplanation, SliceExplanation
from endpointd.diagnose.ports import ports_text
from endpointd.diagnose.reasons import (
    is_selected,
)
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.traffic import (
    near_misses,
    traffic_problems,
)

_MAX_NEAR_MISSES = 10


class NotFoundError(LookupError):
    """An object does not exist.

    The text suggests similar names, or namespaces that have an object of this name.
    """

    def __init__(self, kind: str, key: ObjectKey, elsewhere: Sequence[str], close: Sequence[str]) -> None:
        hint = ""
        if elsewhere:
            hint = f"; found in namespace {', '.join(elsewhere)}"
        elif close:
            hint = f"; did you mean {', '.join(close)}?"
        super().__init__(f"{kind} {key.name} not found in namespace {key.namespace}{hint}")
        self.kind = kind
        self.key = key
        self.has_hint = bool(hint)


class NoSuchServiceError(NotFoundError):
    """The service does not exist."""


def explain_service(
    index: ClusterIndex,
    key: ObjectKey,
    now: datetime,
    *,
    pod: ObjectKey | None = None,
    settings: Settings | None = None,
) -> ServiceExplanation:
    """Explain a service and the pods near it: those it selects, publishes or nearly selects.

    ``pod`` limits the explanation to one pod, even an unrelated one. Raises :class:`NoSuchServiceError`, and
    :class:`NotFoundError` if ``pod`` does not exist.
    """
    service = index.services.get(key)
    if service is None:
        raise NoSuchServiceError("service", key, *similar(key, index.services.values()))
    explainer = PodExplainer(index, service, now)
    if pod is not None and index.pods.get(pod) is None and pod not in explainer.published:
        raise NotFoundError("pod", pod, *similar(pod, index.pods.values()))
    selected = sorted(index.membership.pods_of(key), key=lambda one: one.metadata.name)
    near = near_misses(index, service) if pod is None else []
    pod_keys = dict.fromkeys(key_of(one) for one in (*selected, *near[:_MAX_NEAR_MISSES]))
    if service.selector:
        pod_keys.update(dict.fromkeys(explainer.published))
    pods = tuple(explainer.explain(one) for one in ([pod] if pod is not None else pod_keys))
    problems = traffic_problems(index, service)
    addresses = tuple(_addresses(index, service))
    verdict, summary = summarise(index, service, selected, problems, pods if pod is None else (), addresses)
    return ServiceExplanation(
        namespace=key.namespace,
        name=key.name,
        type="headless" if service.cluster_ip == "None" else service.type or "ClusterIP",
        verdict=verdict,
        summary=summary,
        selector=",".join(f"{name}={value}" for name, value in (service.selector or {}).items()),
        families=PodTranslator(service, index.zone_of).address_types,
        ports=", ".join(
            f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol} -> {port.target_port}"
            for port in service.ports
        ),
        reasons=tuple(service_notes(index, service, problems, settings or Settings())),
        slices=tuple(
            _slice_explanation(endpoint_slice) for endpoint_slice in index.slices_by_service.get(key, ())
        )
        if index.could_read("endpointslices")
        else None,
        pods=pods,
        near_misses=len(near),
        addresses=addresses,
        assumed=index.snapshot.assumed,
    )


def services_near(index: ClusterIndex, key: ObjectKey) -> list[ObjectKey]:
    """Return the services that select a pod, publish it, or nearly select it, in this order."""
    pod = index.pods.get(key)
    selecting: list[ObjectKey] = []
    near: list[ObjectKey] = []
    for service in index.services.values():
        if service.metadata.namespace != key.namespace or service.is_external_name:
            continue
        if (pod is not None and is_selected(service, pod)) or any(
            endpoint.target_ref is not None and endpoint.target_ref.name == key.name
            for endpoint_slice in index.slices_by_service.get(key_of(service), ())
            for endpoint in endpoint_slice.endpoints or ()
        ):
            selecting.append(key_of(service))
        elif pod is not None and pod in near_misses(index, service):
            near.append(key_of(service))
    return [*sorted(selecting), *sorted(near)]


def with_events(found: ServiceExplanation, events: Sequence[Event]) -> ServiceExplanation:
    """Return an explanation with the Events of its pods."""
    if not events:
        return found
    names = {event.involved_object.name for event in events}
    pods = tuple(
        msgspec.structs.replace(pod, events=events_of(events, pod.key)) if pod.pod in names else pod
        for pod in found.pods
    )
    return msgspec.structs.replace(found, pods=pods)


def _slice_explanation(endpoint_slice: EndpointSlice) -> SliceExplanation:
    endpoints = endpoint_slice.endpoints or ()
    return SliceExplanation(
        name=endpoint_slice.metadata.name,
        managed_by=managed_by(endpoint_slice),
        address_type=endpoint_slice.address_type,
        ports=ports_text(endpoint_slice.ports),
        endpoints=len(endpoints),
        ready=sum(endpoint.conditions.ready is not False for endpoint in endpoints),
    )


def _addresses(index: ClusterIndex, service: Service) -> Iterator[AddressExplanation]:
    """Yield the addresses of a service without a selector; mirrored addresses once, as those of the Endpoints."""
    if service.selector:
        return
    key = key_of(service)
    item = index.endpoints.get(key)
    seen: set[str] = set()
    if item is not None:
        for subset in item.subsets or ():
            ports = ports_text(
                EndpointPort(port.name, port.protocol, port.port) for port in subset.ports or ()
            )
            for addresses, is_ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
                for one in addresses or ():
                    target = one.target_ref
                    text = f"{target.kind} {target.name}" if target is not None else ""
                    seen.add(one.ip)
                    yield AddressExplanation(one.ip, is_ready, f"Endpoints {item.metadata.name}", ports, text)
    for endpoint_slice in index.slices_by_service.get(key, ()):
        for endpoint in endpoint_slice.endpoints or ():
            address = ", ".join(endpoint.addresses)
            if address in seen:
                continue
            target = endpoint.target_ref
            yield AddressExplanation(
                address,
                endpoint.conditions.ready is not False,
                f"EndpointSlice {endpoint_slice.metadata.name} (by {managed_by(endpoint_slice) or 'hand'})",
                ports_text(endpoint_slice.ports),
                f"{target.kind} {target.name}" if target is not None else "",
            )


def similar(key: ObjectKey, items: Iterable[KubernetesObject]) -> tuple[list[str], list[str]]:
    """Return the namespaces that have an object of this name, and similar names in the same namespace."""
    keys = [key_of(item) for item in items]
    names = [one.name for one in keys if one.namespace == key.namespace]
    close = difflib.get_close_matches(key.name, names, n=3, cutoff=0.5)
    return sorted({one.namespace for one in keys if one.name == key.name}), close
