"""Object metadata in writes: set by the server, preserved, or rejected if changed."""

import random
from collections.abc import Hashable

from aiokube.api.times import format_time
from tinykube.server.errors import FieldError, StatusError, bad_request, forbidden_field, invalid_value
from tinykube.server.objects import JsonObject
from tinykube.server.patch.documents import identity
from tinykube.server.registry.definition import Registry, Request

_SET_BY_THE_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def new_uid(rng: random.Random) -> str:
    """Return a random UUID (version 4)."""
    bits = f"{rng.getrandbits(128):032x}"
    variant = "89ab"[int(bits[16], 16) & 3]
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{variant}{bits[17:20]}-{bits[20:]}"


def ensure_metadata(obj: JsonObject) -> JsonObject:
    """Return the metadata of a document, created if absent. Raises 400 if it is not an object."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("the metadata of the object is not an object")
    return metadata


def check_type(registry: Registry, kind: str, api_version: str, obj: JsonObject) -> None:
    """Set missing kind and apiVersion; reject those of another type (400)."""
    given_kind, given_version = obj.get("kind") or kind, obj.get("apiVersion") or api_version
    if not isinstance(given_kind, str) or not isinstance(given_version, str):
        raise bad_request("couldn't get version/kind; json parse error: kind and apiVersion must be strings")
    if given_kind != kind or given_version != api_version:
        raise _other_type(registry, kind, api_version, given_kind, given_version)
    obj["kind"], obj["apiVersion"] = kind, api_version


def _other_type(
    registry: Registry, kind: str, api_version: str, given_kind: str, given_version: str
) -> StatusError:
    version = given_version.rpartition("/")[2]
    if not any(one.kind == given_kind and one.api_version == given_version for one in registry.all()):
        why = (
            f'no kind "{given_kind}" is registered for version "{given_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    elif given_kind == kind:
        return bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        )
    else:
        package = api_version.partition("/")[0].partition(".")[0] if "/" in api_version else "core"
        why = f"converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion"
    return bad_request(f'{given_kind} in version "{version}" cannot be handled as a {kind}: {why}')


def check_namespace(metadata: JsonObject, namespace: str) -> None:
    """Set the namespace of the request; reject a body with another one (400)."""
    given = metadata.get("namespace") or ""
    if given and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
            if namespace
            else "namespace may not be set on a cluster-scoped resource"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_name(metadata: JsonObject, name: str) -> None:
    """Set the name of the request; reject a body with another one (400)."""
    given = metadata.get("name") or ""
    if given and given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
    metadata["name"] = name


def check_names_object(metadata: JsonObject, name: str) -> None:
    """Reject a body without a name, or with another name than the request's (400)."""
    if not metadata.get("name"):
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    check_name(metadata, name)


def initialize(request: Request, obj: JsonObject) -> JsonObject:
    """Initialise the metadata of a new object, overwriting all fields that only the server sets."""
    metadata = ensure_metadata(obj)
    if metadata.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    for name in _SET_BY_THE_SERVER:
        metadata.pop(name, None)
    metadata.pop("resourceVersion", None)
    metadata["uid"] = new_uid(request.rng)
    metadata["creationTimestamp"] = format_time(request.clock.wall())
    tidy(request, metadata)
    return metadata


def tidy(request: Request, metadata: JsonObject) -> None:
    """Remove empty fields, and duplicate owner references (with a warning)."""
    for name in ("labels", "annotations", "ownerReferences", "finalizers", "generateName", "selfLink"):
        if name in metadata and not metadata[name]:
            del metadata[name]
    references = metadata.get("ownerReferences")
    if isinstance(references, list) and len(references) > 1:
        seen: set[Hashable] = set()
        unique: list[JsonObject] = []
        twice: dict[str, None] = {}
        for reference in references:
            known_by = identity(reference)
            if known_by not in seen:
                seen.add(known_by)
                unique.append(reference)
            else:
                twice[str(reference.get("uid", ""))] = None
        if len(unique) < len(references):
            metadata["ownerReferences"] = unique
            request.warn(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
                "and may reject such requests as early as 1.24; please fix your requests; "
                f"duplicate UID(s) observed: {', '.join(twice)}"
            )


def carry_over(request: Request, metadata: JsonObject, old: JsonObject) -> None:
    """Restore the fields that only the server may set, and those that the client omitted."""
    for name in ("generation", "creationTimestamp", "managedFields"):
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)
    if not metadata.get("uid"):
        metadata["uid"] = old.get("uid", "")
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old and metadata.get("deletionGracePeriodSeconds") is None:
        metadata["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) is None:
            metadata.pop(name, None)
    tidy(request, metadata)


def update_errors(metadata: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return the errors of a metadata update."""
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        extra = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(f'"{name}"' for name in extra)
            errors.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{listed}}}",
                )
            )
    errors.extend(
        invalid_value(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in _IMMUTABLE
        if metadata.get(name) != old.get(name)
    )
    return errors
