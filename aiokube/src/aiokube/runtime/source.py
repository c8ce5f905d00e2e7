"""Where a reflector reads from."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, TypeVar, runtime_checkable

from aiokube.api.meta import KubernetesObject
from aiokube.api.resource import Bookmark, Page, WatchError, WatchEvent

T = TypeVar("T", bound=KubernetesObject)
T_co = TypeVar("T_co", bound=KubernetesObject, covariant=True)

Batch = list[WatchEvent[T] | Bookmark | WatchError]
"""What arrived at once on a watch, in its order; never empty."""


class Source(Protocol[T]):
    """One resource of one server (or a part of it): a client bound to it, or a fake that lies.

    Both methods raise the errors of :mod:`aiokube.client.errors`, and nothing is retried where a retry would hide
    a fact from the reflector.
    """

    async def list_page(
        self,
        *,
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
    ) -> Page[T]:
        """Return one page of a list; all pages of a list are of the version of the first."""
        ...

    def watch(
        self,
        *,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch[T]]]:
        """Return a watch, with bookmarks; entering it sends the request, leaving it closes the connection.

        With ``send_initial_events`` it begins with the state at ``resource_version`` or later (the newest where
        none is given), which a bookmark closes. It ends where the server ends it. A failure that the server tells
        within the watch is a WatchError, the last of its batch. ``UndecodableEventError`` stands for one event, and
        iterating may go on.
        """
        ...


class ItemStream(Protocol[T_co]):
    """A list under way: items as they come, and in the end the version of all of them."""

    resource_version: str
    """``""`` until all items have been given."""
    continue_token: str
    """Where the list goes on, if this was not all of it; ``""`` until all items have been given."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exception: object) -> bool | None: ...

    def __aiter__(self) -> AsyncIterator[tuple[T_co, ...]]: ...


@runtime_checkable
class PoolsConnections(Protocol):
    """A source that keeps connections open between requests."""

    def distrust_connections(self) -> None:
        """Send later requests on new connections: one was dead without a word, and others may be."""
        ...


@runtime_checkable
class StreamsLists(Protocol[T_co]):
    """A source that can give a whole list in one answer that is decoded as it comes, at the cost of none of its size."""

    def list_stream(
        self, *, resource_version: str | None = None, resource_version_match: str | None = None
    ) -> ItemStream[T_co]:
        """Return a list; entering it sends the request, leaving it early closes the connection.

        It raises what :meth:`Source.list_page` raises. What was given before an error is no list.
        """
        ...
