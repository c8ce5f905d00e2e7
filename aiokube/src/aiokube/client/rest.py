"""The verbs of an API server, typed: what the layers above hold."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Self, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectMeta
from aiokube.api.resource import Page, Resource
from aiokube.client.bounded import MAX_OBJECT_BYTES
from aiokube.client.config import ClusterConfig
from aiokube.client.errors import UnexpectedResponseError
from aiokube.client.guard import Guard
from aiokube.client.http import JSON, USER_AGENT, RetryPolicy, Transport
from aiokube.client.liststream import ListStream
from aiokube.client.resource_source import Batch, ResourceSource
from aiokube.client.watch import UNDECODABLE, Watch, problem_of
from aiokube.clock import Clock
from aiokube.token_bucket import TokenBucket

T = TypeVar("T", bound=KubernetesObject)

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML

_METADATA_KIND = "PartialObjectMetadata"
_METADATA_ALONE = f"{JSON};as={_METADATA_KIND};g=meta.k8s.io;v=v1,{JSON}"


class _Metadata(msgspec.Struct, gc=False):
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


_encoder = msgspec.json.Encoder()
_metadata_decoder = msgspec.json.Decoder(_Metadata)


class Client:
    """The verbs of one API server, over one :class:`aiokube.client.http.Transport`, whose promises hold here.

    Every verb raises :class:`aiokube.client.errors.ApiError` where the server says no (the subclass says in
    what way), TransportError where no proper answer came, ConfigError where we cannot identify ourselves. Bodies
    may leave out ``kind`` and ``apiVersion``: the server knows them from the path. Values come back as the server
    has stored them.

    Use it as an async context manager, or call :meth:`aclose`.
    """

    def __init__(self, transport: Transport, guard: Guard | None = None, *, is_terse: bool = False) -> None:
        self._transport = transport
        self._guard = guard
        self._is_terse = is_terse

    def guarded(self, guard: Guard) -> "Client":
        """Return a client of the same connections whose writes ask ``guard`` first (:mod:`aiokube.client.guard`).

        What it raises is raised by the verb. Closing either of the two closes both.
        """
        return Client(self._transport, guard, is_terse=self._is_terse)

    def terse(self) -> "Client":
        """Return a client of the same connections that asks for no more than the metadata of what it writes.

        :meth:`create` and :meth:`update` then return what was sent, with the metadata that it was stored with: for
        whoever has the object anyway, and watches it. Where the server has stored something else than what was
        sent, the watch will tell, at the same resource version. A body whose metadata is not complete is answered
        in full, and so is everything by a server that does not know how to leave the rest out.
        """
        return Client(self._transport, self._guard, is_terse=True)

    @classmethod
    def from_config(
        cls,
        config: ClusterConfig,
        *,
        clock: Clock,
        limiter: TokenBucket | None = None,
        user_agent: str = USER_AGENT,
        retry: RetryPolicy | None = None,
        timeout_seconds: float = 60.0,
    ) -> Self:
        """Return a client; nothing is sent and no file is read until the first request."""
        return cls(
            Transport(
                config,
                clock=clock,
                limiter=limiter,
                user_agent=user_agent,
                retry=retry,
                timeout_seconds=timeout_seconds,
            )
        )

    @property
    def server(self) -> str:
        """The server's URL, for messages."""
        return self._transport.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def distrust_connections(self) -> None:
        """Send later requests on new connections: call it after one has turned out to be dead without a word.

        Requests under way fail unless they are answered shortly; open watches and lists go on.
        """
        self._transport.distrust_connections()

    async def aclose(self) -> None:
        """Close all connections; requests and watches under way fail. Closing twice is fine."""
        await self._transport.aclose()

    # --------------------------------------------------------------------------------------------- reading

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Return one object, as new as any. Raises NotFoundError."""
        path = resource.object_path(key)
        return self._decoded(
            resource, "GET", path, await self._transport.send("GET", path, limit_bytes=MAX_OBJECT_BYTES)
        )

    async def list_page(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        patient: bool = True,
    ) -> Page[T]:
        """Return one page of a list, gzipped on its way; of all namespaces where none is named.

        No ``resource_version`` means the newest; ``"0"`` whatever the server has at hand. Where ``patient`` is not
        set, the refusal of a busy server is raised at once instead of being waited out. Raises ExpiredError
        where a version or a continue token is too old, and ServerTimeoutError whose
        ``is_too_large_resource_version`` holds where the server has not got there yet.
        """
        path = resource.path(namespace)
        query = _query(
            {
                "limit": limit,
                "continue": continue_token,
                "resourceVersion": resource_version,
                "resourceVersionMatch": resource_version_match,
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
            }
        )
        body = await self._transport.send("GET", path, query, compressed=True, patient=patient)
        try:
            return resource.decode_page(body)
        except UNDECODABLE as error:
            _undecodable(resource, "GET", path, error)

    def list_stream(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        patient: bool = True,
    ) -> ListStream[T]:
        """List a resource in one answer, gzipped on its way, decoded while the server still makes the rest of it.

        Entering returns once the server has answered 200, or raises its refusal, as :meth:`list_page` does.
        Iterating gives the items in tuples, perhaps empty ones, in order; once it has ended ``resource_version`` is
        that of the list, and ``continue_token`` is not ``""`` where the server has left something for a next page.
        All of it is of one version. Raises ResponseTruncatedError where the connection breaks, and
        UnexpectedResponseError for what cannot be decoded: then the items given before are no list. Leaving
        early closes the connection.
        """
        path = resource.path(namespace)
        query = _query(
            {
                "resourceVersion": resource_version,
                "resourceVersionMatch": resource_version_match,
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
            }
        )
        stream = self._transport.stream(path, query, patient=patient, compressed=True, is_watch=False)
        return ListStream(resource, path, stream)

    def watch(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        resource_version: str | None = None,
        send_initial_events: bool = False,
        allow_bookmarks: bool = True,
        timeout_seconds: int | None = None,
        label_selector: str = "",
        field_selector: str = "",
        patient: bool = True,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch[T]]]:
        """Watch a resource, from after ``resource_version`` on; with ``send_initial_events``, from its state on.

        Entering returns once the server has answered 200, or raises its refusal. Iterating gives batches, never
        empty: every line that has arrived since the last one, in order. It ends where the server ends the watch
        (``timeout_seconds`` after it began, at the latest). Raises ResponseTruncatedError where the connection
        breaks; UndecodableEventError for a line that makes no sense, after which iterating may go on with the next.
        A failure inside the watch (410 Expired, say) is not raised: it is a WatchError of the last batch. The
        watch does not notice a silent peer sooner than the sockets do (a minute): whoever needs that counts
        bookmarks. Leaving closes it. ``patient`` is for entering, as in :meth:`list_page`.
        """
        path = resource.path(namespace)
        query = _query(
            {
                "watch": True,
                "resourceVersion": resource_version,
                "sendInitialEvents": True if send_initial_events else None,
                "resourceVersionMatch": "NotOlderThan" if send_initial_events else None,
                "allowWatchBookmarks": True if allow_bookmarks else None,
                "timeoutSeconds": timeout_seconds,
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
            }
        )
        return Watch(resource, self._transport.stream(path, query, patient=patient))

    def source(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> ResourceSource[T]:
        """Return this client bound to one resource (or a part of it), for a reflector to read."""
        return ResourceSource(self, resource, namespace, label_selector, field_selector)

    # --------------------------------------------------------------------------------------------- writing

    async def apply(
        self,
        resource: Resource[T],
        body: msgspec.Struct,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> T:
        """Create or change an object so that it has the fields of ``body`` (server-side apply), and return it.

        This is the usual way to write. ``body`` holds metadata with name and namespace, and the fields that
        ``field_manager`` manages, no others: fields of other managers stay as they are, and a field that was in the
        last apply and is not in this one is removed. Fields that are None are left out.

        Raises ApplyConflictError where another manager has set one of the fields to another value; with ``force`` the
        field is taken over instead, which is what a controller wants for the objects that it owns. Raises ValueError
        for an object that was read from the server.
        """
        if not field_manager:
            raise ValueError(
                "apply needs a field_manager: the name under which the server records who set a field"
            )
        resource.require_writable()
        path = resource.object_path(_metadata_of(body).key, subresource)
        query = _query({"fieldManager": field_manager, "force": True if force else None})
        answer = await self._transport.send(
            "PATCH",
            path,
            query,
            body=resource.encode_for_apply(body),
            content_type=APPLY_PATCH,
            guard=self._guard,
        )
        return self._decoded(resource, "PATCH", path, answer)

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create an object, in ``metadata.namespace`` where no other is named, and return it.

        Raises AlreadyExistsError, InvalidError, ForbiddenError and the rest; ValueError where an object that lives in
        a namespace names none.
        """
        resource.require_writable()
        if resource.namespaced and not namespace:
            namespace = _metadata_of(body).namespace
            if not namespace:
                raise ValueError(f"{resource.full_name}: set metadata.namespace, or pass namespace=")
        path = resource.path(namespace)
        return await self._write("POST", resource, path, body)

    async def update(
        self,
        resource: Resource[T],
        body: msgspec.Struct,
        *,
        key: ObjectKey | None = None,
        subresource: str = "",
    ) -> T:
        """Replace an object and return it; :meth:`apply` is safer where not every field is yours.

        Raises PartialTypeError where the resource's type is not declared complete, as the update would erase what the
        type does not have. Raises ConflictError where the body's resource version is not the newest. After an answer
        was lost, the request is sent once more by itself: a ConflictError may then stand for our own success.
        """
        resource.require_complete()
        path = resource.object_path(key or _metadata_of(body).key, subresource)
        return await self._write("PUT", resource, path, body)

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
        """Change a part of an object and return it; ``patch_type`` is one of this module's media types.

        For server-side apply, see :meth:`apply`.
        """
        path = resource.object_path(key, subresource)
        query = _query({"fieldManager": field_manager, "force": True if force else None})
        content = body if isinstance(body, bytes) else _encoder.encode(body)
        answer = await self._transport.send(
            "PATCH", path, query, body=content, content_type=patch_type, guard=self._guard
        )
        return self._decoded(resource, "PATCH", path, answer)

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; it may live on until its finalizers and grace period are over.

        ``uid`` and ``resource_version`` are preconditions: ConflictError where they do not hold. Raises
        NotFoundError. After an answer was lost, the request is sent once more by itself: NotFoundError may then
        stand for our own success.
        """
        path = resource.object_path(key)
        preconditions = None
        if uid is not None or resource_version is not None:
            preconditions = _Preconditions(uid, resource_version)
        options = _DeleteOptions(grace_period_seconds=grace_period_seconds, preconditions=preconditions)
        await self._transport.send("DELETE", path, body=_encoder.encode(options), guard=self._guard)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Send anything, with the same credentials, retries and errors, and return the body of the answer."""
        encoded = quote(path, safe="/%:@!$&'()*+,;=~")
        return await self._transport.send(
            method,
            encoded,
            _query(query or {}),
            body=body,
            content_type=content_type,
            timeout_seconds=timeout_seconds,
            guard=self._guard,
        )

    async def _write(self, method: str, resource: Resource[T], path: str, body: msgspec.Struct) -> T:
        has_all = self._is_terse and isinstance(getattr(body, "metadata", None), ObjectMeta)
        answer = await self._transport.send(
            method,
            path,
            body=resource.encode(body),
            accept=_METADATA_ALONE if has_all else JSON,
            guard=self._guard,
        )
        if has_all:
            try:
                written = _metadata_decoder.decode(answer)
            except UNDECODABLE as error:
                _undecodable(resource, method, path, error)
            if written.kind == _METADATA_KIND:
                return cast("T", msgspec.structs.replace(body, metadata=written.metadata))
        return self._decoded(resource, method, path, answer)

    def _decoded(self, resource: Resource[T], method: str, path: str, body: bytes) -> T:
        try:
            return resource.decode(body)
        except UNDECODABLE as error:
            _undecodable(resource, method, path, error)


class _Preconditions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteOptions(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="kind", tag="DeleteOptions"
):
    api_version: str | None = None
    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None


def _metadata_of(body: Any) -> ObjectMeta:
    metadata = getattr(body, "metadata", None)
    if not isinstance(metadata, ObjectMeta):
        raise TypeError(
            f"{type(body).__name__}: metadata must be an ObjectMeta, not {type(metadata).__name__}"
        )
    return metadata


def _query(parameters: Mapping[str, str | int | bool | None]) -> str:
    """Encode the parameters that say something; ``0`` and ``"0"`` do, ``""`` and None do not."""
    given = {
        name: ("true" if value is True else str(value))
        for name, value in parameters.items()
        if value is not None and value != ""
    }
    return urlencode(given) if given else ""


def _undecodable(resource: Resource[Any], method: str, path: str, error: Exception) -> NoReturn:
    raise UnexpectedResponseError(
        f"{method} {path}: the answer cannot be read as {resource.full_name}: {problem_of(error)}"
    ) from None
