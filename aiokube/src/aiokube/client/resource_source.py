"""A client bound to one resource, for a reflector to read from."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, TypeVar

from aiokube.api.meta import KubernetesObject
from aiokube.api.resource import Bookmark, Page, Resource, WatchError, WatchEvent
from aiokube.client.liststream import ListStream

if TYPE_CHECKING:
    from aiokube.client.rest import Client

T = TypeVar("T", bound=KubernetesObject)

Batch = list[WatchEvent[T] | Bookmark | WatchError]


class ResourceSource(Generic[T]):
    """A client bound to one resource, optionally with a namespace and selectors, for a reflector.

    Throttled requests are not retried here: the reflector decides about backoff and logging.
    """

    def __init__(
        self,
        client: "Client",
        resource: Resource[T],
        namespace: str,
        label_selector: str,
        field_selector: str,
    ) -> None:
        self._client = client
        self.resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector

    def __repr__(self) -> str:
        return f"ResourceSource({self.resource.full_name} of {self._client.server})"

    def distrust_connections(self) -> None:
        """Send later requests on new connections (:meth:`Client.distrust_connections`)."""
        self._client.distrust_connections()

    async def list_page(
        self,
        *,
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
    ) -> Page[T]:
        """Return one page (:meth:`Client.list_page`)."""
        return await self._client.list_page(
            self.resource,
            namespace=self._namespace,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            retry_throttled=False,
        )

    def list_stream(
        self, *, resource_version: str | None = None, resource_version_match: str | None = None
    ) -> ListStream[T]:
        """Stream a list that is decoded as it arrives (:meth:`Client.list_stream`)."""
        return self._client.list_stream(
            self.resource,
            namespace=self._namespace,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            retry_throttled=False,
        )

    def watch(
        self,
        *,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch[T]]]:
        """Watch with bookmarks (:meth:`Client.watch`)."""
        return self._client.watch(
            self.resource,
            namespace=self._namespace,
            resource_version=resource_version,
            send_initial_events=send_initial_events,
            timeout_seconds=timeout_seconds,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            retry_throttled=False,
        )
