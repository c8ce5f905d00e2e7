"""A watch: from response chunks to batches of typed events."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Bookmark, Resource, WatchError, WatchEvent
from aiokube.client.chunks import StreamContext
from aiokube.client.errors import UndecodableEventError
from aiokube.client.watchlines import LineSplitter

T = TypeVar("T", bound=KubernetesObject)

# Errors of decoding, and of projections that meet values which no schema rules out.
# RecursionError: values that are nested too deeply.
UNDECODABLE = (msgspec.DecodeError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


class Watch(StreamContext, Generic[T]):
    """A watch that is opened by entering it; see :meth:`aiokube.client.rest.Client.watch`."""

    def __init__(
        self, resource: Resource[T], stream: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> None:
        super().__init__(stream, "a watch", "watch")
        self._resource = resource
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque()

    async def __anext__(self) -> list[WatchEvent[T] | Bookmark | WatchError]:
        chunks, lines = self._chunks, self._lines
        while not lines:
            chunk = await anext(chunks)  # its end is the watch's; an incomplete line is not an event
            lines.extend(self._splitter.feed(chunk))
        decode = self._resource.decode_event
        batch: list[WatchEvent[T] | Bookmark | WatchError] = []
        while lines:
            try:
                batch.append(decode(lines[0]))
            except UNDECODABLE as error:
                if batch:
                    return batch  # earlier events are valid; the next call raises for this line
                raise undecodable_event(self._resource, lines.popleft(), error) from None
            lines.popleft()
        return batch


class _AnyMeta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _AnyObject(msgspec.Struct, gc=False):
    metadata: _AnyMeta


class _AnyEvent(msgspec.Struct, gc=False):
    object: _AnyObject


_any_event_decoder = msgspec.json.Decoder(_AnyEvent)


def problem_of(error: Exception) -> str:
    """Return the problem without content: msgspec names field and types, other errors may quote the value."""
    return str(error) if isinstance(error, msgspec.DecodeError) else type(error).__name__


def undecodable_event(resource: Resource[T], line: bytes, error: Exception) -> UndecodableEventError:
    """Return the error for a line, with as much of its identity as can be read, but none of its content."""
    problem = problem_of(error)
    try:
        metadata = _any_event_decoder.decode(line).object.metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UndecodableEventError(resource.full_name, problem)
    key = ObjectKey(metadata.namespace, metadata.name) if metadata.name else None
    return UndecodableEventError(
        resource.full_name, problem, key=key, resource_version=metadata.resource_version
    )
