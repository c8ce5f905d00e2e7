"""A snapshot of a cluster, read from its API server or from files; what may not be read is noted, not guessed."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from endpointd.api.core import NODES, PODS, SERVICES
from endpointd.api.discovery import ENDPOINT_SLICES
from endpointd.api.endpoints import ENDPOINTS
from endpointd.api.meta import KubernetesObject
from endpointd.api.resource import Resource
from endpointd.cli.manifests import Manifest, ManifestError
from endpointd.client.errors import ClientError, ForbiddenError, NotFoundError
from endpointd.client.rest import Client
from endpointd.diagnose.details import POD_DETAILS
from endpointd.diagnose.snapshot import Snapshot, Unread

T = TypeVar("T", bound=KubernetesObject)

_PAGE = 500


async def read_cluster(client: Client, namespace: str = "", *, details: bool = False) -> Snapshot:
    """Read what Services depend on: of one namespace, of all where it is ``""``; nodes always all.

    The collections are read one after the other's start, side by side, so they need not be of one moment: where something
    is changing, a second look tells. What the server forbids is noted in ``unread``; pods and services have to be
    readable. Raises :class:`endpointd.client.errors.ApiError` and its transport relatives otherwise.
    """
    unread: list[Unread] = []
    async with asyncio.TaskGroup() as group:
        # What fails is looked at when all have ended: a request that is cut off leaves its connection half closed.
        pods = group.create_task(_tried(_list(client, PODS, namespace)), name="pods")
        services = group.create_task(_tried(_list(client, SERVICES, namespace)), name="services")
        nodes = group.create_task(_tried(_optional(client, NODES, "", unread)), name="nodes")
        endpoints = group.create_task(
            _tried(_optional(client, ENDPOINTS, namespace, unread)), name="endpoints"
        )
        slices = group.create_task(
            _tried(_optional(client, ENDPOINT_SLICES, namespace, unread)), name="slices"
        )
        wanted = _list(client, POD_DETAILS, namespace) if details else _nothing()
        explained = group.create_task(_tried(wanted), name="details")
    return Snapshot(
        services=_result(services),
        pods=_result(pods),
        nodes=_result(nodes),
        endpoints=_result(endpoints),
        slices=_result(slices),
        details=_result(explained),
        namespace=namespace,
        unread=tuple(sorted(unread, key=lambda one: one.resource)),
    )


async def _tried(reading: Coroutine[Any, Any, tuple[T, ...]]) -> tuple[T, ...] | ClientError:
    try:
        return await reading
    except ClientError as error:
        return error


async def _nothing() -> tuple[Any, ...]:
    return ()


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
    ("v1", "Pod"): (PODS, "pods"),
    ("v1", "Node"): (NODES, "nodes"),
    ("v1", "Endpoints"): (ENDPOINTS, "endpoints"),
    ("discovery.k8s.io/v1", "EndpointSlice"): (ENDPOINT_SLICES, "slices"),
}


def snapshot_of(manifests: Sequence[Manifest], *, default_namespace: str = "default") -> Snapshot:
    """Return what manifests hold, as ``kubectl get -o yaml`` writes them, as a snapshot; other kinds are passed over.

    Raises :class:`ManifestError` for an object that is not of its kind's shape.
    """
    found: dict[str, list[Any]] = {field: [] for _, field in _KINDS.values()}
    details = []
    for manifest in manifests:
        entry = _KINDS.get((manifest.api_version, manifest.kind))
        if entry is None:
            continue
        resource, field = entry
        metadata = dict(manifest.document["metadata"])
        if manifest.kind != "Node":
            metadata.setdefault("namespace", default_namespace)
        metadata.setdefault("uid", f"{manifest.kind.lower()}-{metadata.get('namespace', '')}-{manifest.name}")
        document = msgspec.json.encode({**manifest.document, "metadata": metadata})
        try:
            found[field].append(resource.decode(document))
            if manifest.kind == "Pod":
                details.append(POD_DETAILS.decode(document))
        except msgspec.ValidationError as error:
            raise ManifestError(f"{manifest.place}: {manifest.kind} {manifest.name}: {error}") from error
    return Snapshot(
        services=tuple(found["services"]),
        pods=tuple(found["pods"]),
        nodes=tuple(found["nodes"]),
        endpoints=tuple(found["endpoints"]),
        slices=tuple(found["slices"]),
        details=tuple(details),
    )
