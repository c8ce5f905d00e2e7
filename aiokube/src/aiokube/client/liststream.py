"""Streamed lists, decoded as they arrive: neither the JSON nor its wire form is in memory as a whole."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from aiokube.api.meta import KubernetesObject
from aiokube.api.resource import Resource
from aiokube.client.bounded import MAX_ANSWER_BYTES, MAX_OBJECT_BYTES
from aiokube.client.chunks import StreamContext
from aiokube.client.errors import AnswerTooLargeError, UnexpectedResponseError
from aiokube.client.watch import UNDECODABLE, problem_of

T = TypeVar("T", bound=KubernetesObject)

_ITEMS = b'"items":['
_BEGIN, _END = b"{" + _ITEMS, b"]}"
_BETWEEN_ITEMS = b'},{"metadata":{'
_LONGEST_HEAD_BYTES = 16 * 1024
_WORTH_DECODING_BYTES = 256 * 1024


class ListSplitter:
    """Cuts the JSON of one list into lists of complete items, for any chunk boundaries.

    Only a parser can tell where an item ends, so the splitter guesses, by the text between two items of a
    Kubernetes server's list. The same text may occur within an item; then the cut is invalid JSON
    (unbalanced brackets), and :meth:`put_back` keeps the rest together. A wrong guess therefore never goes
    unnoticed.

    Every byte is scanned once or twice, for any number of chunks per item.
    """

    def __init__(self, worth_decoding_bytes: int = _WORTH_DECODING_BYTES) -> None:
        self._worth_decoding_bytes = worth_decoding_bytes
        self._text = bytearray()
        self._may_cut = True
        self._looked_at = 0
        self._head: bytes | None = None

    @property
    def head(self) -> bytes | None:
        """The list without its items; None before the first item, and if ``rest`` returns the whole list."""
        return self._head + _ITEMS + _END if self._head is not None else None

    @property
    def may_cut(self) -> bool:
        """Whether items are still returned before the end of the response."""
        return self._may_cut

    @property
    def pending_bytes(self) -> int:
        """The size of the text that was not returned yet."""
        return len(self._text)

    def feed(self, chunk: bytes) -> bytes | None:
        """Add a chunk; return a list of the items that are complete, or None."""
        text = self._text
        text += chunk
        if not self._may_cut or len(text) < self._worth_decoding_bytes:
            return None
        if self._head is None:
            items_at = text.find(_ITEMS, 0, _LONGEST_HEAD_BYTES)
            if items_at < 0:
                self._may_cut = False
                return None
            self._head = bytes(text[:items_at])
            del text[: items_at + len(_ITEMS)]
        end = text.rfind(_BETWEEN_ITEMS, self._looked_at) + 1
        if end:
            piece = b"".join((_BEGIN, text[:end], _END))
            del text[: end + 1]
        self._looked_at = max(len(text) - len(_BETWEEN_ITEMS) + 1, 0)
        return piece if end else None

    def put_back(self, piece: bytes) -> None:
        """Return a wrongly cut part to the buffer, and stop cutting."""
        self._text[:0] = piece[len(_BEGIN) : -len(_END)] + b","
        self._may_cut = False

    def rest(self) -> bytes:
        """Return a list of the items that were not returned yet, without the parts that ``head`` has."""
        return bytes(self._text) if self._head is None else _BEGIN + self._text


class ListStream(StreamContext, Generic[T]):
    """A list that is opened by entering it; see :meth:`aiokube.client.rest.Client.list_stream`."""

    def __init__(
        self,
        resource: Resource[T],
        path: str,
        stream: AbstractAsyncContextManager[AsyncIterator[bytes]],
    ) -> None:
        super().__init__(stream, "a list", "list_stream")
        self._resource = resource
        self._path = path
        self._splitter = ListSplitter()
        self._ended = False
        self.resource_version = ""
        self.continue_token = ""

    async def __anext__(self) -> tuple[T, ...]:
        chunks = self._chunks
        splitter = self._splitter
        if self._ended:
            raise StopAsyncIteration
        async for chunk in chunks:
            piece = splitter.feed(chunk)
            if splitter.pending_bytes > (MAX_OBJECT_BYTES if splitter.may_cut else MAX_ANSWER_BYTES):
                raise AnswerTooLargeError(
                    f"GET {self._path}: an item is larger than {MAX_OBJECT_BYTES // 2**20} MiB: "
                    "is this the address of an API server?"
                )
            if piece is None:
                continue
            try:
                return self._resource.decode_page(piece).items
            except UNDECODABLE:  # cut within an item, or an invalid item: the rest shows which
                splitter.put_back(piece)
        self._ended = True
        return self._decoded_rest()

    def _decoded_rest(self) -> tuple[T, ...]:
        """Decode the rest and the list's version; the error names the invalid item."""
        head = self._splitter.head
        try:
            rest = self._resource.decode_page(self._splitter.rest())
            of_all = rest if rest.resource_version or head is None else self._resource.decode_page(head)
        except UNDECODABLE as error:
            raise UnexpectedResponseError(
                f"GET {self._path}: the response cannot be read as {self._resource.full_name}: {problem_of(error)}"
            ) from None
        self.resource_version, self.continue_token = of_all.resource_version, of_all.continue_token
        return rest.items
