"""Managed fields: which manager owns which fields of an object, updated by each write."""

from typing import Any

from aiokube.api.times import format_time
from tinykube.server.fields.kinds import WORKLOADS, ReplicasPaths, empty, version_of
from tinykube.server.fields.managed_fields import (
    Tracked,
    Writer,
    after_creation,
    after_writing,
    manager_name,
)
from tinykube.server.fields.scaling import owners_after_writing, owners_of_parent, with_owners
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Request
from tinykube.server.verbs.context import Target, shown
from tinykube.server.verbs.options import WriteOptions


def tracked(target: Target) -> Tracked:
    """Return the field types and the version in which a target's fields are tracked."""
    one = target.definition
    subresource = target.subresource.name if target.subresource is not None else ""
    if one.types is not None:
        api_version = one.api_version
        own, others = one.types.own(subresource, api_version), one.types.others(subresource, api_version)
        return Tracked(one.group, one.version, one.kind, own, {}, others)
    has_status = any(each.name == "status" for each in one.subresources)
    own = version_of(one.group, one.version, one.kind, subresource, has_status)
    return Tracked(one.group, one.version, one.kind, own, empty(one.group, one.version, one.kind))


def writer(target: Target, request: Request, options: WriteOptions | None) -> Writer:
    """Return the manager of a write."""
    named = options.field_manager if options is not None else ""
    subresource = target.subresource.name if target.subresource is not None else ""
    return Writer(manager_name(named, request.user_agent), subresource, format_time(request.clock.wall()))


class FieldManager:
    """Compute the managed fields of one object for one write. Without options, the server itself is the writer."""

    def __init__(self, target: Target, request: Request, options: WriteOptions | None) -> None:
        self._target = target
        self._request = request
        self._options = options
        self._empty_lists: tuple[str, ...] = ()
        self._resets = False

    def note_sent(self, body: JsonObject) -> None:
        """Record what conforming removes from a body: empty lists are owned, and empty managedFields reset ownership."""
        self._empty_lists = tuple(name for name, value in body.items() if value == [])
        self._resets = metadata_of(body).get("managedFields") == []

    def update(self, old: JsonObject | None, new: JsonObject, sent: Any) -> Any:
        """Return the managedFields after a create, update or patch, or None.

        ``old``: the stored object, None for a create. ``new``: the new object with its defaults. ``sent``:
        the managedFields of the body.
        """
        definition = self._target.definition
        about = tracked(self._target)
        who = writer(self._target, self._request, self._options)
        sent = [] if self._resets else sent
        empty: JsonObject = {name: [] for name in self._empty_lists if name in new and new[name] is None}
        if definition.types is not None:
            # In the version that was sent: the writer also owns the fields that conversion to the stored
            # version drops.
            seen = {**new, "apiVersion": definition.api_version}
        else:
            seen = shown(definition, {**new, **empty} if empty else new)
        if old is None:
            return after_creation(about, who, seen, sent)
        return after_writing(about, who, shown(definition, old), seen, sent)


def scale_to_write(target: Target, scale: JsonObject, obj: JsonObject) -> JsonObject:
    """Return a Scale for a write: with the managed fields of its object that own the replicas."""
    return with_owners(scale, metadata_of(obj).get("managedFields"), _replicas(target))


def own_scaled(
    target: Target,
    request: Request,
    options: WriteOptions | None,
    obj: JsonObject,
    before: JsonObject,
    after: JsonObject,
    *,
    is_applied: bool,
) -> None:
    """Set the managed fields of an object after a write to its ``scale`` subresource changed ``before`` to ``after``.

    ``is_applied``: the write is an apply, and ``after`` has its managed fields already.
    """
    if is_applied:
        entries = metadata_of(after).get("managedFields")
    else:
        entries = owners_after_writing(writer(target, request, options), before, after)
    owners, version = metadata_of(obj).get("managedFields"), target.definition.api_version
    set_managed_fields(obj, owners_of_parent(owners, entries, version, _replicas(target)))


def _replicas(target: Target) -> ReplicasPaths:
    types = target.definition.types
    return WORKLOADS if types is None else types.replicas


def set_managed_fields(obj: JsonObject, entries: Any) -> None:
    """Set the managedFields of an object, or remove them if there are no entries."""
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)
