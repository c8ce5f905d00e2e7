"""The write interface of controllers: the client itself, or a wrapper around it."""

from typing import Any, Protocol, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource

T = TypeVar("T", bound=KubernetesObject)


class Writer(Protocol):
    """The part of :class:`aiokube.client.rest.Client` that controllers use for writes."""

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read one object from the server."""
        ...

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create an object; return it as stored."""
        ...

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace an object; return it as stored."""
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
        """Delete an object if it has this uid."""
        ...
