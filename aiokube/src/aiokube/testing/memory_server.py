"""An in-memory API server for writers of Endpoints and EndpointSlices, with fault injection.

Stored and returned objects have been encoded and decoded, as on a real server. It has no watch: a test calls
:meth:`MemoryServer.feed` to pass changes to a store, which can simulate a lagging watch.
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, Protocol, TypeVar, cast

import msgspec

from aiokube.api.addresses import rejected_range
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectMeta
from aiokube.api.names import generated_name
from aiokube.api.resource import Resource, WatchEvent
from aiokube.api.status import NAMESPACE_TERMINATING, Status, StatusCause, StatusDetails
from aiokube.client.errors import api_error

T = TypeVar("T", bound=KubernetesObject)

Verb = Literal["get", "create", "update", "delete"]

_TIME = "2026-01-01T00:00:00Z"


class Call(msgspec.Struct, frozen=True):
    """One received request. ``key`` has the name prefix (``web-``) if the server generates the name."""

    verb: Verb
    plural: str
    key: ObjectKey
    body: Any = None


class _Fault(msgspec.Struct):
    error: Exception
    verb: Verb | None
    acts: bool
    times: int


class Appliable(Protocol):
    """A store that accepts batches of watch events."""

    def apply(self, events: list[WatchEvent[Any]], /) -> Any:
        """Apply a batch."""
        ...


class MemoryServer:
    """Implements :class:`aiokube.runtime.writer.Writer` for complete types (Endpoints, EndpointSlice).

    Like an API server it generates names, uids, increasing resource versions and generations (0.8). It
    refuses stale writes (409), missing objects (404), existing names (409 AlreadyExists), another uid (409),
    another address type (422), invalid endpoint addresses (422), and creates in a terminating namespace (403
    with its cause). It keeps objects with finalizers as terminating until the last finalizer is removed, and
    accepts an update without changes without a new version. Requests are recorded in :attr:`calls`.

    :meth:`create_foreign`, :meth:`update_foreign` and :meth:`delete_foreign` act as another client:
    immediately, unrecorded, and without faults.
    """

    metadata_only: bool = True
    """Whether writes return the sent object with the stored metadata, as ``endpointd run`` requests it.

    Otherwise they return the stored object. The tests of the controllers run in both modes.
    """

    def __init__(self, chance: random.Random | None = None) -> None:
        self.admission: Callable[[Any], Any] | None = None
        """A mutating webhook: its result is stored instead of the request's object."""
        self.calls: list[Call] = []
        self.terminating_namespaces: set[str] = set()
        self.rejected_range: Callable[[str], str | None] | None = rejected_range
        """Returns the range that makes an address invalid (422), None if it is valid.

        If this attribute is None, addresses are not validated.
        """
        self.before_each: Callable[[Call], Awaitable[None]] | None = None
        """Awaited before each request takes effect: a test may block it, or change the server's state."""
        self.after_each: Callable[[Call], Awaitable[None]] | None = None
        """Awaited after each request has taken effect, before its caller gets the response."""
        self._chance = chance or random.Random(0)  # noqa: S311 - names in tests, not secrets
        self._version = 1000
        self._uids = 0
        self._objects: dict[str, dict[ObjectKey, Any]] = {}
        self._events: dict[str, list[WatchEvent[Any]]] = {}
        self._faults: list[_Fault] = []

    # ------------------------------------------------------------------------------------------- test
    # interface

    def fail_next(
        self, error: Exception, *, verb: Verb | None = None, acts: bool = False, times: int = 1
    ) -> None:
        """Make the next requests (of one verb) fail; with ``acts`` they take effect, and the response is lost."""
        self._faults.append(_Fault(error, verb, acts, times))

    def heal(self) -> None:
        """Cancel the pending faults."""
        self._faults.clear()

    @property
    def writes(self) -> list[Call]:
        """The write requests."""
        return [call for call in self.calls if call.verb != "get"]

    def objects(self, resource: Resource[T]) -> dict[ObjectKey, T]:
        """Return the current objects of a resource."""
        return dict(self._objects.get(resource.plural, {}))

    @property
    def resource_version(self) -> str:
        """The version of the last write, as in a list."""
        return str(self._version)

    def pending_events(self, resource: Resource[T]) -> int:
        """Return the number of changes that :meth:`feed` has not delivered yet."""
        return len(self._events.get(resource.plural, ()))

    def feed(self, resource: Resource[T], store: Appliable, count: int | None = None) -> int:
        """Apply the oldest ``count`` changes (all by default) to a store in one batch; return their number."""
        events = self._events.get(resource.plural, [])
        batch = events[:count]
        del events[: len(batch)]
        if batch:
            store.apply(batch)
        return len(batch)

    def rewind(self, resource: Resource[T], events: list[WatchEvent[T]]) -> None:
        """Deliver changes again before the others, like a watch that resumes from an older version."""
        self._events.setdefault(resource.plural, [])[:0] = events

    def create_foreign(self, resource: Resource[T], body: msgspec.Struct) -> T:
        """Create an object as another client."""
        created: T = self._create(resource, body, _meta(body).namespace)
        return created

    def update_foreign(self, resource: Resource[T], body: msgspec.Struct) -> T:
        """Replace an object as another client, at any version."""
        meta = msgspec.structs.replace(_meta(body), resource_version="")
        updated: T = self._update(resource, msgspec.structs.replace(body, metadata=meta), meta.key)
        return updated

    def delete_foreign(self, resource: Resource[Any], key: ObjectKey) -> None:
        """Delete an object as another client."""
        self._delete(resource, key, None, None)

    # ------------------------------------------------------------------------------------------ writer
    # protocol

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read one object. Raises ``NotFoundError``."""
        call = Call("get", resource.plural, key)
        found: T = await self._request(call, lambda: self._existing(resource, key))
        return found

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create an object. Raises ``AlreadyExistsError`` or ``ForbiddenError``."""
        resource.require_writable()
        meta = _meta(body)
        namespace = namespace or meta.namespace
        key = ObjectKey(namespace, meta.name or meta.generate_name or "")
        call = Call("create", resource.plural, key, body)
        created: T = await self._request(call, lambda: self._create(resource, body, namespace))
        return self._answer(body, created)

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace an object. Raises ``NotFoundError``, ``ConflictError`` or ``InvalidError``."""
        resource.require_complete()
        call = Call("update", resource.plural, key, body)
        updated: T = await self._request(call, lambda: self._update(resource, body, key))
        return self._answer(body, updated)

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object. Raises ``NotFoundError`` or ``ConflictError``."""
        await self._request(
            Call("delete", resource.plural, key), lambda: self._delete(resource, key, uid, resource_version)
        )

    def _answer(self, body: msgspec.Struct, stored: T) -> T:
        if not self.metadata_only:
            return stored
        answer: Any = msgspec.structs.replace(body, metadata=stored.metadata)
        return cast("T", answer)

    async def _request(self, call: Call, act: Callable[[], Any]) -> Any:
        self.calls.append(call)
        if self.before_each is not None:
            await self.before_each(call)
        fault = self._next_fault(call.verb)
        if fault is not None and not fault.acts:
            raise fault.error
        answer = act()
        if self.after_each is not None:
            await self.after_each(call)
        if fault is not None:
            raise fault.error
        return answer

    def _next_fault(self, verb: Verb) -> _Fault | None:
        for fault in self._faults:
            if fault.verb in (None, verb):
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                return fault
        return None

    # -----------------------------------------------------------------------------------------------
    # internals

    def _existing(self, resource: Resource[Any], key: ObjectKey) -> Any:
        found = self._objects.get(resource.plural, {}).get(key)
        if found is None:
            raise _error(404, "NotFound", f'{resource.full_name} "{key.name}" not found', name=key.name)
        return found

    def _create(self, resource: Resource[Any], body: msgspec.Struct, namespace: str) -> Any:
        meta = _meta(body)
        if namespace in self.terminating_namespaces:
            raise _error(
                403,
                "Forbidden",
                f'{resource.full_name} "{meta.name}" is forbidden: unable to create new content in namespace'
                f" {namespace} because it is being terminated",
                NAMESPACE_TERMINATING,
            )
        name = meta.name or generated_name(meta.generate_name or "", self._chance)
        key = ObjectKey(namespace, name)
        if key in self._objects.get(resource.plural, {}):
            raise _error(409, "AlreadyExists", f'{resource.full_name} "{name}" already exists')
        self._uids += 1
        if self.admission is not None:
            body = self.admission(body)
            meta = _meta(body)
        self._validate(resource, body)
        meta = msgspec.structs.replace(
            meta,
            name=name,
            namespace=namespace,
            uid=f"uid-{self._uids}",
            creation_timestamp=_TIME,
            deletion_timestamp=None,
            generation=1 if isinstance(body, EndpointSlice) else None,
        )
        return self._keep(resource, "ADDED", body, meta)

    def _update(self, resource: Resource[Any], body: msgspec.Struct, key: ObjectKey) -> Any:
        meta = _meta(body)
        old = self._existing(resource, key)
        if meta.uid and meta.uid != old.metadata.uid:
            raise _conflict(
                resource,
                key,
                "Precondition failed: UID in precondition:"
                f" {meta.uid}, UID in object meta: {old.metadata.uid}",
            )
        if meta.resource_version and meta.resource_version != old.metadata.resource_version:
            raise _conflict(
                resource,
                key,
                "the object has been modified; please apply your changes to the latest version and try again",
            )
        if isinstance(body, EndpointSlice) and body.address_type != old.address_type:
            raise _error(
                422,
                "Invalid",
                f'EndpointSlice.discovery.k8s.io "{key.name}" is invalid: addressType: Invalid value:'
                f' "{body.address_type}": field is immutable',
            )
        if self.admission is not None:
            body = self.admission(body)
            meta = _meta(body)
        self._validate(resource, body)
        meta = msgspec.structs.replace(
            meta,
            name=key.name,
            namespace=key.namespace,
            uid=old.metadata.uid,
            resource_version=old.metadata.resource_version,
            creation_timestamp=old.metadata.creation_timestamp,
            deletion_timestamp=old.metadata.deletion_timestamp,
            generation=old.metadata.generation,
        )
        new = _through_json(resource, body, meta)
        if new == old:
            return old
        if isinstance(new, EndpointSlice) and _content(new) != _content(old):
            meta = msgspec.structs.replace(meta, generation=(meta.generation or 0) + 1)
        if meta.deletion_timestamp is not None and not meta.finalizers:
            return self._drop(resource, new)
        return self._keep(resource, "MODIFIED", body, meta)

    def _delete(
        self, resource: Resource[Any], key: ObjectKey, uid: str | None, resource_version: str | None
    ) -> None:
        old = self._existing(resource, key)
        if uid is not None and uid != old.metadata.uid:
            raise _conflict(
                resource,
                key,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.metadata.uid}",
            )
        if resource_version is not None and resource_version != old.metadata.resource_version:
            raise _conflict(
                resource,
                key,
                "Precondition failed: ResourceVersion in precondition:"
                f" {resource_version}, ResourceVersion in object meta: {old.metadata.resource_version}",
            )
        if not old.metadata.finalizers:
            self._drop(resource, old)
        elif old.metadata.deletion_timestamp is None:
            meta = msgspec.structs.replace(
                old.metadata,
                deletion_timestamp=_TIME,
                generation=None if old.metadata.generation is None else old.metadata.generation + 1,
            )
            self._keep(resource, "MODIFIED", old, meta)

    def _keep(
        self, resource: Resource[Any], kind: Literal["ADDED", "MODIFIED"], body: Any, meta: ObjectMeta
    ) -> Any:
        self._version += 1
        meta = msgspec.structs.replace(meta, resource_version=str(self._version))
        item = _through_json(resource, body, meta)
        self._objects.setdefault(resource.plural, {})[meta.key] = item
        self._events.setdefault(resource.plural, []).append(WatchEvent(kind, item))
        return item

    def _drop(self, resource: Resource[Any], item: Any) -> Any:
        self._version += 1
        del self._objects[resource.plural][item.metadata.key]
        meta = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        gone = msgspec.structs.replace(item, metadata=meta)
        self._events.setdefault(resource.plural, []).append(WatchEvent("DELETED", gone))
        return gone

    def _validate(self, resource: Resource[Any], body: Any) -> None:
        """Raise ``InvalidError`` if an address is in a forbidden range."""
        if self.rejected_range is None:
            return
        causes = tuple(
            StatusCause(
                reason="FieldValueInvalid",
                message=f'Invalid value: "{address}": may not be in the {in_range} range',
                field=field,
            )
            for field, address in _addresses(body)
            if (in_range := self.rejected_range(address)) is not None
        )
        if causes:
            text = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
            details = StatusDetails(name=_meta(body).name, kind=resource.kind, causes=causes)
            raise api_error(
                Status(
                    status="Failure",
                    code=422,
                    reason="Invalid",
                    message=f'{resource.kind} "{_meta(body).name}" is invalid: {text}',
                    details=details,
                )
            )


