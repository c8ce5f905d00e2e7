"""Fields of newer API servers that our types lack: kept with the object and sent back on update.

An update replaces the whole object. Without this module, our first update would erase fields that a newer
server has added or that another controller has set.

The wire types of writable objects refuse unknown fields, so decoding an object without any costs nothing
extra. An object with unknown fields is decoded a second time, more slowly.
"""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

UnknownFields = dict[str, Any]
"""The unknown fields of a JSON object, with its structure: below a known field, the unknown fields inside it.

For a list, the elements that have unknown fields, by identity.
"""

Json = dict[str, Any]
Identity = Callable[[Json], str]
"""Returns a key that identifies an element of a list, however its other fields change."""


def port_identity(port: Json) -> str:
    """Identify a port of an Endpoints or an EndpointSlice."""
    return f"{port.get('name')} {port.get('port')}/{port.get('protocol')}"


def owner_identity(owner: Json) -> str:
    """Identify an owner reference."""
    return str(owner.get("uid"))


class Schema:
    """The fields that a type knows, at all depths.

    ``identities`` must have an entry for each type that is the element of a list. ``dropped`` fields are
    omitted on purpose and do not count as unknown.
    """

    def __init__(
        self,
        wire: type[msgspec.Struct],
        identities: Mapping[type[msgspec.Struct], Identity],
        dropped: frozenset[str] = frozenset(),
    ) -> None:
        self._identity = identities.get(wire)
        self._dropped = dropped
        self._fields: dict[str, tuple[Schema | None, bool]] = {}
        for field in msgspec.structs.fields(wire):
            inner, is_list = _struct_within(field.type)
            schema = Schema(inner, identities, dropped) if inner is not None else None
            self._fields[field.encode_name] = (schema, is_list)

    def split(self, document: Json) -> UnknownFields:
        """Remove the unknown fields from an object and return them."""
        return self._split(document, {})

    def _split(self, document: Json, equal: dict[bytes, UnknownFields]) -> UnknownFields:
        unknown: UnknownFields = {}
        for name in list(document):
            if name in self._dropped:
                del document[name]
                continue
            if name not in self._fields:
                unknown[name] = document.pop(name)
                continue
            schema, is_list = self._fields[name]
            value = document[name]
            if schema is None or not value:
                continue
            if is_list and isinstance(value, list):
                inner = {
                    schema._identity(element): found  # noqa: SLF001 - same class
                    for element in value
                    if isinstance(element, dict) and (found := schema._split(element, equal))  # noqa: SLF001
                    if schema._identity is not None  # noqa: SLF001
                }
            elif isinstance(value, dict):
                inner = schema._split(value, equal)  # noqa: SLF001
            else:
                continue
            if inner:
                unknown[name] = inner
        # Unknown fields that are equal in all endpoints of a slice are stored once.
        return equal.setdefault(msgspec.json.encode(unknown), unknown) if unknown else unknown

    def merge(self, document: Json, unknown: UnknownFields) -> None:
        """Restore unknown fields in an object; those of list elements that no longer exist are dropped."""
        for name, value in unknown.items():
            if name not in self._fields:
                document[name] = value
                continue
            schema, is_list = self._fields[name]
            if schema is None:
                continue
            if not is_list:
                if document.get(name) is None:
                    document[name] = {}
                schema.merge(document[name], value)
                continue
            for element in document.get(name) or ():
                found = value.get(schema._identity(element)) if schema._identity is not None else None  # noqa: SLF001
                if found is not None:
                    schema.merge(element, found)


def _struct_within(annotation: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    """Return the struct type inside a field's type, if any, and whether the field is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation, False
    origin = get_origin(annotation)
    if origin is tuple:
        return _struct_within(get_args(annotation)[0])[0], True
    if origin in (Union, UnionType):
        for member in get_args(annotation):
            found = _struct_within(member)
            if found[0] is not None:
                return found
    return None, False
