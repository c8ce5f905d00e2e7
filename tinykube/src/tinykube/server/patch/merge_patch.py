"""JSON Merge Patch (RFC 7386): objects are merged, ``null`` removes, all other values replace."""

from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.patch.documents import copied
from tinykube.server.patch.errors import PatchError, go_type_of


def apply_merge_patch(document: JsonObject, patch: object) -> JsonObject:
    """Return the merged document; neither argument is modified.

    Raises PatchError 400 for a patch that is not an object: it would replace the whole document.
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
        # As on kube-apiserver: a value that replaces an object is taken unchanged.
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
    # Null members mean "remove" even inside lists, where nothing can be removed.
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
