"""The source that a reflector reads from."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, TypeVar, runtime_checkable

from aiokube.api.meta import KubernetesObject
from aiokube.api.resource import Bookmark, Page, WatchError, WatchEvent

T = TypeVar("T", bound=KubernetesObject)
T_co = TypeVar("T_co", bound=KubernetesObject, covariant=True)

Batch = list[WatchEvent[T] | Bookmark | WatchError]
"""The events that arrived together on a watch, in order; never empty."""


class Source(Protocol[T]):
    """A resource of a server, optionally restricted: a client bound to it, or a misbehaving fake.

    Both methods raise the errors of :mod:`aiokube.client.errors`. Implementations must not retry where that
    would hide a fact from the reflector.
    """

    async def list_page(
        self,
        *,
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
    ) -> Page[T]:
        """Return one page of a list; all pages have the version of the first."""
        ...

    def watch(
        self,
        *,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch[T]]]:
        """Return a watch with bookmarks; entering it sends the request, leaving it closes the connection.

        With ``send_initial_events`` it starts with the state at ``resource_version`` or later (by default
        the newest), which a bookmark ends. It ends when the server ends it. A failure that the server
        reports within the watch is a WatchError, the last item of its batch. ``UndecodableEventError``
        concerns one event; iteration may continue.
        """
        ...


class ItemStream(Protocol[T_co]):
    """A list in progress: items as they arrive, and at the end their version."""

    resource_version: str
    """``""`` until all items have been yielded."""
    continue_token: str
    """The token of the next page, ``""`` on the last page; valid after all items have been yielded."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exception: object) -> bool | None: ...

    def __aiter__(self) -> AsyncIterator[tuple[T_co, ...]]: ...


@runtime_checkable
class PoolsConnections(Protocol):
    """A source that keeps connections open between requests."""

    def distrust_connections(self) -> None:
        """Send later requests on new connections: one has silently died, and others may have."""
        ...


@runtime_checkable
class StreamsLists(Protocol[T_co]):
    """A source that can stream a whole list in one response with constant memory."""

    def list_stream(
        self, *, resource_version: str | None = None, resource_version_match: str | None = None
    ) -> ItemStream[T_co]:
        """Return a list; entering it sends the request, leaving it early closes the connection.

        It raises the errors of :meth:`Source.list_page`. Items yielded before an error are not a complete
        list.
        """
        ...
