"""The part of the API client that the simulation uses, and the requests that its controllers share."""

from typing import Any, Protocol, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.client.rest import MERGE_PATCH
from aiokube.runtime.source import Source

T = TypeVar("T", bound=KubernetesObject)


class Api(Protocol):
    """The subset of :class:`aiokube.client.rest.Client` in use, with the same guarantees and errors."""

    def source(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Source[T]:
        """Return a source to list and watch."""
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
        """Patch an object or subresource."""
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
        """Send a raw request."""
        ...


async def create(api: Api, resource: Resource[T], document: dict[str, Any], namespace: str = "") -> T:
    """Create an object from JSON and return it as stored."""
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
    """Merge-patch an object and return it.

    Raises ConflictError if the object was replaced (``uid``) or has another ``resource_version``.
    """
    metadata = dict(change.get("metadata") or {})
    if uid:
        metadata["uid"] = uid
    if resource_version:
        metadata["resourceVersion"] = resource_version
    body = {**change, "metadata": metadata} if metadata else change
    return await api.patch(
        resource, key, msgspec.json.encode(body), patch_type=MERGE_PATCH, subresource=subresource
    )
