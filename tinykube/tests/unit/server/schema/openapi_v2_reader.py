"""Decodes a gnostic ``openapi.v2.Document``, with tables written only for this test."""

import json
import struct
from collections.abc import Mapping
from typing import Any

from tinykube.server.schema.protobuf_wire import fields_of

# message: number -> (key, type). * marks a repeated field. From gnostic's openapi_v2.proto.
MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "Document": {
        1: ("swagger", "text"),
        2: ("info", "Info"),
        8: ("paths", "Paths"),
        9: ("definitions", "Map1"),
    },
    "Info": {1: ("title", "text"), 2: ("version", "text")},
    "PathItem": {
        2: ("get", "Operation"),
        3: ("put", "Operation"),
        4: ("post", "Operation"),
        5: ("delete", "Operation"),
        8: ("patch", "Operation"),
        9: ("parameters", "ParametersItem*"),
    },
    "Operation": {
        1: ("tags", "text*"),
        5: ("operationId", "text"),
        6: ("produces", "text*"),
        7: ("consumes", "text*"),
        8: ("parameters", "ParametersItem*"),
        9: ("responses", "Responses"),
        13: ("x-", "extension"),
    },
    "Response": {1: ("description", "text"), 2: ("schema", "SchemaItem")},
    "BodyParameter": {
        2: ("name", "text"),
        3: ("in", "text"),
        4: ("required", "flag"),
        5: ("schema", "Schema"),
    },
    "QueryParameter": {
        1: ("required", "flag"),
        2: ("in", "text"),
        4: ("name", "text"),
        6: ("type", "text"),
        20: ("uniqueItems", "flag"),
    },
    "PathParameter": {
        1: ("required", "flag"),
        2: ("in", "text"),
        4: ("name", "text"),
        5: ("type", "text"),
        19: ("uniqueItems", "flag"),
    },
    "Schema": {
        1: ("$ref", "text"),
        2: ("format", "text"),
        3: ("title", "text"),
        4: ("description", "text"),
        6: ("multipleOf", "double"),
        7: ("maximum", "double"),
        8: ("exclusiveMaximum", "flag"),
        9: ("minimum", "double"),
        11: ("maxLength", "whole"),
        12: ("minLength", "whole"),
        13: ("pattern", "text"),
        14: ("maxItems", "whole"),
        15: ("minItems", "whole"),
        17: ("maxProperties", "whole"),
        18: ("minProperties", "whole"),
        19: ("required", "text*"),
        20: ("enum", "yaml*"),
        21: ("additionalProperties", "SchemaOrFlag"),
        22: ("type", "Type"),
        23: ("items", "Items"),
        25: ("properties", "Map1"),
        29: ("externalDocs", "ExternalDocs"),
        30: ("example", "yaml"),
        31: ("x-", "extension"),
    },
    "ExternalDocs": {1: ("description", "text"), 2: ("url", "text")},
}
# messages around a single value: its number and type
WRAPPERS = {
    "SchemaItem": (1, "Schema"),
    "Items": (1, "Schema"),
    "Type": (1, "text"),
    "ResponseValue": (1, "Response"),
}
# messages of named values: the number and type of the value
MAPS = {"Map1": (1, "Schema"), "Paths": (2, "PathItem"), "Responses": (1, "ResponseValue")}


def read_document(message: bytes) -> dict[str, Any]:
    """Return the document. Raises KeyError for an unknown number."""
    read: dict[str, Any] = _read("Document", memoryview(message))
    return read


def _read(name: str, value: Any) -> Any:
    match name:
        case "text":
            return bytes(value).decode()
        case "flag":
            return bool(value)
        case "whole":
            return value
        case "double":
            return struct.unpack("<d", value)[0]
        case "yaml":
            ((number, _, text),) = fields_of(value)
            assert number == 2
            return json.loads(bytes(text))
        case "ParametersItem":
            return _parameter(value)
        case "SchemaOrFlag":
            ((number, _, inner),) = fields_of(value)
            return _read({1: "Schema", 2: "flag"}[number], inner)
    if name in WRAPPERS:
        expected, inner_name = WRAPPERS[name]
        ((number, _, inner),) = fields_of(value)
        assert number == expected
        return _read(inner_name, inner)
    if name in MAPS:
        expected, inner_name = MAPS[name]
        named = []
        for number, _, entry in fields_of(value):
            assert number == expected
            named.append(_named(entry, inner_name))
        assert len(dict(named)) == len(named)
        return dict(named)
    return _message(name, value)


def _message(name: str, value: memoryview) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, _, inner in fields_of(value):
        word, what = MESSAGES[name][number]
        if what == "extension":
            extension, told = _named(inner, "yaml")
            assert extension.startswith("x-")
            made[extension] = told
        elif what.endswith("*"):
            made.setdefault(word, []).append(_read(what[:-1], inner))
        else:
            assert word not in made
            made[word] = _read(what, inner)
    return made


def _named(entry: Any, what: str) -> tuple[str, Any]:
    parts = {number: inner for number, _, inner in fields_of(entry)}
    assert parts.keys() == {1, 2}
    return bytes(parts[1]).decode(), _read(what, parts[2])


def _parameter(value: memoryview) -> Any:
    ((number, _, parameter),) = fields_of(value)
    assert number == 1  # not a reference
    ((number, _, inner),) = fields_of(parameter)  # type: ignore[arg-type]
    if number == 1:
        return _read("BodyParameter", inner)
    assert number == 2
    ((number, _, inner),) = fields_of(inner)  # type: ignore[arg-type]
    return _read({3: "QueryParameter", 4: "PathParameter"}[number], inner)