def _addresses(body: Any) -> Iterator[tuple[str, str]]:
    """Yield the addresses of an object with their field paths."""
    if isinstance(body, EndpointSlice):
        for number, endpoint in enumerate(body.endpoints or ()):
            for place, address in enumerate(endpoint.addresses):
                yield f"endpoints[{number}].addresses[{place}]", address
    if isinstance(body, Endpoints):
        for number, subset in enumerate(body.subsets or ()):
            lists = {"addresses": subset.addresses, "notReadyAddresses": subset.not_ready_addresses}
            for name, addresses in lists.items():
                for place, one in enumerate(addresses or ()):
                    yield f"subsets[{number}].{name}[{place}].ip", one.ip


def _meta(body: Any) -> ObjectMeta:
    meta: ObjectMeta = body.metadata
    return meta


def _through_json(resource: Resource[Any], body: Any, meta: ObjectMeta) -> Any:
    """Encode and decode an object: every empty list and map of the outer levels becomes null (S-53)."""
    meta = msgspec.structs.replace(
        meta,
        labels=meta.labels or None,
        annotations=meta.annotations or None,
        owner_references=meta.owner_references or None,
        finalizers=meta.finalizers or None,
    )
    body = msgspec.structs.replace(body, metadata=meta)
    if isinstance(body, EndpointSlice):
        body = msgspec.structs.replace(body, endpoints=body.endpoints or None, ports=body.ports or None)
    return resource.decode(resource.encode(body))


def _content(item: EndpointSlice) -> tuple[Any, ...]:
    """Return the fields whose changes increase the generation (0.8)."""
    return item.metadata.labels, item.address_type, item.endpoints, item.ports


def _error(
    code: int, reason: str, message: str, cause: str | None = None, name: str | None = None
) -> Exception:
    causes = (StatusCause(reason=cause),) if cause is not None else None
    details = StatusDetails(name=name, causes=causes)
    return api_error(
        Status(status="Failure", code=code, reason=reason, message=message, details=details),
        method="",
        url="",
    )


def _conflict(resource: Resource[Any], key: ObjectKey, message: str) -> Exception:
    return _error(
        409, "Conflict", f'Operation cannot be fulfilled on {resource.full_name} "{key.name}": {message}'
    )
