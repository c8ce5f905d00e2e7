"""Patch: an update whose new document is made of the old one. Retried where another write comes first."""

from collections.abc import Sequence

import msgspec

from tinykube.server.errors import StatusError, invalid_value
from tinykube.server.objects import JsonObject
from tinykube.server.patch.service import Patches, PatchType
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.verbs import metadata as meta
from tinykube.server.verbs.context import Backend, Result, Target
from tinykube.server.verbs.field_manager import Owner
from tinykube.server.verbs.fields import conform
from tinykube.server.verbs.options import WriteOptions
from tinykube.server.verbs.update import modify

_PREFIX = " cannot be handled as a "


async def patch(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    patch_type: PatchType,
    body: object,
    problems: Sequence[str] = (),
) -> Result:
    """Apply a patch to an object, or to its status; code 200.

    A patch that names a resource version is refused with 409 where it is not the current one; any other is applied
    again to what has come between. Raises 400, 413 and 422 as the patch's own rules say.
    """
    definition = target.definition
    own = Owner(target, request, options)

    def make(current: JsonObject) -> JsonObject:
        version = current["metadata"]["resourceVersion"]
        patched = _patched(backend.patches, patch_type, definition, current, body)
        own.look_at(patched)
        try:
            meta.check_type(backend.registry, definition.kind, definition.api_version, patched)
            group, api_version, kind = definition.group, definition.version, definition.kind
            conform(backend.schema, request, options, group, api_version, kind, patched, problems)
        except StatusError as error:
            # Done once more: what came out the first time is half conformed by now.
            again = _patched(backend.patches, patch_type, definition, current, body)
            raise _spoilt(msgspec.json.encode(again).decode(), error) from None
        metadata = meta.ensure_metadata(patched)
        meta.check_namespace(metadata, target.namespace)
        meta.check_names_object(metadata, target.name)
        if not metadata.get("resourceVersion"):
            metadata["resourceVersion"] = version  # taken out by the patch: no wish for another one
        return patched

    return await modify(backend, target, request, make, own)


def _patched(
    patches: Patches, patch_type: PatchType, definition: Definition, current: JsonObject, body: object
) -> JsonObject:
    """Return the patched document; what the patch does not name is taken over from ``current``, not copied.

    Of a merge only the members that it names are merged: the status of a pod is a tenth of it.
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


def _spoilt(patched: str, error: StatusError) -> StatusError:
    """422: the patch was applied, but what came out is no object of the kind."""
    why = error.message.partition(_PREFIX)[2].partition(": ")[2] or error.message
    cause = invalid_value("patch", patched, why)
    details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]}
    return StatusError(422, "Invalid", f' "" is invalid: {cause}', details=details)
