"""Read a snapshot of a cluster from its API server or from files.

An unreadable collection is unknown, never empty.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
)
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.events import EVENTS, Event
from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.client.errors import ClientError, ForbiddenError, NotFoundError
from aiokube.client.manifests import Manifest, ManifestError
from aiokube.client.rest import Client
from endpointd.diagnose.details import PODS_WITH_DETAILS
from endpointd.diagnose.offline import WORKLOADS, OfflineSettings, complete, defaulted_service
from endpointd.diagnose.snapshot import Snapshot, Unread

T = TypeVar("T", bound=KubernetesObject)

_PAGE = 2000
_MAX_EVENTS_PER_POD = 50


async def read_cluster(
    client: Client, namespace: str = "", *, details: bool = False, also: ObjectKey | None = None
) -> Snapshot:
    """Read the objects that Services depend on, in one namespace or in all (``""``), and all nodes.

    The collections are read concurrently, so they may be of different moments; while objects change, a second
    read can differ. Forbidden collections are listed in ``unread``, except pods and services, which must be
    readable. ``also`` is one more pod, in another namespace. Raises :class:`aiokube.client.errors.ApiError`
    and transport errors.
    """
    unread: list[Unread] = []
    reading: Any = PODS_WITH_DETAILS if details else PODS
    async with asyncio.TaskGroup() as group:
        # Errors are raised after all requests end: cancelling a request leaves its connection half closed.
        pods = group.create_task(_tried(_list(client, reading, namespace)), name="pods")
        services = group.create_task(_tried(_list(client, SERVICES, namespace)), name="services")
        nodes = group.create_task(_tried(_optional(client, NODES, "", unread)), name="nodes")
        endpoints = group.create_task(
            _tried(_optional(client, ENDPOINTS, namespace, unread)), name="endpoints"
        )
        slices = group.create_task(
            _tried(_optional(client, ENDPOINT_SLICES, namespace, unread)), name="slices"
        )
        another = group.create_task(_tried(_one(client, reading, also)), name="another pod")
    found: Sequence[Any] = (*_result(pods), *_result(another))
    return Snapshot(
        services=_result(services),
        pods=tuple(one.pod for one in found) if details else tuple(found),
        nodes=_result(nodes),
        endpoints=_result(endpoints),
        slices=_result(slices),
        details=tuple(one.details for one in found) if details else (),
        namespace=namespace,
        unread=tuple(sorted(unread, key=lambda one: one.resource)),
    )


async def read_events(client: Client, pods: Iterable[ObjectKey]) -> tuple[Event, ...]:
    """Return the Events of some pods; pods whose Events cannot be read are skipped."""

    async def of_pod(key: ObjectKey) -> tuple[Event, ...]:
        try:
            page = await client.list_page(
                EVENTS,
                namespace=key.namespace,
                field_selector=f"involvedObject.name={key.name}",
                limit=_MAX_EVENTS_PER_POD,
            )
        except (ForbiddenError, NotFoundError):
            return ()
        return page.items

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_tried(of_pod(key)), name=f"events of {key}") for key in pods]
    return tuple(event for task in tasks for event in _result(task))


async def namespaces_with(client: Client, resource: Resource[Any], name: str) -> list[str]:
    """Return the namespaces with an object of this name, or none if they cannot be listed."""
    try:
        page = await client.list_page(resource, field_selector=f"metadata.name={name}", limit=_PAGE)
    except ClientError:
        return []
    return sorted({item.metadata.namespace for item in page.items})


async def namespace_names(client: Client, wanted: str) -> list[str] | None:
    """Return all namespace names, or None if ``wanted`` exists or cannot be read."""
    try:
        await client.request("GET", f"/api/v1/namespaces/{wanted}")
    except NotFoundError:
        pass
    except ClientError:
        return None
    else:
        return None
    try:
        answer = msgspec.json.decode(await client.request("GET", "/api/v1/namespaces"))
    except ClientError:
        return []
    return [item["metadata"]["name"] for item in answer.get("items") or ()]


async def _tried(reading: Coroutine[Any, Any, tuple[T, ...]]) -> tuple[T, ...] | ClientError:
    try:
        return await reading
    except ClientError as error:
        return error


def _result(task: asyncio.Task[tuple[T, ...] | ClientError]) -> tuple[T, ...]:
    result = task.result()
    if isinstance(result, ClientError):
        raise result
    return result


async def _list(client: Client, resource: Resource[T], namespace: str) -> tuple[T, ...]:
    items: list[T] = []
    token = ""
    while True:
        page = await client.list_page(resource, namespace=namespace, limit=_PAGE, continue_token=token)
        items += page.items
        token = page.continue_token
        if not token:
            return tuple(items)


async def _one(client: Client, resource: Resource[T], key: ObjectKey | None) -> tuple[T, ...]:
    if key is None:
        return ()
    try:
        return (await client.get(resource, key),)
    except (ForbiddenError, NotFoundError):
        return ()


async def _optional(
    client: Client, resource: Resource[T], namespace: str, unread: list[Unread]
) -> tuple[T, ...]:
    try:
        return await _list(client, resource, namespace)
    except (ForbiddenError, NotFoundError) as error:
        unread.append(Unread(resource.plural, str(error)))
        return ()


_KINDS: dict[tuple[str, str], tuple[Resource[Any], str]] = {
    ("v1", "Service"): (SERVICES, "services"),
    ("v1", "Pod"): (PODS_WITH_DETAILS, "pods"),
    ("v1", "Node"): (NODES, "nodes"),
    ("v1", "Endpoints"): (ENDPOINTS, "endpoints"),
    ("discovery.k8s.io/v1", "EndpointSlice"): (ENDPOINT_SLICES, "slices"),
    ("v1", "Event"): (EVENTS, "events"),
}


def snapshot_of(
    manifests: Sequence[Manifest], *, default_namespace: str = "default", is_complete: bool = True
) -> Snapshot:
    """Return manifests, as printed by ``kubectl get -o yaml``, as a snapshot; other kinds are ignored.

    Files show part of a cluster: unless ``is_complete``, a kind without any object is unknown, and if there
    are workloads but no pods, pods are made from the templates. Raises :class:`ManifestError` for an object
    that does not match its kind's schema.
    """
    found: dict[str, list[Any]] = {field: [] for _, field in _KINDS.values()}
    assumption = ""
    if not is_complete and not any(one.kind == "Pod" for one in manifests):
        made = _pods_of_workloads(manifests, default_namespace)
        if made:
            assumption = "no pods in the files: assuming ready pods from the workloads' templates"
            manifests = [*manifests, *made]
    for manifest in manifests:
        entry = _KINDS.get((manifest.api_version, manifest.kind))
        if entry is None:
            continue
        resource, field = entry
        metadata = dict(manifest.document["metadata"])
        if manifest.kind != "Node":
            metadata.setdefault("namespace", default_namespace)
        metadata.setdefault("uid", f"{manifest.kind.lower()}-{metadata.get('namespace', '')}-{manifest.name}")
        document_with_metadata = {**manifest.document, "metadata": metadata}
        if manifest.kind == "Service" and not is_complete:
            document_with_metadata = _as_stored(document_with_metadata, manifest)
        document = msgspec.json.encode(document_with_metadata)
        try:
            found[field].append(resource.decode(document))
        except msgspec.ValidationError as error:
            raise ManifestError(f"{manifest.place}: {manifest.kind} {manifest.name}: {error}") from error
    unread = () if is_complete else _unread(found)
    return Snapshot(
        services=tuple(found["services"]),
        pods=tuple(one.pod for one in found["pods"]),
        nodes=tuple(found["nodes"]),
        endpoints=tuple(found["endpoints"]),
        slices=tuple(found["slices"]),
        details=tuple(one.details for one in found["pods"]),
        events=tuple(found["events"]),
        unread=unread,
        assumed=assumption,
    )


def _as_stored(service: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Return a service as a server would store it: a manifest lacks IP families and a cluster IP."""
    spec = service.get("spec") or {}
    try:
        if spec.get("clusterIP") or spec.get("ipFamilies"):
            return service
        return defaulted_service(service, OfflineSettings())
    except (TypeError, AttributeError, ValueError) as error:
        raise ManifestError(f"{manifest.place}: Service {manifest.name}: {error}") from error


