"""The client API that ``endpointd run`` uses, on in-process fake sources, for hours of virtual time.

Every object is encoded to JSON and decoded again, as over a network, so no value is shared by accident.
"""

from random import Random
from typing import Any, Self

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.events import EVENTS
from aiokube.api.meta import ObjectKey
from aiokube.api.names import name_suffix
from aiokube.api.resource import Resource
from aiokube.client.errors import ConflictError, NotFoundError
from aiokube.testing.api_errors import failure_status, status_error
from aiokube.testing.fake_source import FakeSource

_KEPT_EVENTS = 200


class ForgetfulSource(FakeSource[Any]):
    """A source with bounded history, as etcd's after compaction."""

    def __init__(self) -> None:
        super().__init__()
        self.lists_begun = 0
        """Number of lists, including watches with initial events, up to the last :meth:`forget`."""

    def forget(self, keep: int = _KEPT_EVENTS) -> None:
        """Keep only the latest events, and the recorded requests."""
        self.lists_begun += sum(
            request.send_initial_events or (request.kind == "list" and not request.continue_token)
            for request in self.requests
        )
        self.requests.clear()
        if len(self._events) > keep:
            last = len(self._events) - keep - 1
            self._compacted = self._versions[last]
            del self._events[: last + 1], self._versions[: last + 1]
            self._lists.clear()


class ChurnServer:
    """A server that assigns names, versions and uids, rejects stale writes, and sometimes fails."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.server = "https://in-memory"
        self.refused_of_a_thousand = 0
        """Writes per thousand that fail with 500."""
        self.writes = 0
        self.services = ForgetfulSource()
        self.pods = ForgetfulSource()
        self.nodes = ForgetfulSource()
        self.endpoints = ForgetfulSource()
        self.slices = ForgetfulSource()
        self.events = ForgetfulSource()
        self._sources: dict[str, ForgetfulSource] = {
            SERVICES.full_name: self.services,
            PODS.full_name: self.pods,
            NODES.full_name: self.nodes,
            ENDPOINTS.full_name: self.endpoints,
            ENDPOINT_SLICES.full_name: self.slices,
            EVENTS.full_name: self.events,
        }

    def metadata_only(self) -> Self:
        """Return itself: responses cost nothing here."""
        return self

    @property
    def sources(self) -> tuple[ForgetfulSource, ...]:
        """Return all sources."""
        return tuple(self._sources.values())

    def source(self, resource: Resource[Any], **options: object) -> ForgetfulSource:
        """Return the source that lists and watches a resource."""
        return self._sources[resource.full_name]

    async def get(self, resource: Resource[Any], key: ObjectKey) -> Any:
        """Return one object. Raises NotFoundError."""
        found = self._sources[resource.full_name].objects.get(key)
        if found is None:
            raise _not_found(resource, key)
        return found

    async def create(self, resource: Resource[Any], body: Any, *, namespace: str = "") -> Any:
        """Create an object, with a generated name if it has no name. Raises AlreadyExistsError."""
        self._maybe_refuse()
        metadata = body.metadata
        name = metadata.name or metadata.generate_name + name_suffix(self._chance)
        metadata = msgspec.structs.replace(metadata, name=name, namespace=namespace)
        return self._sources[resource.full_name].create(_through_json(resource, body, metadata))

    async def update(
        self, resource: Resource[Any], body: Any, *, key: ObjectKey, subresource: str = ""
    ) -> Any:
        """Replace an object. Raises NotFoundError, ConflictError."""
        self._maybe_refuse()
        source = self._sources[resource.full_name]
        old = await self.get(resource, key)
        version = body.metadata.resource_version
        if version and version != old.metadata.resource_version:
            raise ConflictError(failure_status(409, "Conflict", f"{key} has been modified"))
        return source.modify(_through_json(resource, body, body.metadata))

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object. Raises NotFoundError, ConflictError."""
        self._maybe_refuse()
        old = await self.get(resource, key)
        if uid is not None and uid != old.metadata.uid:
            raise ConflictError(failure_status(409, "Conflict", f"{key} is another one by now"))
        self._sources[resource.full_name].delete(key)

    async def patch(self, resource: Resource[Any], key: ObjectKey, patch: bytes, **options: object) -> Any:
        """Accept a change of an Event's count, which no code here reads. Raises NotFoundError."""
        return await self.get(resource, key)

    def collect_garbage(self) -> None:
        """Delete slices without owner and Endpoints without service, as a control plane does eventually.

        A controller that has not yet seen a service's deletion may recreate its slices.
        """
        alive = (*self.services.objects.values(), *self.endpoints.objects.values())
        uids = {owner.metadata.uid for owner in alive}
        for key, piece in self.slices.objects.items():
            owners = piece.metadata.owner_references or ()
            if owners and not any(owner.uid in uids for owner in owners):
                self.slices.delete(key)
        for key in self.endpoints.objects.keys() - self.services.objects.keys():
            self.endpoints.delete(key)

    def forget(self, keep: int = _KEPT_EVENTS) -> None:
        """Trim the history as a server does; Events expire."""
        for key in list(self.events.objects):
            self.events.delete(key)
        for source in self._sources.values():
            source.forget(keep)

    @property
    def lists_begun(self) -> int:
        """Number of lists up to the last :meth:`forget`."""
        return sum(source.lists_begun for source in self._sources.values())

    def _maybe_refuse(self) -> None:
        self.writes += 1
        if self._chance.randrange(1000) < self.refused_of_a_thousand:
            raise status_error(500, "InternalError", "etcdserver: leader changed")


def _through_json(resource: Resource[Any], body: Any, metadata: Any) -> Any:
    return resource.decode(msgspec.json.encode(msgspec.structs.replace(body, metadata=metadata)))


def _not_found(resource: Resource[Any], key: ObjectKey) -> NotFoundError:
    return NotFoundError(failure_status(404, "NotFound", f'{resource.full_name} "{key.name}" not found'))
