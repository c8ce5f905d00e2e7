"""A list that is decoded as it comes: neither its text nor its wire form is ever in memory as a whole."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self, TypeVar

from endpointd.api.meta import KubernetesObject, ListMeta
from endpointd.api.resource import Resource
from endpointd.client.errors import UnexpectedResponseError
from endpointd.client.watch import UNDECODABLE, problem_of

T = TypeVar("T", bound=KubernetesObject)

_ITEMS = b'"items":['
_BETWEEN_ITEMS = b'},{"metadata":{'
_LONGEST_HEAD_BYTES = 16 * 1024
_WORTH_DECODING_BYTES = 256 * 1024


class ListSplitter:
    """Cuts the text of one list into pieces of whole items, whatever the chunks.

    Where an item ends is known only to who parses it. So it is guessed: at what stands between two items of a list of
    a Kubernetes server. The same may stand within an item; then what was cut is no JSON (its brackets do not close),
    and :meth:`put_back` has the rest kept together. A guess is never wrong unnoticed.

    ``head`` is the text before the items, once they begin; None where they never do, and all of it comes at the end.
    """

    def __init__(self, worth_decoding_bytes: int = _WORTH_DECODING_BYTES) -> None:
        self._worth_decoding_bytes = worth_decoding_bytes
        self._text = bytearray()
        self._may_cut = True
        self.head: bytes | None = None

    def feed(self, chunk: bytes) -> bytes | None:
        """Take in what has arrived; return items that are there whole, with commas between them."""
        text = self._text
        text += chunk
        if not self._may_cut or len(text) < self._worth_decoding_bytes:
            return None
        if self.head is None:
            items_at = text.find(_ITEMS, 0, _LONGEST_HEAD_BYTES)
            if items_at < 0:
                self._may_cut = False
                return None
            self.head = bytes(text[:items_at])
            del text[: items_at + len(_ITEMS)]
        end = text.rfind(_BETWEEN_ITEMS) + 1
        if not end:
            return None
        piece = bytes(text[:end])
        del text[: end + 1]
        return piece

    def put_back(self, piece: bytes) -> None:
        """Take back what was cut in the wrong place; nothing is cut any more."""
        self._text[:0] = piece + b","
        self._may_cut = False

    def rest(self) -> bytes:
        """Return a document of all that was not given out; ``head`` is not in it, where there is one."""
        return bytes(self._text) if self.head is None else b"{" + _ITEMS + self._text


class ListStream(Generic[T]):
    """A list that is opened by entering it; see :meth:`endpointd.client.rest.Client.list_stream` for what it promises."""

    def __init__(
        self,
        resource: Resource[T],
        path: str,
        stream: AbstractAsyncContextManager[AsyncIterator[bytes]],
    ) -> None:
        self._resource = resource
        self._path = path
        self._stream = stream
        self._chunks: AsyncIterator[bytes] | None = None
        self._splitter = ListSplitter()
        self._ended = False
        self.resource_version = ""
        self.continue_token = ""

    async def __aenter__(self) -> Self:
        self._chunks = await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[T, ...]:
        if self._chunks is None:
            raise RuntimeError(
                "a list has to be entered before it is read: async with client.list_stream(...)"
            )
        if self._ended:
            raise StopAsyncIteration
        async for chunk in self._chunks:
            piece = self._splitter.feed(chunk)
            if piece is None:
                continue
            try:
                return self._resource.decode_items(b"[" + piece + b"]")
            except UNDECODABLE:  # cut within an item, or an item that is bad: the end will show
                self._splitter.put_back(piece)
        self._ended = True
        return self._decoded_rest()

    def _decoded_rest(self) -> tuple[T, ...]:
        """Decode what is left, and with it the version; the error names what cannot be read."""
        head = self._splitter.head
        try:
            page = self._resource.decode_page(self._splitter.rest())
            metadata = ListMeta(resource_version=page.resource_version, continue_=page.continue_token)
            if head is not None and not page.resource_version:
                metadata = self._resource.decode_list_metadata(head + _ITEMS + b"]}")
        except UNDECODABLE as error:
            raise UnexpectedResponseError(
                f"GET {self._path}: the answer cannot be read as {self._resource.full_name}: {problem_of(error)}"
            ) from None
        self.resource_version, self.continue_token = metadata.resource_version, metadata.continue_ or ""
        return page.items
