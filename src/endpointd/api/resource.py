"""Which resources there are, where they live on a server, and how their bytes become values.

A :class:`Resource` says all that the layers above need to know of a kind, so that none of them knows any
kind by name: path, decoder, and the projection that keeps only what is used.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from endpointd.api.meta import KubernetesObject, ListMeta
from endpointd.api.status import Status

T = TypeVar("T", bound=KubernetesObject)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change of one object. ``item`` is its state after the change (before it, for ``DELETED``)."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    item: T


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """Everything up to ``resource_version`` has been seen; ``initial_events_end`` closes the initial state."""

    resource_version: str
    initial_events_end: bool = False


class WatchError(msgspec.Struct, frozen=True, gc=False):
    """The server ended the watch with a status (410 Expired, most often)."""

    status: Status


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One page of a list: ``continue_token`` is ``""`` on the last."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    remaining_item_count: int | None = None


class _BookmarkMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMeta


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_raw_event_decoder = msgspec.json.Decoder(_RawEvent)
_bookmark_decoder = msgspec.json.Decoder(_BookmarkObject)
_status_decoder = msgspec.json.Decoder(Status)

# The server writes the type first; a line that begins so needs no second pass.
_OBJECT_PREFIXES = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')


class Resource(Generic[T]):
    """One kind of object on a server, and the values it becomes here.

    ``wire`` is the msgspec type a JSON document decodes into; unknown fields are skipped. ``project`` turns it
    into the value that is cached (the wire value itself where it is left out). A resource whose wire type is
    not complete must never be written back with PUT: what was not decoded would be erased.
    """

    def __init__(
        self,
        *,
        group: str,
        version: str,
        plural: str,
        kind: str,
        wire: Any,
        project: Callable[[Any], T] | None = None,
        namespaced: bool = True,
    ) -> None:
        self.group = group
        self.version = version
        self.plural = plural
        self.kind = kind
        self.namespaced = namespaced
        self.wire = wire
        self._project = project
        self._object_decoder = msgspec.json.Decoder(wire)
        item = msgspec.defstruct("_Event", [("type", str), ("object", wire)], gc=False)
        self._event_decoder = msgspec.json.Decoder(item)
        page = msgspec.defstruct(
            "_Page", [("metadata", ListMeta | None, None), ("items", tuple[wire, ...] | None, None)], gc=False
        )
        self._page_decoder = msgspec.json.Decoder(page)

    @property
    def api_version(self) -> str:
        """``v1``, or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """``pods``, or ``endpointslices.discovery.k8s.io``: how messages and RBAC name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __repr__(self) -> str:
        return f"Resource({self.full_name})"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, one object, or one of its subresources."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def decode(self, body: bytes | bytearray | memoryview) -> T:
        """Decode one object. Raises ``msgspec.DecodeError`` where the bytes are not of this kind."""
        value = self._object_decoder.decode(body)
        return self._project(value) if self._project is not None else value

    def decode_page(self, body: bytes | bytearray | memoryview) -> Page[T]:
        """Decode one page of a list. Raises ``msgspec.DecodeError``."""
        page: Any = self._page_decoder.decode(body)
        items = page.items or ()
        metadata = page.metadata or ListMeta()
        return Page(
            items=items if self._project is None else tuple(map(self._project, items)),
            resource_version=metadata.resource_version,
            continue_token=metadata.continue_ or "",
            remaining_item_count=metadata.remaining_item_count,
        )

    def decode_event(self, line: bytes | bytearray | memoryview) -> WatchEvent[T] | Bookmark | WatchError:
        """Decode one line of a watch. Raises ``msgspec.DecodeError`` where it is not a watch event."""
        if bytes(line[:18]).startswith(_OBJECT_PREFIXES):
            event: Any = self._event_decoder.decode(line)
            item = event.object
            return WatchEvent(event.type, item if self._project is None else self._project(item))
        raw = _raw_event_decoder.decode(line)
        match raw.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                return WatchEvent(raw.type, self.decode(raw.object))
            case "BOOKMARK":
                meta = _bookmark_decoder.decode(raw.object).metadata
                return Bookmark(
                    resource_version=meta.resource_version,
                    initial_events_end=(meta.annotations or {}).get(INITIAL_EVENTS_END) == "true",
                )
            case "ERROR":
                return WatchError(_status_decoder.decode(raw.object))
            case other:
                raise msgspec.ValidationError(f"a watch event of unknown type {other!r}")
