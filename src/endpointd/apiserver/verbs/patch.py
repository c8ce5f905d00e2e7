"""Patch: an update whose new document is made of the old one. Retried where another write comes first."""

from collections.abc import Sequence

from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.registry.definition import Request
from endpointd.apiserver.verbs import metadata as meta
from endpointd.apiserver.verbs.context import Backend, Result, Target
from endpointd.apiserver.verbs.fields import conform
from endpointd.apiserver.verbs.options import WriteOptions
from endpointd.apiserver.verbs.ports import PatchType
from endpointd.apiserver.verbs.update import modify


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

    def make(current: JsonObject) -> JsonObject:
        version = current["metadata"]["resourceVersion"]
        patched = backend.patches.apply(
            patch_type, definition.group, definition.version, definition.kind, current, body
        )
        meta.check_type(backend.registry, definition.kind, definition.api_version, patched)
        group, api_version, kind = definition.group, definition.version, definition.kind
        conform(backend.schema, request, options, group, api_version, kind, patched, problems)
        metadata = meta.own_metadata(patched)
        meta.check_namespace(metadata, target.namespace)
        meta.check_name(metadata, target.name)
        if not metadata.get("resourceVersion"):
            metadata["resourceVersion"] = version  # taken out by the patch: no wish for another one
        return patched

    return await modify(backend, target, request, make)
