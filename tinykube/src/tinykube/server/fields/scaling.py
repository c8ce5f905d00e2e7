"""Ownership of an object's replicas through its ``scale`` subresource.

A Scale has managed fields only during a write: those of the object that own its replicas, converted to
Scale's field names. After the write they are converted back. As on kube-apiserver, ownership by an update
becomes a separate entry of that writer, and entries written through the subresource have no time.
"""

from functools import cache
from typing import Any

from tinykube.server.errors import StatusError
from tinykube.server.fields.kinds import REPLICAS, ReplicasPaths, empty, version_of
from tinykube.server.fields.managed_fields import Entries, Tracked, Writer, after_writing, apply, object_name
from tinykube.server.fields.managers import APPLY, Managed, ManagerId, Owned, decode, encode
from tinykube.server.fields.sets import FieldSet, difference, from_paths, has
from tinykube.server.objects import JsonObject, metadata_of

_GROUP, _VERSION, _KIND = "autoscaling", "v1", "Scale"
_API_VERSION = f"{_GROUP}/{_VERSION}"
_OWNED: FieldSet = from_paths(REPLICAS)
_NO_CONVERSION = f"to proper version: request to convert CR to an invalid group/version: {_API_VERSION}"


@cache
def _tracked() -> Tracked:
    own = version_of(_GROUP, _VERSION, _KIND, "scale", False)
    return Tracked(_GROUP, _VERSION, _KIND, own, empty(_GROUP, _VERSION, _KIND))


def with_owners(scale: JsonObject, entries: Any, paths: ReplicasPaths) -> JsonObject:
    """Return a Scale with the managed fields of its object (``entries``) that own its replicas; neither is modified."""
    seen: Managed = {}
    for who, owned in decode(entries, is_canonical=True).items():
        path = paths.get(owned.api_version)
        if path is not None and has(owned.fields, path):
            seen[who] = Owned(_OWNED, _API_VERSION, owned.time)
    if not seen:
        return scale
    return {**scale, "metadata": {**metadata_of(scale), "managedFields": encode(seen)}}


def owners_after_writing(writer: Writer, old: JsonObject, new: JsonObject) -> Entries | None:
    """Return the managed fields of a Scale after a non-apply write. ``old`` has those before the write.

    If no manager owned the replicas before, none does afterwards.
    """
    return after_writing(_tracked(), writer, old, _published_form(new), None)


def _published_form(scale: JsonObject) -> JsonObject:
    """Return a Scale in its published form, which omits zero replicas."""
    spec = scale.get("spec")
    if not isinstance(spec, dict) or spec.get("replicas", 0) != 0:
        return scale
    return {**scale, "spec": {name: value for name, value in spec.items() if name != "replicas"}}


def applied(
    writer: Writer, old: JsonObject, body: JsonObject, *, force: bool, is_custom: bool
) -> tuple[JsonObject, Entries | None]:
    """Return the result of an apply to the old Scale (which has its managed fields), and its managed fields.

    Raises the errors of :func:`~.managed_fields.apply`. ``is_custom``: a Scale of a custom resource. For
    those, kube-apiserver can only add an owner to unchanged replicas: it fails with 500 if the replicas have
    no owner yet or would change. This server fails with the same messages.
    """
    about = _tracked()
    if is_custom and not metadata_of(old).get("managedFields"):
        raise StatusError(
            500,
            "",
            f"failed to create manager for existing fields: failed to convert live object (/; {_API_VERSION}, "
            f"Kind={_KIND}) {_NO_CONVERSION}",
        )
    made, entries = apply(about, writer, old, body, force=force)
    if is_custom and made != old:
        what = f"failed to convert new object ({object_name(about, body)})"
        raise StatusError(500, "", f"{what} {_NO_CONVERSION}")
    return made, entries


def owners_of_parent(
    entries: Any, scale: Entries | None, api_version: str, paths: ReplicasPaths
) -> Entries | None:
    """Return the managed fields of an object (``entries`` before) after a write to its ``scale`` subresource.

    ``scale``: those of the Scale; ``api_version``: that of the object in the request path. Entries of unknown
    versions are removed.
    """
    seen, before = decode(scale, is_canonical=True), decode(entries, is_canonical=True)
    left: Managed = {}
    for who, owned in before.items():
        if owned.api_version not in paths:
            continue
        path = paths[owned.api_version]
        if path is None or not has(owned.fields, path):
            left[who] = owned
        elif who.operation == APPLY and who in seen:
            left[who] = owned
            del seen[who]
        elif fields := difference(owned.fields, from_paths(path)):
            left[who] = owned.with_fields(fields)
    path = paths.get(api_version)
    for who, owned in seen.items():
        if path is not None and has(owned.fields, REPLICAS):
            left[who] = Owned(from_paths(path), api_version, _time(before, who))
    return encode(left) or None


def _time(before: Managed, who: ManagerId) -> str | None:
    return before[who].time if who in before else None
