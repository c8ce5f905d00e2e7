"""Reading members of JSON documents whose types are settled: what is absent (or null) reads as its empty value."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tinykube.server.objects import JsonObject


def get_object(obj: Mapping[str, Any], name: str) -> JsonObject:
    """Return an object member; a fresh empty document, which is not put in, where there is none."""
    value = obj.get(name)
    return value if isinstance(value, dict) else {}


def get_list(obj: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list member; a fresh empty list where there is none."""
    value = obj.get(name)
    return value if isinstance(value, list) else []


def get_str(obj: Mapping[str, Any], name: str) -> str:
    """Return a text member, ``""`` where there is none."""
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def get_int(obj: Mapping[str, Any], name: str) -> int:
    """Return a whole number, 0 where there is none."""
    value = obj.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def ensure_object(obj: JsonObject, name: str) -> JsonObject:
    """Return an object member, and put an empty one in where there is none."""
    value = obj.get(name)
    if not isinstance(value, dict):
        value = obj[name] = {}
    return value


def set_if_empty(obj: JsonObject, name: str, value: Any) -> None:
    """Set a member that is absent, null or the empty text; 0 and false stand."""
    if obj.get(name) in (None, ""):
        obj[name] = value


def set_or_remove(obj: JsonObject, name: str, value: Any) -> None:
    """Set a member, or take it out where the value is None."""
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


def align_list_with_field(holder: JsonObject, one: str, many: str, key: str = "") -> None:
    """Let a member of old, and the list that has followed it, say the same: the first of the list is the old one.

    Where they differ, the old one is right: who writes it may not know of the list. ``key`` names the text within the
    list's entries, where these are objects.
    """
    single, listed = get_str(holder, one), get_list(holder, many)
    first = (get_str(listed[0], key) if key else listed[0]) if listed else ""
    if single and single != first:
        holder[many] = [{key: single}] if key else [single]
    elif first and not single:
        holder[one] = first


def keep_only_status(obj: JsonObject, old: JsonObject) -> None:
    """Make of an update one of the status alone: all but status and metadata become the old object's again.

    Metadata may be written through that subresource, as it may on a real server; who forbids it does so afterwards.
    """
    status = obj.get("status")
    metadata = obj.get("metadata", {})
    obj.clear()
    obj.update(old)
    obj["metadata"] = metadata
    obj["status"] = status if isinstance(status, dict) else {}


def raw_json(value: Any) -> msgspec.Raw:
    """Return a value that errors print as this JSON, keys in the given order (Go structs print theirs so)."""
    return msgspec.Raw(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def sorted_map(values: Mapping[str, str] | None) -> msgspec.Raw:
    """Return a map as errors print it: keys sorted, ``null`` for none."""
    return raw_json(dict(sorted(values.items())) if values else None)


def string_list(values: Sequence[str]) -> msgspec.Raw:
    """Return a list of texts as errors print it: ``null`` for none."""
    return raw_json(list(values) if values else None)
