"""A snapshot of a cluster, read from its API server or from files. What could not be read is unknown, never empty."""

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
_MOST_EVENTS_READ = 50


async def read_cluster(
    client: Client, namespace: str = "", *, details: bool = False, also: ObjectKey | None = None
) -> Snapshot:
    """Read what Services depend on: of one namespace, of all where it is ``""``; nodes always all.

    The collections are read side by side, so they are not of one moment: where something is changing, a second look tells.
    What the server forbids is noted in ``unread``; pods and services have to be readable. ``also`` is one more pod, of
    another namespace. Raises :class:`aiokube.client.errors.ApiError` and its transport relatives otherwise.
    """
    unread: list[Unread] = []
    reading: Any = PODS_WITH_DETAILS if details else PODS
    async with asyncio.TaskGroup() as group:
        # Failures are raised when all have ended: a request that is cut off leaves its connection half closed.
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
    """Return the Events of some pods, as far as they can be read."""

    async def of_pod(key: ObjectKey) -> tuple[Event, ...]:
        try:
            page = await client.list_page(
                EVENTS,
                namespace=key.namespace,
                field_selector=f"involvedObject.name={key.name}",
                limit=_MOST_EVENTS_READ,
            )
        except (ForbiddenError, NotFoundError):
            return ()
        return page.items

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_tried(of_pod(key)), name=f"events of {key}") for key in pods]
    return tuple(event for task in tasks for event in _result(task))


async def namespaces_with(client: Client, resource: Resource[Any], name: str) -> list[str]:
    """Return the namespaces that have an object of this name; none where it may not be asked."""
    try:
        page = await client.list_page(resource, field_selector=f"metadata.name={name}", limit=_PAGE)
    except ClientError:
        return []
    return sorted({item.metadata.namespace for item in page.items})


async def namespace_names(client: Client, wanted: str) -> list[str] | None:
    """Return the names of all namespaces, None where ``wanted`` is one of them or it may not be asked."""
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
    """Return what manifests hold, as ``kubectl get -o yaml`` writes them, as a snapshot; other kinds are passed over.

    Files show a part of a cluster: unless ``is_complete``, a kind of which they have no object is unknown, and where they
    have workloads and no pods, pods are made from the templates. Raises :class:`ManifestError` for an object that is not of
    its kind's shape.
    """
    found: dict[str, list[Any]] = {field: [] for _, field in _KINDS.values()}
    assumed = ""
    if not is_complete and not any(one.kind == "Pod" for one in manifests):
        made = _pods_of_workloads(manifests, default_namespace)
        if made:
            assumed = "there are no pods: those of the workloads' templates are used, as if they were ready"
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
        whole = {**manifest.document, "metadata": metadata}
        if manifest.kind == "Service" and not is_complete:
            whole = _as_stored(whole, manifest)
        document = msgspec.json.encode(whole)
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
        assumed=assumed,
    )


def _as_stored(service: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Return a service as a server would store it: one that has not been on a server has no family and no address yet."""
    spec = service.get("spec") or {}
    try:
        if spec.get("clusterIP") or spec.get("ipFamilies"):
            return service
        return defaulted_service(service, OfflineSettings())
    except (TypeError, AttributeError, ValueError) as error:
        raise ManifestError(f"{manifest.place}: Service {manifest.name}: {error}") from error


def _unread(found: dict[str, list[Any]]) -> tuple[Unread, ...]:
    """Return the kinds that the files do not show. Endpoints written by hand do not show what the controllers wrote."""
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
                Unread(resource.plural, f"the files have no {resource.kind} of a service with a selector")
            )
    return tuple(unread)


def _pods_of_workloads(manifests: Sequence[Manifest], default_namespace: str) -> list[Manifest]:
    workloads = [one for one in manifests if one.kind in WORKLOADS]
    if not workloads:
        return []
    offline = OfflineSettings(default_namespace=default_namespace, most_pods_each=1)
    try:
        documents = complete([one.document for one in workloads], offline)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise ManifestError(
            f"{workloads[0].source}: a workload is not of its kind's shape: {error}"
        ) from error
    made = [document for document in documents if document["kind"] == "Pod"]
    for document in made:
        document["spec"].pop("nodeName", None)  # there are no nodes either
    return [Manifest(document, workloads[0].source, workloads[0].line) for document in made]
