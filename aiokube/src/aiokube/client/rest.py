"""The typed verbs of an API server."""

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
    """The verbs of one API server, over a :class:`aiokube.client.http.Transport`, whose guarantees apply.

    Every verb raises :class:`aiokube.client.errors.ApiError` if the server refuses the request (with a
    subclass per reason), TransportError if no valid response arrives, and ConfigError if credentials are
    unusable. Bodies may omit ``kind`` and ``apiVersion``: the server derives them from the path. Returned
    values are those that the server has stored.

    Use it as an async context manager, or call :meth:`aclose`.
    """

    def __init__(
        self, transport: Transport, guard: Guard | None = None, *, is_metadata_only: bool = False
    ) -> None:
        self._transport = transport
        self._guard = guard
        self._is_metadata_only = is_metadata_only

    def guarded(self, guard: Guard) -> "Client":
        """Return a client on the same connections that calls ``guard`` before each write.

        See :mod:`aiokube.client.guard`. The verb raises the guard's exception. Closing either client closes
        both.
        """
        return Client(self._transport, guard, is_metadata_only=self._is_metadata_only)

    def metadata_only(self) -> "Client":
        """Return a client on the same connections whose writes return only metadata from the server.

        :meth:`create` and :meth:`update` then return the body that was sent, with its new metadata: for
        callers that have the object anyway, and watch it. If the server has stored something different, the
        watch reports it at the same resource version. The response is complete if the metadata of the body
        is incomplete, or if the server does not support partial responses.
        """
        return Client(self._transport, self._guard, is_metadata_only=True)

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
        """Return a client; no request is sent and no file is read until the first verb."""
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
        """Send later requests on new connections; call it after a connection has silently died.

        Pending requests get a short time to finish; open watches and lists continue.
        """
        self._transport.distrust_connections()

    async def aclose(self) -> None:
        """Close all connections; pending requests and watches fail. Idempotent."""
        await self._transport.aclose()

    # --------------------------------------------------------------------------------------------- reading

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Return the newest version of one object. Raises NotFoundError."""
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
        retry_throttled: bool = True,
    ) -> Page[T]:
        """Return one page of a gzipped list, of all namespaces by default.

        Without ``resource_version`` the list is the newest; ``"0"`` accepts any version that the server has
        in memory. Without ``retry_throttled``, the refusal of a busy server is raised immediately instead of
        being retried. Raises ExpiredError if a version or continue token is too old, and ServerTimeoutError
        with ``is_too_large_resource_version`` if the server has not reached the version yet.
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
        body = await self._transport.send(
            "GET", path, query, compressed=True, retry_throttled=retry_throttled
        )
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
        retry_throttled: bool = True,
    ) -> ListStream[T]:
        """List a resource in one gzipped response, decoded while the server is still sending it.

        Entering returns after status 200, or raises the server's refusal, as :meth:`list_page` does.
        Iterating yields the items in order, in tuples that may be empty. At the end, ``resource_version`` is
        that of the list, and ``continue_token`` is not ``""`` if there is another page. All items are of one
        version. Raises ResponseTruncatedError if the connection breaks, and UnexpectedResponseError if
        decoding fails; items yielded before an error are not a complete list. Leaving early closes the
        connection.
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
        stream = self._transport.stream(
            path, query, retry_throttled=retry_throttled, compressed=True, is_watch=False
        )
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
        retry_throttled: bool = True,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch[T]]]:
        """Watch for changes after ``resource_version``; ``send_initial_events`` sends the state first.

        Entering returns after status 200, or raises the server's refusal. Iterating yields non-empty
        batches: all events that have arrived since the last batch, in order. The iteration ends when the
        server ends the watch (after ``timeout_seconds`` at the latest). Raises ResponseTruncatedError if the
        connection breaks, and UndecodableEventError for an invalid line, after which iteration may continue
        with the next line. A failure that the server sends (such as 410 Expired) is not raised: it is a
        WatchError at the end of the last batch. A silent peer is detected only by the sockets (within a
        minute); count bookmarks to detect it sooner. Leaving closes the watch. ``retry_throttled`` applies
        to entering, as in :meth:`list_page`.
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
        return Watch(resource, self._transport.stream(path, query, retry_throttled=retry_throttled))

    def source(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> ResourceSource[T]:
        """Bind this client to a resource, optionally with a namespace and selectors, for a reflector."""
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
        """Create or change an object to have the fields of ``body`` (server-side apply), and return it.

        This is the recommended way to write. ``body`` has metadata with name and namespace, and only the
        fields that ``field_manager`` manages: fields of other managers stay unchanged, and a field that was
        in the last apply and is not in this one is removed. None fields are omitted.

        Raises ApplyConflictError if another manager has set one of the fields to a different value;
        ``force`` takes the field over instead, which is right for controllers and the objects they own.
        Raises ValueError for an object that was read from the server.
        """
        if not field_manager:
            raise ValueError(
                "apply needs a field_manager: the name that the server records as the owner of each field"
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
        """Create an object in ``namespace``, or else in ``metadata.namespace``, and return it.

        Raises AlreadyExistsError, InvalidError, ForbiddenError and other ApiErrors; ValueError if a
        namespaced object has no namespace.
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
        """Replace an object and return it; prefer :meth:`apply` unless you own every field.

        Raises PartialTypeError if the resource's type is not declared complete, because the update would
        erase fields. Raises ConflictError if the body's resource version is not the newest. If a response is
        lost, the request is retried once; a ConflictError may then mean that the first attempt succeeded.
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
        """Delete an object; it may remain until its finalizers and grace period have finished.

        ``uid`` and ``resource_version`` are preconditions; ConflictError if they do not match. Raises
        NotFoundError. If a response is lost, the request is retried once; a NotFoundError may then mean that
        the first attempt succeeded.
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
        """Send any request, with the same credentials, retries and errors, and return the response body."""
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
        has_all = self._is_metadata_only and isinstance(getattr(body, "metadata", None), ObjectMeta)
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
    """Encode the parameters that have a value; ``""`` and None are omitted, ``0`` and ``"0"`` are not."""
    given = {
        name: ("true" if value is True else str(value))
        for name, value in parameters.items()
        if value is not None and value != ""
    }
    return urlencode(given) if given else ""


def _undecodable(resource: Resource[Any], method: str, path: str, error: Exception) -> NoReturn:
    raise UnexpectedResponseError(
        f"{method} {path}: the response cannot be read as {resource.full_name}: {problem_of(error)}"
    ) from None
