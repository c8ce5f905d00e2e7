"""What the simulation asks of an API server, and the few requests that all of its controllers send."""

from typing import Any, Protocol, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.client.rest import MERGE_PATCH
from aiokube.runtime.source import Source

T = TypeVar("T", bound=KubernetesObject)


class Api(Protocol):
    """The part of :class:`aiokube.client.rest.Client` that is used; its promises and errors hold."""

    def source(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Source[T]:
        """Return something to watch."""
        ...

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read one object."""
        ...

    async def patch(
        self,
        resource: Resource[T],
        key: ObjectKey,
        body: bytes | msgspec.Struct,
        *,
        patch_type: str,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        """Change a part of an object."""
        ...

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object."""
        ...

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        """Send anything."""
        ...


async def create(api: Api, resource: Resource[T], document: dict[str, Any], namespace: str = "") -> T:
    """Create an object of its JSON and return it as stored."""
    answer = await api.request("POST", resource.path(namespace), body=msgspec.json.encode(document))
    return resource.decode(answer)


async def merge(
    api: Api,
    resource: Resource[T],
    key: ObjectKey,
    change: dict[str, Any],
    *,
    uid: str = "",
    resource_version: str = "",
    subresource: str = "",
) -> T:
    """Merge a change into an object and return it; ConflictError where it is another, or of another version, by now."""
    metadata = dict(change.get("metadata") or {})
    if uid:
        metadata["uid"] = uid
    if resource_version:
        metadata["resourceVersion"] = resource_version
    body = {**change, "metadata": metadata} if metadata else change
    return await api.patch(
        resource, key, msgspec.json.encode(body), patch_type=MERGE_PATCH, subresource=subresource
    )