def _unread(found: dict[str, list[Any]]) -> tuple[Unread, ...]:
    """Return the kinds that the files lack. Hand-written Endpoints do not show the controllers' output."""
    selecting = {service.metadata.key for service in found["services"] if service.selector}
    written = {
        "endpoints": any(item.metadata.key in selecting for item in found["endpoints"]),
        "slices": any(
            (endpoint_slice.metadata.labels or {}).get(MANAGED_BY_LABEL)
            == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            for endpoint_slice in found["slices"]
        ),
    }
    unread = []
    for resource, field in sorted(_KINDS.values(), key=lambda one: one[0].plural):
        if field == "events":
            continue
        if not found[field]:
            unread.append(Unread(resource.plural, f"the files have no {resource.kind}"))
        elif selecting and not written.get(field, True):
            unread.append(
                Unread(resource.plural, f"the files have no {resource.kind} for any service with a selector")
            )
    return tuple(unread)


def _pods_of_workloads(manifests: Sequence[Manifest], default_namespace: str) -> list[Manifest]:
    workloads = [one for one in manifests if one.kind in WORKLOADS]
    if not workloads:
        return []
    offline = OfflineSettings(default_namespace=default_namespace, max_pods_per_workload=1)
    try:
        documents = complete([one.document for one in workloads], offline)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise ManifestError(
            f"{workloads[0].source}: a workload does not match its kind's schema: {error}"
        ) from error
    made = [document for document in documents if document["kind"] == "Pod"]
    for document in made:
        document["spec"].pop("nodeName", None)  # the nodes are unknown, too
    return [Manifest(document, workloads[0].source, workloads[0].line) for document in made]
