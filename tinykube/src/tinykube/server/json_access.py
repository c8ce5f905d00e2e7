"""Access members of validated JSON documents: absent and null members read as empty values."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tinykube.server.objects import JsonObject


def get_object(obj: Mapping[str, Any], name: str) -> JsonObject:
    """Return an object member; a new empty object, which is not inserted, if it is absent."""
    value = obj.get(name)
    return value if isinstance(value, dict) else {}


def get_list(obj: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list member; a new empty list if it is absent."""
    value = obj.get(name)
    return value if isinstance(value, list) else []


def get_str(obj: Mapping[str, Any], name: str) -> str:
    """Return a string member; ``""`` if it is absent."""
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def get_int(obj: Mapping[str, Any], name: str) -> int:
    """Return an integer member; 0 if it is absent."""
    value = obj.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def ensure_object(obj: JsonObject, name: str) -> JsonObject:
    """Return an object member, inserted if it is absent."""
    value = obj.get(name)
    if not isinstance(value, dict):
        value = obj[name] = {}
    return value


def set_if_empty(obj: JsonObject, name: str, value: Any) -> None:
    """Set a member that is absent, null or the empty string; 0 and false are kept."""
    if obj.get(name) in (None, ""):
        obj[name] = value


def set_or_remove(obj: JsonObject, name: str, value: Any) -> None:
    """Set a member, or remove it if the value is None."""
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


def align_list_with_field(holder: JsonObject, one: str, many: str, key: str = "") -> None:
    """Align a legacy field with the list that replaced it: the field equals the first list entry.

    If they differ, the legacy field wins: its writer may not know the list. ``key`` names the string in list
    entries that are objects.
    """
    single, listed = get_str(holder, one), get_list(holder, many)
    first = (get_str(listed[0], key) if key else listed[0]) if listed else ""
    if single and single != first:
        holder[many] = [{key: single}] if key else [single]
    elif first and not single:
        holder[one] = first


def keep_only_status(obj: JsonObject, old: JsonObject) -> None:
    """Reduce an update to the status: everything except status and metadata is restored from the old object.

    The status subresource may change metadata, as on kube-apiserver; strategies that forbid it check
    afterwards.
    """
    status = obj.get("status")
    metadata = obj.get("metadata", {})
    obj.clear()
    obj.update(old)
    obj["metadata"] = metadata
    obj["status"] = status if isinstance(status, dict) else {}


def raw_json(value: Any) -> msgspec.Raw:
    """Return a value that errors print as this JSON, with keys in the given order, as Go prints structs."""
    return msgspec.Raw(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def sorted_map(values: Mapping[str, str] | None) -> msgspec.Raw:
    """Return a map as errors print it: sorted keys, ``null`` if empty."""
    return raw_json(dict(sorted(values.items())) if values else None)


def string_list(values: Sequence[str]) -> msgspec.Raw:
    """Return a list of strings as errors print it: ``null`` if empty."""
    return raw_json(list(values) if values else None)
