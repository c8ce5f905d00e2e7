"""Who owns what an object holds, kept at each write: the wiring between the verbs and the field sets."""

from collections.abc import Callable
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

Own = Callable[[JsonObject | None, JsonObject, Any], Any]
"""Gets what is stored (None: nothing), what is to be, defaulted, and the managedFields that this came with; returns the
managedFields that are to be, None for none."""


def tracked(target: Target) -> Tracked:
    """Return how a target is owned, in the version it is written in."""
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
    """Return who writes."""
    named = options.field_manager if options is not None else ""
    subresource = target.subresource.name if target.subresource is not None else ""
    return Writer(manager_name(named, request.user_agent), subresource, format_time(request.clock.wall()))


class Owner:
    """Says who owns an object after a write that is no apply. One for each write; without options it is a loop of ours."""

    def __init__(self, target: Target, request: Request, options: WriteOptions | None) -> None:
        self._target = target
        self._request = request
        self._options = options
        self._empty: tuple[str, ...] = ()
        self._forgets = False

    def look_at(self, body: JsonObject) -> None:
        """Note what a body says that decoding makes nothing of: an empty list is a client's word, and so is owned."""
        self._empty = tuple(name for name, value in body.items() if value == [])
        self._forgets = metadata_of(body).get("managedFields") == []

    def __call__(self, old: JsonObject | None, new: JsonObject, given: Any) -> Any:
        """Return the managedFields that are to be (:data:`Own`)."""
        definition = self._target.definition
        about = tracked(self._target)
        who = writer(self._target, self._request, self._options)
        given = [] if self._forgets else given
        said: JsonObject = {name: [] for name in self._empty if name in new and new[name] is None}
        if definition.types is not None:
            # As it came, before it is brought into the version that is stored: what that drops is the writer's all the same.
            seen = {**new, "apiVersion": definition.api_version}
        else:
            seen = shown(definition, {**new, **said} if said else new)
        if old is None:
            return after_creation(about, who, seen, given)
        return after_writing(about, who, shown(definition, old), seen, given)


def scale_to_write(target: Target, scale: JsonObject, obj: JsonObject) -> JsonObject:
    """Return a Scale as writes see it: with the managed fields of its object that own the replicas."""
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
    """Set who owns an object after a write through its ``scale`` subresource, which made the Scale ``after`` of ``before``.

    ``is_applied``: it is an apply, and has decided on the managed fields of ``after`` already.
    """
    if is_applied:
        entries = metadata_of(after).get("managedFields")
    else:
        entries = owners_after_writing(writer(target, request, options), before, after)
    owners, version = metadata_of(obj).get("managedFields"), target.definition.api_version
    settle(obj, owners_of_parent(owners, entries, version, _replicas(target)))


def _replicas(target: Target) -> ReplicasPaths:
    types = target.definition.types
    return WORKLOADS if types is None else types.replicas


def as_given(old: JsonObject | None, new: JsonObject, given: Any) -> Any:
    """Keep the managedFields that a document came with: an apply has decided on them already."""
    return given


def settle(obj: JsonObject, entries: Any) -> None:
    """Set the managedFields of an object, or take them out."""
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)
