"""A client of an in-memory server: runs a whole controller in virtual time, without a network.

It has no validation, defaulting or list merging; test against tinykube for these.
"""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NoReturn, Self, TypeVar, cast

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectMeta
from aiokube.api.resource import Page, Resource, WatchEvent
from aiokube.api.selectors import parse_selector
from aiokube.api.status import FIELD_MANAGER_CONFLICT, Status, StatusCause, StatusDetails
from aiokube.client.errors import ApiError, api_error
from aiokube.client.guard import Guard
from aiokube.client.rest import JSON_PATCH, Client
from aiokube.testing.fake_source import Batch, FakeSource

T = TypeVar("T", bound=KubernetesObject)
Json = dict[str, Any]
Path = tuple[str, ...]

_CREATED_AT = "2026-01-01T00:00:00Z"


class FakeClient(Client):
    """A :class:`aiokube.client.rest.Client` with an in-memory server and fault injection.

    It supports get, create, update, apply, merge patch, delete, and :meth:`source`, from which informers
    list and watch. Returned objects have been encoded and decoded, as from a server. Writes fail as usual:
    NotFoundError, AlreadyExistsError, ConflictError for a stale version or another uid, ApplyConflictError.
    Lists are atomic, even in apply; fields set by update or patch have no manager. All objects of a kind
    have the type that was used first.

    The test and the controller may share a client: the test's writes then act as another client's.
    """

    def __init__(self, *objects: tuple[Resource[Any], msgspec.Struct]) -> None:
        self.writes: list[tuple[str, str]] = []
        """Verb and object (``apply``, ``configmaps shop/welcome``) of every write, refused or not."""
        self._fake_sources: dict[str, FakeSource[Any]] = {}
        self._resources: dict[str, Resource[Any]] = {}
        self._applied: dict[tuple[str, ObjectKey], dict[str, dict[Path, Any]]] = {}
        self._faults: list[Exception] = []
        self._guard: Guard | None = None
        self._names = 0
        for resource, item in objects:
            self._create(resource, item)

    # ------------------------------------------------------------------------------------------- test
    # interface

    def objects(self, resource: Resource[T]) -> dict[ObjectKey, T]:
        """Return all objects of a resource by key."""
        return self.fake_source(resource).objects

    def fake_source(self, resource: Resource[T]) -> FakeSource[T]:
        """Return the informers' source of this resource, to make lists and watches fail, hang or misbehave."""
        known = self._resources.setdefault(resource.full_name, resource)
        if known.wire is not resource.wire:
            raise TypeError(f"{resource.full_name}: this fake server already has them as another type")
        return self._fake_sources.setdefault(resource.full_name, FakeSource())

    def fail_next(self, error: Exception, *, times: int = 1) -> None:
        """Refuse the next writes with this error."""
        self._faults += [error] * times

    # ---------------------------------------------------------------------------------------------------
    # verbs

    def guarded(self, guard: Guard) -> "FakeClient":
        """Return a client of the same server that calls ``guard`` before each write."""
        client = copy.copy(self)
        client._guard = guard  # noqa: SLF001 - same class
        return client

    @property
    def server(self) -> str:
        """The server's name in messages."""
        return "fake://"

    async def __aenter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    def distrust_connections(self) -> None:
        """Do nothing: there are no connections."""

    def source(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Any:
        """Return a source for a reflector; the only supported field selector is ``metadata.name``."""
        selected = _selection(namespace, label_selector, field_selector)
        source = self.fake_source(resource)
        return source if selected is None else _SelectedSource(source, selected)

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Return one object."""
        resource.object_path(key)
        return self._find(resource, key)

    async def list_page(self, resource: Resource[T], *, namespace: str = "", **options: Any) -> Page[T]:
        """Return all objects, or those that match the selectors, in one page."""
        options = {name: value for name, value in options.items() if name.endswith("selector")}
        page: Page[T] = await self.source(resource, namespace=namespace, **options).list_page()
        return page

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create an object."""
        resource.require_writable()
        meta = _meta(body)
        namespace = namespace or meta.namespace
        self._begin("create", resource, ObjectKey(namespace, meta.name or meta.generate_name or ""))
        return self._create(resource, body, namespace)

    async def update(
        self,
        resource: Resource[T],
        body: msgspec.Struct,
        *,
        key: ObjectKey | None = None,
        subresource: str = "",
    ) -> T:
        """Replace an object, at its resource version if it has one."""
        resource.require_complete()
        key = key or _meta(body).key
        self._begin("update", resource, key)
        old = self._find(resource, key)
        version = _meta(body).resource_version
        if version not in ("", old.metadata.resource_version):
            raise _error(409, "Conflict", resource, key, "the object has been modified; please apply your changes"
                         " to the latest version and try again")  # fmt: skip
        return self._replace(resource, key, old, msgspec.json.decode(resource.encode(body)))

    async def apply(
        self,
        resource: Resource[T],
        body: msgspec.Struct,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> T:
        """Create or change an object so that it has these fields."""
        resource.require_writable()
        key = _meta(body).key
        resource.object_path(key)
        document: Json = msgspec.json.decode(resource.encode_for_apply(body))
        self._begin("apply", resource, key)
        wanted = dict(_leaves(document))
        managers = self._applied.setdefault((resource.full_name, key), {})
        if key not in self.objects(resource):
            created = self._create(resource, body, key.namespace)
            managers[field_manager] = wanted
            return created
        old = self._find(resource, key)
        current: Json = msgspec.to_builtins(old)
        before = dict(_leaves(current))
        others = {path: name for name, paths in managers.items() if name != field_manager for path in paths}
        conflicts = {
            path: others[path]
            for path, value in wanted.items()
            if path in others and before.get(path) != value
        }
        if conflicts and not force:
            raise _apply_conflict(resource, key, conflicts)
        for path, name in conflicts.items():
            managers[name].pop(path, None)
        for path in managers.get(field_manager, {}):
            if path not in wanted and path not in others:
                _put(current, path, None)
        for path, value in wanted.items():
            _put(current, path, value)
        managers[field_manager] = wanted
        return self._replace(resource, key, old, current)

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
        """Apply a merge patch; strategic merge patches are treated as such, JSON patches are unsupported."""
        if patch_type == JSON_PATCH:
            raise NotImplementedError(
                "FakeClient has no JSON patch: use a merge patch, or test against tinykube"
            )
        self._begin("patch", resource, key)
        old = self._find(resource, key)
        document = msgspec.to_builtins(old)
        _merge(document, msgspec.json.decode(body if isinstance(body, bytes) else msgspec.json.encode(body)))
        return self._replace(resource, key, old, document)

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; one with finalizers becomes terminating."""
        self._begin("delete", resource, key)
        meta = self._find(resource, key).metadata
        if uid not in (None, meta.uid) or resource_version not in (None, meta.resource_version):
            raise _error(409, "Conflict", resource, key, "a precondition failed")
        self.fake_source(resource).delete(key)
        if key not in self.objects(resource):
            self._applied.pop((resource.full_name, key), None)

    async def request(self, method: str, path: str, **options: Any) -> NoReturn:
        """Raise NotImplementedError: there is no HTTP here."""
        raise NotImplementedError(
            f"{method} {path}: FakeClient has only the typed verbs; test against tinykube"
        )

    def watch(self, resource: Resource[T], **options: Any) -> NoReturn:
        """Raise NotImplementedError: watch through an informer with :meth:`source`."""
        raise NotImplementedError("FakeClient is watched through an Informer of its source()")

    def list_stream(self, resource: Resource[T], **options: Any) -> NoReturn:
        """Raise NotImplementedError: use :meth:`list_page`, or an informer with :meth:`source`."""
        raise NotImplementedError("FakeClient is listed with list_page()")

    # -----------------------------------------------------------------------------------------------
    # internals

    def _begin(self, verb: str, resource: Resource[Any], key: ObjectKey) -> None:
        if self._guard is not None:
            self._guard()
        self.writes.append((verb, f"{resource.full_name} {key}"))
        if self._faults:
            raise self._faults.pop(0)

    def _find(self, resource: Resource[T], key: ObjectKey) -> T:
        found = self.objects(resource).get(key)
        if found is None:
            raise _error(404, "NotFound", resource, key, "not found")
        return found

    def _create(self, resource: Resource[T], body: msgspec.Struct, namespace: str = "") -> T:
        meta = _meta(body)
        self._names += 1
        key = ObjectKey(
            (namespace or meta.namespace) if resource.namespaced else "",
            meta.name or f"{meta.generate_name}{self._names:05}",
        )
        resource.object_path(key)
        if key in self.objects(resource):
            raise _error(409, "AlreadyExists", resource, key, "already exists")
        meta = msgspec.structs.replace(
            meta,
            name=key.name,
            namespace=key.namespace,
            uid="",
            resource_version="",
            generation=1,
            creation_timestamp=meta.creation_timestamp or _CREATED_AT,
        )
        body = msgspec.structs.replace(body, metadata=meta)
        return self.fake_source(resource).create(resource.decode(resource.encode(body)))

    def _replace(self, resource: Resource[T], key: ObjectKey, old: T, document: Json) -> T:
        """Replace an object unless it is equal; increase the generation if the spec changes."""
        before = msgspec.to_builtins(old)
        fixed = (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
        )
        meta = document.setdefault("metadata", {})
        for field in fixed:
            meta.pop(field, None)
            if field in before["metadata"]:
                meta[field] = before["metadata"][field]
        new = resource.decode(msgspec.json.encode(document))
        after = msgspec.to_builtins(new)
        if after == before:
            return old
        if any(after.get(name) != before.get(name) for name in {*after, *before} - {"metadata", "status"}):
            meta["generation"] = (meta.get("generation") or 0) + 1
            new = resource.decode(msgspec.json.encode(document))
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.fake_source(resource).finish(key)
            return new
        return self.fake_source(resource).modify(new)


class _SelectedSource:
    """A source restricted by selectors; an object that stops matching is reported as deleted."""

    def __init__(self, source: FakeSource[Any], selected: Callable[[Any], bool]) -> None:
        self._source = source
        self._selected = selected

    async def list_page(self, **options: Any) -> Page[Any]:
        page = await self._source.list_page(**options)
        return msgspec.structs.replace(page, items=tuple(filter(self._selected, page.items)))

    def watch(self, **options: Any) -> AbstractAsyncContextManager[AsyncIterator[Batch[Any]]]:
        return self._watch(**options)

    @asynccontextmanager
    async def _watch(self, **options: Any) -> AsyncIterator[AsyncIterator[Batch[Any]]]:
        async with self._source.watch(**options) as batches:
            yield self._through(batches)

    async def _through(self, batches: AsyncIterator[Batch[Any]]) -> AsyncIterator[Batch[Any]]:
        async for batch in batches:
            yield [
                WatchEvent("DELETED", event.item)
                if isinstance(event, WatchEvent) and not self._selected(event.item)
                else event
                for event in batch
            ]


def _selection(namespace: str, label_selector: str, field_selector: str) -> Callable[[Any], bool] | None:
    labels = parse_selector(label_selector)
    field, _, name = field_selector.partition("=")
    if field not in ("", "metadata.name"):
        raise NotImplementedError(
            f"FakeClient has no field selector {field_selector!r}; test against tinykube"
        )
    if not (namespace or label_selector or name):
        return None

    def selected(item: Any) -> bool:
        meta = item.metadata
        return (
            namespace in ("", meta.namespace)
            and name.lstrip("=") in ("", meta.name)
            and (not label_selector or labels.matches(meta.labels or {}))
        )

    return selected


def _meta(body: Any) -> ObjectMeta:
    return cast("ObjectMeta", body.metadata)


def _leaves(document: Json, prefix: Path = ()) -> list[tuple[Path, Any]]:
    """Return the fields that a manager can own: all except those that identify the object; lists are atomic."""
    found: list[tuple[Path, Any]] = []
    for name, value in document.items():
        path = (*prefix, name)
        if path in _IDENTITY:
            continue
        found += _leaves(value, path) if isinstance(value, dict) and value else [(path, value)]
    return found


_IDENTITY = {("kind",), ("apiVersion",), ("metadata", "name"), ("metadata", "namespace")}


def _put(document: Json, path: Path, value: Any) -> None:
    for name in path[:-1]:
        if not isinstance(document.get(name), dict):
            document[name] = {}
        document = document[name]
    if value is None:
        document.pop(path[-1], None)
    else:
        document[path[-1]] = value


def _merge(document: Json, patch: Mapping[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            document.pop(name, None)
        elif isinstance(value, dict) and isinstance(document.get(name), dict):
            _merge(document[name], value)
        else:
            document[name] = value


def _error(code: int, reason: str, resource: Resource[Any], key: ObjectKey, what: str) -> ApiError:
    details = StatusDetails(name=key.name, group=resource.group or None, kind=resource.plural)
    return api_error(
        Status(
            code=code, reason=reason, message=f'{resource.full_name} "{key.name}" {what}', details=details
        ),
        url=resource.path(key.namespace, key.name),
    )


def _apply_conflict(resource: Resource[Any], key: ObjectKey, conflicts: Mapping[Path, str]) -> ApiError:
    causes = tuple(
        StatusCause(
            reason=FIELD_MANAGER_CONFLICT,
            message=f'conflict with "{manager}" using {resource.api_version}',
            field="." + ".".join(path),
        )
        for path, manager in conflicts.items()
    )
    plural = "conflict" if len(causes) == 1 else "conflicts"
    fields = ", ".join(f"{cause.message}: {cause.field}" for cause in causes)
    details = StatusDetails(name=key.name, group=resource.group or None, kind=resource.plural, causes=causes)
    message = f"Apply failed with {len(causes)} {plural}: {fields}"
    return api_error(Status(code=409, reason="Conflict", message=message, details=details))
