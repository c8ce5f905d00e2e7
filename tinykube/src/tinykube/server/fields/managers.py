"""The entries of ``metadata.managedFields``: manager, operation, time and fields."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tinykube.server.fields.elements import ElementError, canonical_set, go_json
from tinykube.server.fields.sets import FieldSet, union
from tinykube.server.objects import JsonObject

APPLY = "Apply"
UPDATE = "Update"
MOST_UPDATE_ENTRIES = 10
_ANCIENT = "ancient-changes"
_FIELDS_TYPE = "FieldsV1"


class ManagerId(NamedTuple):
    """The identity of an entry. For an apply, it is independent of the version."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class Owned(msgspec.Struct, frozen=True):
    """The fields of one manager, in terms of one version. ``time``: of the last change, as in JSON."""

    fields: FieldSet
    api_version: str
    time: str | None = None

    def with_fields(self, fields: FieldSet) -> "Owned":
        """Return a copy with other fields."""
        return self if fields is self.fields else Owned(fields, self.api_version, self.time)


Managed = dict[ManagerId, Owned]
"""All entries of an object."""


class ManagedFieldsError(ValueError):
    """Invalid entries; the text names the problem."""


def manager_id(manager: str, operation: str, api_version: str, subresource: str) -> ManagerId:
    """Return the identity of a write's entry."""
    return ManagerId(manager or "unknown", operation, "" if operation == APPLY else api_version, subresource)


def decode(entries: Any, *, is_canonical: bool = False) -> Managed:
    """Decode entries; ``is_canonical`` if this server has encoded them. Raises ManagedFieldsError."""
    managed: Managed = {}
    for index, entry in enumerate(entries or ()):
        operation, api_version = entry.get("operation") or "", entry.get("apiVersion") or ""
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        if not api_version:
            raise ManagedFieldsError("apiVersion must not be empty")
        if entry.get("fieldsType") != _FIELDS_TYPE:
            raise ManagedFieldsError(f"fieldsType of entry {index} must be {_FIELDS_TYPE}")
        fields = entry.get("fieldsV1") or {}
        if not is_canonical:
            try:
                fields = canonical_set(fields)
            except ElementError as error:
                raise ManagedFieldsError(f"fieldsV1 of entry {index}: {error}") from None
        # Unlike for writes, an empty manager name is kept.
        known_version = "" if operation == APPLY else api_version
        who = ManagerId(entry.get("manager") or "", operation, known_version, entry.get("subresource") or "")
        managed[who] = Owned(fields, api_version, entry.get("time"))
    return managed


def encode(managed: Mapping[ManagerId, Owned]) -> list[JsonObject]:
    """Encode entries in the published order: applies first, then by time, name, version and subresource."""
    ordered = sorted(
        managed.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time or "",
            pair[0].manager,
            pair[1].api_version,
            pair[0].subresource,
        ),
    )
    return [_entry(who, owned) for who, owned in ordered]


def _entry(who: ManagerId, owned: Owned) -> JsonObject:
    entry: JsonObject = {"manager": who.manager} if who.manager else {}
    entry["operation"] = who.operation
    entry["apiVersion"] = owned.api_version
    if owned.time is not None:
        entry["time"] = owned.time
    entry["fieldsType"] = _FIELDS_TYPE
    entry["fieldsV1"] = owned.fields
    if who.subresource:
        entry["subresource"] = who.subresource
    return entry


def is_reset(entries: Any) -> bool:
    """Return whether a client has requested to reset ownership: with an empty list, or one empty entry."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def capped(managed: Managed) -> Managed:
    """Limit update entries to ten: the oldest ones of each version are merged into ``ancient-changes``."""
    updates = [who for who in managed if who.operation == UPDATE]
    if len(updates) <= MOST_UPDATE_ENTRIES:
        return managed
    updates.sort(key=lambda who: (managed[who].time or "", identity_order(who)))
    managed, count = dict(managed), len(updates)
    firsts: dict[str, ManagerId] = {}
    for who in updates:
        if count <= MOST_UPDATE_ENTRIES:
            break
        owned = managed[who]
        bucket = ManagerId(_ANCIENT, UPDATE, owned.api_version, "")
        first = firsts.setdefault(owned.api_version, who)
        if first is who:
            continue
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        joined = union(owned.fields, managed[bucket].fields)
        managed[bucket] = Owned(joined, owned.api_version, owned.time)
        if who != bucket:
            del managed[who]
        count -= 1
    return managed


def identity_order(who: ManagerId) -> str:
    """Return the sort key of managers: their identity as JSON, in which entries with a subresource sort first."""
    parts = [f'"operation":{go_json(who.operation)}']
    if who.manager:
        parts.insert(0, f'"manager":{go_json(who.manager)}')
    if who.api_version:
        parts.append(f'"apiVersion":{go_json(who.api_version)}')
    if who.subresource:
        parts.append(f'"subresource":{go_json(who.subresource)}')
    return "{" + ",".join(parts) + "}"


def same_but_times(one: list[JsonObject], other: list[JsonObject]) -> bool:
    """Return whether entries differ only in their times."""
    return len(one) == len(other) and all(
        {**mine, "time": None} == {**theirs, "time": None} for mine, theirs in zip(one, other, strict=True)
    )
