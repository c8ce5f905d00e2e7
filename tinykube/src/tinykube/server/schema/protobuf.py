r"""Decode request bodies in protobuf, the format of typed Go clients, using the numbers of the type descriptions.

A body is ``k8s\0`` and a message that names the type and contains the object. After conforming, the decoded
document equals that of the same request in JSON; before, it also has the zero values that Go's protobuf
always writes. Responses are never encoded in protobuf: clients accept JSON.
"""

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from aiokube.api.times import format_micro_time, format_time
from tinykube.server.objects import JsonObject
from tinykube.server.schema.conform import conform
from tinykube.server.schema.errors import ConformError
from tinykube.server.schema.loader import UnknownTypeError, kind_type, object_type
from tinykube.server.schema.model import (
    ListRef,
    MapRef,
    ObjectRef,
    ObjectType,
    Scalar,
    ScalarRef,
    TypeRef,
)
from tinykube.server.schema.protobuf_wire import (
    FIXED64,
    LENGTH,
    VARINT,
    ProtobufError,
    WireValue,
    fields_of,
    signed,
    varint,
)

MAGIC = b"k8s\x00"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = "application/json"
_SCHEMA = ObjectRef("apiextensions_v1", "JSONSchemaProps")

Read = Callable[[int, WireValue], Any]
Put = Callable[[JsonObject, int, WireValue], None]

_compiled: dict[ObjectRef, dict[int, Put]] = {}


