"""API discovery: the path of a kind, and whether it is namespaced."""

from typing import Any
from urllib.parse import quote

import msgspec

from aiokube.client.errors import NotFoundError
from aiokube.client.rest import Client


class ApiResource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A resource of one group and version, as the server lists it."""

    name: str
    """The plural: ``services``; ``pods/status`` is a subresource."""
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ResourceList(msgspec.Struct, gc=False):
    resources: tuple[ApiResource, ...] | None = None


class UnknownKindError(LookupError):
    """The server has no such kind; the message names the kind and suggests a similar one."""


_decoder = msgspec.json.Decoder(_ResourceList)


class Discovery:
    """Resolves kinds from the server's resource lists, each fetched once per instance."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lists: dict[str, tuple[ApiResource, ...]] = {}

    async def find(self, api_version: str, kind: str) -> ApiResource:
        """Return the resource of a kind.

        Raises :class:`UnknownKindError` if the server has no such group, version or kind, and the errors of :meth:`aiokube.client.rest.Client.request`.
        """
        resources = await self._resources(api_version)
        for resource in resources:
            if resource.kind == kind and "/" not in resource.name:
                return resource
        near = [resource.kind for resource in resources if resource.kind.lower() == kind.lower()]
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownKindError(f"the server knows no kind {kind} in {api_version}{hint}")

    async def _resources(self, api_version: str) -> tuple[ApiResource, ...]:
        known = self._lists.get(api_version)
        if known is None:
            try:
                answer = await self._client.request("GET", group_path(api_version))
            except NotFoundError as error:
                raise UnknownKindError(f"the server does not know apiVersion {api_version}") from error
            known = self._lists[api_version] = _decoder.decode(answer).resources or ()
        return known


def group_path(api_version: str) -> str:
    """Return the path of a group and version: ``/api/v1``, ``/apis/apps/v1``."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def object_path(api_version: str, resource: ApiResource, namespace: str = "", name: str = "") -> str:
    """Return the path of an object, or of the collection if ``name`` is empty."""
    parts: list[Any] = [group_path(api_version)]
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.name)
    if name:
        parts.append(quote(name, safe=""))
    return "/".join(parts)
