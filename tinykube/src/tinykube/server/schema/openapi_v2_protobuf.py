"""The OpenAPI v2 document in protobuf, which clients request first: gnostic's ``openapi.v2.Document``. Pure.

The messages mirror the document's keys, so one table per message suffices: key, number, and encoder. Values
that gnostic embeds as YAML (enums, extensions) are written as JSON, which is YAML, too.
"""

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from tinykube.server.schema.protobuf_wire import FIXED64, LENGTH, VARINT

Write = Callable[[int, Any], bytes]

_EXTENSION = "x-"
_YAML = 2
_NAME, _VALUE = 1, 2


class Message(msgspec.Struct, frozen=True):
    """The encoding of a message: number and encoder of each key, and the number for extensions (0: none)."""

    words: Mapping[str, tuple[int, Write]]
    extensions: int = 0


def swagger_protobuf(document: Mapping[str, Any]) -> bytes:
    """Encode a document from :func:`tinykube.server.schema.openapi_v2.swagger` as a message.

    As usual in protobuf, zero, false and the empty string are not written, and unknown keys are omitted.
    Entries of ``properties`` and other maps keep their order.
    """
    return _fields(_DOCUMENT, document)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _framed(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | LENGTH) + _varint(len(payload)) + payload


def _text(number: int, value: str) -> bytes:
    return _framed(number, value.encode()) if value else b""


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(_framed(number, value.encode()) for value in values)


def _flag(number: int, value: bool) -> bytes:
    return _varint(number << 3 | VARINT) + b"\x01" if value else b""


def _whole(number: int, value: int) -> bytes:
    return _varint(number << 3 | VARINT) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | FIXED64) + struct.pack("<d", value) if value else b""


def _any(number: int, value: Any) -> bytes:
    return _framed(number, _framed(_YAML, msgspec.json.encode(value)))


def _anys(number: int, values: list[Any]) -> bytes:
    return b"".join(_any(number, value) for value in values)


def _type(number: int, value: str | list[str]) -> bytes:
    return _framed(number, _texts(1, [value] if isinstance(value, str) else value))


def _fields(message: Message, document: Mapping[str, Any]) -> bytes:
    parts = []
    for word, value in document.items():
        if word in message.words:
            number, write = message.words[word]
            parts.append(write(number, value))
        elif message.extensions and word.startswith(_EXTENSION):
            parts.append(_framed(message.extensions, _text(_NAME, word) + _any(_VALUE, value)))
    return b"".join(parts)


def _message(message: Message, number: int, value: Mapping[str, Any]) -> bytes:
    return _framed(number, _fields(message, value))


def _named(write: Write, number: int, values: Mapping[str, Any]) -> bytes:
    """Write a map: one entry with name and value per key."""
    return b"".join(_framed(number, _text(_NAME, name) + write(_VALUE, one)) for name, one in values.items())


def _within(write: Write, inner: int, number: int, value: Any) -> bytes:
    """Write a value as the only field of a message."""
    return _framed(number, write(inner, value))


def _each(write: Write, number: int, values: list[Any]) -> bytes:
    return b"".join(write(number, value) for value in values)


def _schema(number: int, value: Mapping[str, Any]) -> bytes:
    return _framed(number, _fields(_SCHEMA, value))


def _schema_or_flag(number: int, value: Any) -> bytes:
    """Write a schema (1) or a boolean (2); it is a oneof, so that false is written, too."""
    if isinstance(value, bool):
        return _framed(number, _varint(2 << 3 | VARINT) + _varint(value))
    return _framed(number, _schema(1, value))


def _parameter(number: int, value: Mapping[str, Any]) -> bytes:
    where = value["in"]
    if where == "body":
        inner = _framed(1, _fields(_BODY_PARAMETER, value))
    else:
        place, message = _PLAIN_PARAMETERS[where]
        inner = _framed(2, _framed(place, _fields(message, value)))
    return _framed(number, _framed(1, inner))


_EXTERNAL_DOCS = Message({"description": (1, _text), "url": (2, _text)}, extensions=3)
_SCHEMA = Message(
    {
        "$ref": (1, _text),
        "format": (2, _text),
        "title": (3, _text),
        "description": (4, _text),
        "default": (5, _any),
        "multipleOf": (6, _double),
        "maximum": (7, _double),
        "exclusiveMaximum": (8, _flag),
        "minimum": (9, _double),
        "exclusiveMinimum": (10, _flag),
        "maxLength": (11, _whole),
        "minLength": (12, _whole),
        "pattern": (13, _text),
        "maxItems": (14, _whole),
        "minItems": (15, _whole),
        "uniqueItems": (16, _flag),
        "maxProperties": (17, _whole),
        "minProperties": (18, _whole),
        "required": (19, _texts),
        "enum": (20, _anys),
        "additionalProperties": (21, _schema_or_flag),
        "type": (22, _type),
        "items": (23, partial(_within, _schema, 1)),
        "allOf": (24, partial(_each, _schema)),
        "properties": (25, partial(_within, partial(_named, _schema), 1)),
        "externalDocs": (29, partial(_message, _EXTERNAL_DOCS)),
        "example": (30, _any),
    },
    extensions=31,
)
_BODY_PARAMETER = Message(
    {
        "description": (1, _text),
        "name": (2, _text),
        "in": (3, _text),
        "required": (4, _flag),
        "schema": (5, _schema),
    },
    extensions=6,
)
_PLAIN_PARAMETERS: Mapping[str, tuple[int, Message]] = {
    "query": (
        3,
        Message(
            {
                "required": (1, _flag),
                "in": (2, _text),
                "description": (3, _text),
                "name": (4, _text),
                "type": (6, _text),
                "format": (7, _text),
                "uniqueItems": (20, _flag),
            },
            extensions=23,
        ),
    ),
    "path": (
        4,
        Message(
            {
                "required": (1, _flag),
                "in": (2, _text),
                "description": (3, _text),
                "name": (4, _text),
                "type": (5, _text),
                "format": (6, _text),
                "uniqueItems": (19, _flag),
            },
            extensions=22,
        ),
    ),
}
_RESPONSE = Message(
    {
        "description": (1, _text),
        "schema": (2, partial(_within, _schema, 1)),
    },
    extensions=5,
)
_OPERATION = Message(
    {
        "tags": (1, _texts),
        "summary": (2, _text),
        "description": (3, _text),
        "operationId": (5, _text),
        "produces": (6, _texts),
        "consumes": (7, _texts),
        "parameters": (8, partial(_each, _parameter)),
        "responses": (
            9,
            partial(_within, partial(_named, partial(_within, partial(_message, _RESPONSE), 1)), 1),
        ),
        "schemes": (10, _texts),
        "deprecated": (11, _flag),
    },
    extensions=13,
)
_VERBS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_PATH = Message(
    {
        **{verb: (number, partial(_message, _OPERATION)) for verb, number in _VERBS.items()},
        "parameters": (9, partial(_each, _parameter)),
    },
    extensions=10,
)
_INFO = Message({"title": (1, _text), "version": (2, _text), "description": (3, _text)}, extensions=7)
_DOCUMENT = Message(
    {
        "swagger": (1, _text),
        "info": (2, partial(_message, _INFO)),
        "paths": (8, partial(_within, partial(_named, partial(_message, _PATH)), 2)),
        "definitions": (9, partial(_within, partial(_named, _schema), 1)),
    },
    extensions=16,
)