def decode_protobuf(body: bytes, group: str, version: str, kind: str) -> JsonObject:
    """Decode a body; apiVersion and kind are those of the body, or else the arguments.

    Raises ProtobufError for malformed bodies, UnknownTypeError for a kind without a description.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    api_version, named_kind, raw, content_type = "", "", memoryview(b""), ""
    for number, _, value in fields_of(memoryview(body)[len(MAGIC) :]):
        if number == 1:
            for inner, _, part in fields_of(_bytes(value)):
                if inner == 1:
                    api_version = _text(LENGTH, part)
                elif inner == 2:
                    named_kind = _text(LENGTH, part)
        elif number == 2:
            raw = _bytes(value)
        elif number == 4:
            content_type = _text(LENGTH, value)
    if content_type == _JSON:
        held = _json(raw)
        if not isinstance(held, dict):
            raise ProtobufError("the body holds no object")
        document: JsonObject = held
    else:
        document = decode_message(_described(api_version, named_kind, group, version, kind), raw)
    document["apiVersion"] = api_version or (f"{group}/{version}" if group else version)
    document["kind"] = named_kind or kind
    return document


def decode_message(described: ObjectType, message: bytes | memoryview) -> JsonObject:
    """Decode a message without an envelope; the document is not conformed. Raises ProtobufError."""
    try:
        return _message(described.ref, memoryview(message))
    except RecursionError:
        raise ProtobufError("proto: exceeded max depth") from None


def _described(api_version: str, named_kind: str, group: str, version: str, kind: str) -> ObjectType:
    """Return the type that the body names, or the expected type if the named one has no description."""
    if api_version and named_kind:
        named_group, _, named_version = api_version.rpartition("/")
        try:
            return kind_type(named_group, named_version, named_kind)
        except UnknownTypeError:
            pass  # options are sent under their own group versions, too
    return kind_type(group, version, named_kind or kind)


def _message(ref: ObjectRef, message: memoryview) -> JsonObject:
    document: JsonObject = {}
    _read_into(document, ref, message)
    return document


def _read_into(document: JsonObject, ref: ObjectRef, message: memoryview) -> None:
    known = _compiled.get(ref) or _compile(ref)
    for number, wire_type, value in fields_of(message):
        put = known.get(number)
        if put is not None:
            put(document, wire_type, value)


def _compile(ref: ObjectRef) -> dict[int, Put]:
    described = object_type(ref)
    known: dict[int, Put] = {}
    for name in described.own:
        field = described.fields[name]
        if field.number:
            known[field.number] = _putter(name, field.type)
    for inlined in described.inlined:
        known[inlined.number] = _inlined_putter(inlined.type)
    _compiled[ref] = known
    return known


def _inlined_putter(ref: ObjectRef) -> Put:
    def put(document: JsonObject, wire_type: int, value: WireValue) -> None:
        _read_into(document, ref, _bytes(value))

    return put


def _putter(name: str, ref: TypeRef) -> Put:
    if isinstance(ref, ListRef):
        return _list_putter(name, ref)
    if isinstance(ref, MapRef):
        return _map_putter(name, ref)
    read = _reader(ref)

    def put(document: JsonObject, wire_type: int, value: WireValue) -> None:
        document[name] = read(wire_type, value)

    return put


def _list_putter(name: str, ref: ListRef) -> Put:
    read = _reader(ref.item)
    packable = isinstance(ref.item, ScalarRef) and ref.item.scalar in (
        Scalar.INT32,
        Scalar.INT64,
        Scalar.BOOL,
    )

    def put(document: JsonObject, wire_type: int, value: WireValue) -> None:
        items = document.setdefault(name, [])
        if packable and wire_type == LENGTH:
            packed, at = _bytes(value), 0
            while at < len(packed):
                number, at = varint(packed, at)
                items.append(read(VARINT, number))
        else:
            items.append(read(wire_type, value))

    return put


def _map_putter(name: str, ref: MapRef) -> Put:
    # A list as a map value is a nested message that contains the items.
    wrapped = isinstance(ref.value, ListRef)
    read = _reader(ref.value.item if isinstance(ref.value, ListRef) else ref.value)

    def put(document: JsonObject, wire_type: int, value: WireValue) -> None:
        key, item, item_type = "", None, LENGTH
        for number, inner_type, part in fields_of(_bytes(value)):
            if number == 1:
                key = _text(inner_type, part)
            elif number == 2:
                item, item_type = part, inner_type
        entries = document.setdefault(name, {})
        if wrapped:
            parts = fields_of(_bytes(item)) if item is not None else ()
            entries[key] = [read(inner_type, part) for number, inner_type, part in parts if number == 1]
        else:
            entries[key] = None if item is None else read(item_type, item)

    return put


def _reader(ref: TypeRef) -> Read:
    if isinstance(ref, ObjectRef):
        return lambda wire_type, value: _message(ref, _bytes(value))
    if not isinstance(ref, ScalarRef):
        raise ProtobufError(f"no message holds a {ref.go_name}")
    match ref.scalar:
        case Scalar.STRING:
            return _text
        case Scalar.BOOL:
            return lambda wire_type, value: bool(_number(value))
        case Scalar.INT32:
            return lambda wire_type, value: signed(_number(value), 32)
        case Scalar.INT64:
            return lambda wire_type, value: signed(_number(value), 64)
        case Scalar.FLOAT64:
            return _float
        case Scalar.BYTES:
            return lambda wire_type, value: base64.b64encode(_bytes(value)).decode()
        case Scalar.QUANTITY:
            return _quantity
        case Scalar.INT_OR_STRING:
            return _int_or_string
        case Scalar.TIME:
            return lambda wire_type, value: _time(value, micro=False)
        case Scalar.MICRO_TIME:
            return lambda wire_type, value: _time(value, micro=True)
        case Scalar.RAW | Scalar.FIELDS_V1:
            return _embedded_json
        case Scalar.ANY:
            return _ANY_READERS[ref.go_name]


def _bytes(value: WireValue) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType = 0 where a length is wanted")
    return value


def _number(value: WireValue) -> int:
    if isinstance(value, int):
        return value
    raise ProtobufError("proto: wrong wireType = 2 where a number is wanted")


def _text(wire_type: int, value: WireValue) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError:
        raise ProtobufError("a string of the message is not UTF-8") from None


def _float(wire_type: int, value: WireValue) -> float:
    if wire_type != FIXED64:
        raise ProtobufError(f"proto: wrong wireType = {wire_type} for a double")
    number: float = struct.unpack("<d", _bytes(value))[0]
    return number


def _quantity(wire_type: int, value: WireValue) -> str:
    return next((_text(inner, part) for number, inner, part in fields_of(_bytes(value)) if number == 1), "0")


def _int_or_string(wire_type: int, value: WireValue) -> int | str:
    is_text, integer, text = False, 0, ""
    for number, inner, part in fields_of(_bytes(value)):
        if number == 1:
            is_text = _number(part) == 1
        elif number == 2:
            integer = signed(_number(part), 32)
        elif number == 3:
            text = _text(inner, part)
    return text if is_text else integer


def _time(value: WireValue, *, micro: bool) -> str | None:
    """Decode a time; ``None`` for the empty message, which means unset."""
    message = _bytes(value)
    if not len(message):
        return None
    seconds, nanos = 0, 0
    for number, _, part in fields_of(message):
        if number == 1:
            seconds = signed(_number(part), 64)
        elif number == 2:
            nanos = signed(_number(part), 32)
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ProtobufError("a time of the message is out of range") from None
    return format_micro_time(moment) if micro else format_time(moment)


def _embedded_json(wire_type: int, value: WireValue) -> Any:
    raw = next((_bytes(part) for number, _, part in fields_of(_bytes(value)) if number == 1), None)
    return None if raw is None else _json(raw)


def _json(raw: memoryview) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ProtobufError("the JSON that the message holds cannot be read") from None


def _schema(value: WireValue) -> JsonObject:
    """Decode a schema and conform it: conforming the document does not inspect values of any type."""
    schema = _message(_SCHEMA, _bytes(value))
    try:
        conform(object_type(_SCHEMA), schema)
    except ConformError as error:
        raise ProtobufError(str(error)) from None
    return schema


def _schema_or_list(wire_type: int, value: WireValue) -> Any:
    one: Any = None
    many: list[Any] = []
    for number, _, part in fields_of(_bytes(value)):
        if number == 1:
            one = _schema(part)
        elif number == 2:
            many.append(_schema(part))
    return many or one


def _schema_or_bool(wire_type: int, value: WireValue) -> Any:
    allows, schema = False, None
    for number, _, part in fields_of(_bytes(value)):
        if number == 1:
            allows = bool(_number(part))
        elif number == 2:
            schema = _schema(part)
    return allows if schema is None else schema


def _schema_or_strings(wire_type: int, value: WireValue) -> Any:
    schema, strings = None, []
    for number, inner, part in fields_of(_bytes(value)):
        if number == 1:
            schema = _schema(part)
        elif number == 2:
            strings.append(_text(inner, part))
    return strings or schema


_ANY_READERS: dict[str, Read] = {
    "v1.JSON": _embedded_json,
    "v1.JSONSchemaPropsOrArray": _schema_or_list,
    "v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "v1.JSONSchemaPropsOrStringArray": _schema_or_strings,
}
