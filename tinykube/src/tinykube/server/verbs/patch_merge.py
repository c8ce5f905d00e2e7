"""Apply a patch to the current object, before it is conformed."""

import msgspec

from tinykube.server.errors import StatusError, invalid_value
from tinykube.server.objects import JsonObject
from tinykube.server.patch.service import Patches, PatchType
from tinykube.server.registry.definition import Definition

_PREFIX = " cannot be handled as a "


def merged(
    patches: Patches, patch_type: PatchType, definition: Definition, current: JsonObject, body: object
) -> JsonObject:
    """Return the patched document. Members that the patch does not mention are shared with ``current``, not copied.

    A merge only processes the members that it mentions: the status of a pod is a tenth of it.
    """
    group, version, kind = definition.group, definition.version, definition.kind
    if patch_type == "json" or not isinstance(body, dict) or any(name.startswith("$") for name in body):
        return patches.apply(patch_type, group, version, kind, current, body)
    named = {name: value for name, value in current.items() if name in body}
    merged = patches.apply(patch_type, group, version, kind, named, body)
    if patch_type == "merge":
        return {**{name: value for name, value in current.items() if name not in body}, **merged}
    in_place = {
        name: merged.get(name, value) for name, value in current.items() if name in merged or name not in body
    }
    return {**in_place, **merged}


def not_an_object(patched: JsonObject, error: StatusError) -> StatusError:
    """422: the patched document is not an object of the kind."""
    why = error.message.partition(_PREFIX)[2].partition(": ")[2] or error.message
    cause = invalid_value("patch", msgspec.json.encode(patched).decode(), why)
    details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]}
    return StatusError(422, "Invalid", f' "" is invalid: {cause}', details=details)
