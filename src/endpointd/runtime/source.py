"""Where a reflector reads from."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from endpointd.api.meta import KubernetesObject
from endpointd.api.resource import Bookmark, Page, WatchError, WatchEvent

T = TypeVar("T", bound=KubernetesObject)

Batch = list[WatchEvent[T] | Bookmark | WatchError]
"""What arrived at once on a watch, in its order; never empty."""


class Source(Protocol[T]):
    """One resource of one server (or a part of it): a client bound to it, or a fake that lies.

    Both methods raise the errors of :mod:`endpointd.client.errors`, and nothing is retried where a retry would hide
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
