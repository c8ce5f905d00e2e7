"""Log each write of a controller: its service, the changed endpoints, and the lag since the change."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.api.resource import Resource
from aiokube.clock import Clock
from aiokube.runtime.writer import Writer

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)
Stored = Callable[[ObjectKey], Any]


class _Waiting(msgspec.Struct):
    """The earliest unwritten change of a service."""

    since: float
    is_being_written: bool = False


class ChangeTimes:
    """The time of each service's earliest change that has not been written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[ObjectKey, _Waiting] = {}

    def changed(self, key: ObjectKey) -> None:
        """Record a change of a service."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.is_being_written:
            self._waiting[key] = _Waiting(self._clock.monotonic())

    def begin_write(self, key: ObjectKey) -> float | None:
        """Return the time of the earliest change that this write publishes, or None if no change caused it."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return None
        waiting.is_being_written = True
        return waiting.since

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Record a change of a mirrored Endpoints."""
        item = new if new is not None else old
        if item is not None:
            self.changed(key_of(item))

    # Listener of :class:`~endpointd.controllers.membership.Membership`.

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Record a change of the service."""
        if new is not None:
            self.changed(key_of(new))
        elif old is not None:
            self._waiting.pop(key_of(old), None)

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Record a change of a pod."""
        self.changed(service)


class LoggingWriter:
    """A writer that logs each successful write. It keeps the guarantees of the wrapped writer."""

    def __init__(
        self,
        inner: Writer,
        controller: str,
        clock: Clock,
        changes: ChangeTimes,
        stored: Mapping[str, Stored],
    ) -> None:
        self._inner = inner
        self._controller = controller
        self._clock = clock
        self._changes = changes
        self._stored = stored

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read one object from the server."""
        return await self._inner.get(resource, key)

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create an object; return it as stored."""
        service = _service_of(body, namespace)
        since = self._changes.begin_write(service)
        answer = await self._inner.create(resource, body, namespace=namespace)
        self._log("create", resource, service, answer.metadata.name, None, body, since)
        return answer

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace an object; return it as stored."""
        before = self._before(resource, key)
        service = _service_of(body, key.namespace)
        since = self._changes.begin_write(service)
        answer = await self._inner.update(resource, body, key=key, subresource=subresource)
        self._log("update", resource, service, key.name, before, body, since)
        return answer

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object, if it is still the one with this uid."""
        before = self._before(resource, key)
        service = _service_of(before, key.namespace)
        since = self._changes.begin_write(service)
        await self._inner.delete(
            resource,
            key,
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
        )
        self._log("delete", resource, service, key.name, before, None, since)

    def _before(self, resource: Resource[Any], key: ObjectKey) -> Any:
        stored = self._stored.get(resource.plural)
        return stored(key) if stored is not None else None

    def _log(
        self,
        verb: str,
        resource: Resource[Any],
        service: ObjectKey,
        name: str,
        before: Any,
        after: Any,
        since: float | None,
    ) -> None:
        old, new = _endpoints_of(before), _endpoints_of(after)
        common = old.keys() & new.keys()
        counts = len(new) - len(common), len(old) - len(common), sum(old[key] != new[key] for key in common)
        what = self._controller, service, verb, resource.plural, name, *counts
        if since is None:  # no change caused this write: start-up or a repair
            log.debug(
                "wrote: controller=%s service=%s verb=%s resource=%s name=%s added=%d removed=%d changed=%d",
                *what,
            )
        else:
            log.debug(
                "wrote: controller=%s service=%s verb=%s resource=%s name=%s added=%d removed=%d changed=%d"
                " lag_seconds=%.3f",
                *what,
                self._clock.monotonic() - since,
            )


def is_logged() -> bool:
    """Return whether writes are logged (-v=2 or higher); called once, at the start."""
    return log.isEnabledFor(logging.DEBUG)


def _service_of(item: Any, namespace: str) -> ObjectKey:
    """Return the service of a slice or an Endpoints."""
    if isinstance(item, EndpointSlice):
        return ObjectKey(namespace, (item.metadata.labels or {}).get(SERVICE_NAME_LABEL, ""))
    return ObjectKey(namespace, item.metadata.name if isinstance(item, Endpoints) else "")


def _endpoints_of(item: Any) -> dict[Any, Any]:
    """Return the endpoints of a slice, or the addresses of an Endpoints, by identity."""
    if isinstance(item, EndpointSlice):
        return {endpoint.addresses: (endpoint, item.ports) for endpoint in item.endpoints or ()}
    found: dict[Any, Any] = {}
    if isinstance(item, Endpoints):
        for subset in item.subsets or ():
            for ready, addresses in ((True, subset.addresses), (False, subset.not_ready_addresses)):
                for address in addresses or ():
                    found.setdefault(address.ip, []).append((ready, address, subset.ports))
    return found
