"""Who owns the replicas of an object, seen through its ``scale`` subresource, and what a write through that subresource makes of it.

A Scale has managed fields while it is written and at no other time: those of the object that own its replicas, told in the
Scale's own words. What the write makes of them is told in the object's words again. As on a real server what was owned by
an update goes into an entry of its own by that, and none that comes through the subresource bears a time.
"""

from functools import cache
from typing import Any

from tinykube.server.errors import StatusError
from tinykube.server.fields.kinds import REPLICAS, ReplicasPaths, empty, version_of
from tinykube.server.fields.managed_fields import Entries, Tracked, Writer, after_writing, apply, told
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
    """Return a Scale with the managed fields of its object (``entries``) that own its replicas; neither is changed."""
    seen: Managed = {}
    for who, owned in decode(entries, is_canonical=True).items():
        path = paths.get(owned.api_version)
        if path is not None and has(owned.fields, path):
            seen[who] = Owned(_OWNED, _API_VERSION, owned.time)
    if not seen:
        return scale
    return {**scale, "metadata": {**metadata_of(scale), "managedFields": encode(seen)}}


def owners_after_writing(writer: Writer, old: JsonObject, new: JsonObject) -> Entries | None:
    """Return the managed fields of a Scale after a write that is no apply. ``old`` bears those from before.

    Where nobody has owned the replicas, nobody does afterwards.
    """
    return after_writing(_tracked(), writer, old, _as_told(new), None)


def _as_told(scale: JsonObject) -> JsonObject:
    """Return a Scale as it is told: no replicas are left out."""
    spec = scale.get("spec")
    if not isinstance(spec, dict) or spec.get("replicas", 0) != 0:
        return scale
    return {**scale, "spec": {name: value for name, value in spec.items() if name != "replicas"}}


def applied(
    writer: Writer, old: JsonObject, body: JsonObject, *, force: bool, is_custom: bool
) -> tuple[JsonObject, Entries | None]:
    """Return the Scale that an apply makes of the old one (which bears its owners), and its managed fields.

    Raises what :func:`~.tracking.apply` raises. ``is_custom``: the Scale is one of a custom resource. There a real server can
    do no more than let a manager own the replicas that are there already: it fails (500) where nobody owns them yet, and
    where they would change. So does this one, in the same words.
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
        what = f"failed to convert new object ({told(about, body)})"
        raise StatusError(500, "", f"{what} {_NO_CONVERSION}")
    return made, entries


def owners_of_parent(
    entries: Any, scale: Entries | None, api_version: str, paths: ReplicasPaths
) -> Entries | None:
    """Return the managed fields of an object (``entries`` before) after a write through its ``scale`` subresource.

    ``scale``: those of the Scale; ``api_version``: of the object, as the subresource's path names it. Entries of versions that the
    kind does not have go.
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
