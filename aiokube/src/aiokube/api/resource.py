"""Resources: their paths on a server, and the conversion of bytes to values.

A :class:`Resource` describes a kind completely (path, decoder, projection), so that the layers above need no
code for specific kinds.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, cast
from urllib.parse import quote

import msgspec

from aiokube.api.meta import KubernetesObject, ListMeta, ObjectKey
from aiokube.api.status import Status
from aiokube.api.unknown_fields import Schema

T = TypeVar("T", bound=KubernetesObject)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]

UNKNOWN = "-unknown-"
"""The name under which a type keeps its unknown fields; no API field has this name."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class PartialTypeError(TypeError):
    """A refused write that would have erased the fields its type does not have; nothing was sent."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change of one object. ``item`` is its state after the change (before it, for ``DELETED``)."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    item: T


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """Progress: all changes up to ``resource_version`` were sent; may end the initial events."""

    resource_version: str
    initial_events_end: bool = False


class WatchError(msgspec.Struct, frozen=True, gc=False):
    """The server ended the watch with a status, usually 410 Expired."""

    status: Status


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One page of a list; ``continue_token`` is ``""`` on the last page."""

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


class _RawPage(msgspec.Struct, gc=False):
    metadata: ListMeta | None = None
    items: tuple[msgspec.Raw, ...] | None = None


_encoder = msgspec.json.Encoder()
_raw_page_decoder = msgspec.json.Decoder(_RawPage)
_raw_event_decoder = msgspec.json.Decoder(_RawEvent)
_bookmark_decoder = msgspec.json.Decoder(_BookmarkObject)
_status_decoder = msgspec.json.Decoder(Status)

# The server writes the type first; a line with such a prefix needs no second pass.
_OBJECT_PREFIXES = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')


def _without_null(document: dict[str, Any]) -> dict[str, Any]:
    """Remove null fields: in an apply, null means that a field is not managed."""
    return {
        name: _without_null(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not None
    }


class Resource(Generic[T]):
    """A kind of object on a server, and its conversion to Python values.

    ``wire`` is the msgspec type that a JSON document decodes into; unknown fields are skipped. ``project``
    converts it to the value that is cached; without it, the wire value is cached.

    An update replaces the whole object, so it erases every field that the wire type does not have. Updates
    therefore require a ``complete`` type, which has all fields of the kind. Other types are for reading,
    creating, server-side apply and patches, which change only the fields they name; a type with a projection
    is read-only.

    A type with a ``schema`` stays complete when a newer server adds fields: the wire type forbids unknown
    fields, the value keeps those of the object in a field ``unknown``, and :meth:`encode` restores them.
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
        schema: Schema | None = None,
        namespaced: bool = True,
        complete: bool = False,
    ) -> None:
        self.group = group
        self.version = version
        self.plural = plural
        self.kind = kind
        self.namespaced = namespaced
        self.wire = wire
        self.is_complete = complete or schema is not None
        self._project = project
        self._schema = schema
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
        """``pods``, or ``endpointslices.discovery.k8s.io``: the name in messages and RBAC."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __repr__(self) -> str:
        return f"Resource({self.full_name})"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, an object, or one of its subresources."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def object_path(self, key: ObjectKey, subresource: str = "") -> str:
        """Return the URL path of an object. Raises ``ValueError`` if the key lacks a name or namespace."""
        if not key.name or (self.namespaced and not key.namespace):
            missing = "namespace" if key.name else "name"
            raise ValueError(f"{self.full_name}: the key {str(key)!r} has no {missing}")
        return self.path(key.namespace, key.name, subresource)

    def require_complete(self) -> None:
        """Raise :class:`PartialTypeError` if an update would erase fields."""
        if not self.is_complete:
            raise PartialTypeError(
                f"an update of {self.full_name} would erase every field that {self._type_name} does not have: use "
                "Client.apply or Client.patch, or declare the type as complete (Resource(complete=True)) if it has all"
                " fields"
            )

    def require_writable(self) -> None:
        """Raise :class:`PartialTypeError` for a projection, which cannot be encoded for the API."""
        if self._project is not None and not self.is_complete:
            raise PartialTypeError(
                f"this Resource of {self.full_name} is a read-only projection: write with a Resource whose "
                "type has the fields of the API"
            )

    @property
    def _type_name(self) -> str:
        return getattr(self.wire, "__name__", str(self.wire))

    def decode(self, body: bytes | bytearray | memoryview) -> T:
        """Decode one object. Raises ``msgspec.DecodeError`` if the bytes are not an object of this kind."""
        try:
            value = self._object_decoder.decode(body)
        except msgspec.ValidationError:
            if self._schema is None:
                raise
            return self._decode_with_unknown_fields(self._schema, body)
        return self._project(value) if self._project is not None else value

    def _decode_with_unknown_fields(self, schema: Schema, body: bytes | bytearray | memoryview) -> T:
        document = msgspec.json.decode(body)
        unknown = schema.split(document) if isinstance(document, dict) else {}
        wire = msgspec.convert(document, self.wire)
        value: Any = self._project(wire) if self._project is not None else wire
        return cast("T", msgspec.structs.replace(value, unknown=unknown) if unknown else value)

    def encode(self, body: Any) -> bytes:
        """Encode an object of this kind as the body of a write, including its unknown fields."""
        unknown = getattr(body, "unknown", msgspec.UNSET)
        if unknown is msgspec.UNSET or self._schema is None:
            return _encoder.encode(body)
        document = msgspec.to_builtins(msgspec.structs.replace(body, unknown=msgspec.UNSET))
        self._schema.merge(document, unknown)
        return _encoder.encode(document)

    def encode_for_apply(self, body: Any) -> bytes:
        """Encode an object as the body of a server-side apply, with kind and version. Raises ``ValueError``.

        An applier becomes the manager of every field in the body. An object that was read from the server
        contains the fields of other managers, so it is refused.
        """
        document = msgspec.to_builtins(body)
        metadata = document.get("metadata") or {}
        if metadata.get("resourceVersion") or metadata.get("uid"):
            raise ValueError(
                f"{self.full_name} {metadata.get('name')!r} was read from the server: applying it would take over"
                " all of its fields; build a new object with only the fields that you manage"
            )
        return _encoder.encode({"apiVersion": self.api_version, "kind": self.kind} | _without_null(document))

    def decode_page(self, body: bytes | bytearray | memoryview) -> Page[T]:
        """Decode one page of a list. Raises ``msgspec.DecodeError``."""
        items: tuple[T, ...]
        try:
            page: Any = self._page_decoder.decode(body)
        except msgspec.ValidationError:
            if self._schema is None:
                raise
            page = _raw_page_decoder.decode(body)
            items = tuple(map(self.decode, page.items or ()))
        else:
            items = page.items or ()
            if self._project is not None:
                items = tuple(map(self._project, items))
        metadata = page.metadata or ListMeta()
        return Page(
            items=items,
            resource_version=metadata.resource_version,
            continue_token=metadata.continue_ or "",
            remaining_item_count=metadata.remaining_item_count,
        )

    def decode_event(self, line: bytes | bytearray | memoryview) -> WatchEvent[T] | Bookmark | WatchError:
        """Decode one line of a watch. Raises ``msgspec.DecodeError`` if it is not a watch event."""
        if bytes(line[:18]).startswith(_OBJECT_PREFIXES):
            try:
                event: Any = self._event_decoder.decode(line)
            except msgspec.ValidationError:
                if self._schema is None:
                    raise
            else:
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
