"""JSON Merge Patch (RFC 7386): objects are merged, ``null`` takes out, everything else takes the place of what was."""

from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.patch.documents import copied
from tinykube.server.patch.errors import PatchError, go_type_of


def apply_merge_patch(document: JsonObject, patch: object) -> JsonObject:
    """Return the merged document; neither argument is changed.

    Raises PatchError 400 for a patch that is no object: it would take the place of the document as a whole.
    """
    if patch is None:
        raise PatchError(400, "Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise PatchError(
            400,
            f"error decoding patch: json: cannot unmarshal {go_type_of(patch)} into Go value of type "
            "map[string]interface {}",
        )
    merged: JsonObject = _merge(document, patch)
    return merged


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        # As on a real server: what takes the place of an object is taken as it is.
        return copied(patch) if isinstance(target, dict) else _without_nulls(patch)
    merged = (
        {}
        if not isinstance(target, dict)
        else {key: copied(value) for key, value in target.items() if key not in patch}
    )
    for key, value in patch.items():
        if value is not None:
            merged[key] = _merge(target.get(key) if isinstance(target, dict) else None, value)
    return merged


def _without_nulls(value: Any) -> Any:
    # Members that are null say "take out" even inside a list, where there is nothing to take out of.
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
