"""The interface for the verbs: ``managedFields`` after a write, and server-side apply."""

import contextlib
import json
from functools import lru_cache
from typing import Any

import msgspec

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.fields.compare import compare
from tinykube.server.fields.conflicts import conflict_error
from tinykube.server.fields.elements import go_json
from tinykube.server.fields.managers import (
    APPLY,
    UPDATE,
    Managed,
    ManagedFieldsError,
    ManagerId,
    capped,
    decode,
    encode,
    is_reset,
    manager_id,
)
from tinykube.server.fields.nodes import EntryError, field_set
from tinykube.server.fields.sets import FieldSet, difference, intersection
from tinykube.server.fields.updater import (
    ConflictsError,
    NotTypedError,
    Others,
    Version,
    after_apply,
    after_update,
    owned_by_types,
)
from tinykube.server.fields.validate import problem_text, problems
from tinykube.server.objects import JsonObject, metadata_of

Entries = list[JsonObject]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY = "before-first-apply"
_KUBECTL = "kubectl"
_LARGEST_MANAGER_BYTES = 128
_LARGEST_ANNOTATIONS_BYTES = 256 * 1024


class Writer(msgspec.Struct, frozen=True):
    """The writer: manager name, subresource (``""``: the main resource) and timestamp."""

    manager: str
    subresource: str
    now: str


class Tracked(msgspec.Struct, frozen=True):
    """One kind as written by one subresource. ``empty``: an object of the kind before any write.

    ``others``: the kind's other versions, if entries of those are kept (custom resources).
    """

    group: str
    version: str
    kind: str
    own: Version
    empty: JsonObject
    others: Others | None = None


@lru_cache(256)
def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the manager name of a write: the field manager, else the User-Agent up to the first ``/``."""
    if field_manager:
        return field_manager
    name = ""
    for letter in user_agent.partition("/")[0]:
        if not letter.isprintable():
            continue
        if len((name + letter).encode()) > _LARGEST_MANAGER_BYTES:
            break
        name += letter
    return name


def after_creation(tracked: Tracked, writer: Writer, new: JsonObject, given: Any) -> Entries | None:
    """Return the managedFields of a new object; ``given`` are those of the body."""
    managed: Managed = {} if is_reset(given) else _read(given) or {}
    if managed and tracked.others is None:
        managed = owned_by_types(tracked.own, managed)
    return _entries(_updated(tracked, writer, managed, tracked.empty, new))


def after_writing(
    tracked: Tracked, writer: Writer, old: JsonObject, new: JsonObject, given: Any
) -> Entries | None:
    """Return the managedFields after an update or non-apply patch; the identical list if nothing has changed.

    ``given``: those of the body, which clients may edit. Invalid or empty ones keep the old entries; a single
    empty entry removes all, and ownership is not tracked until the next apply. Subresources cannot edit them.
    """
    before = metadata_of(old).get("managedFields")
    if given is not None and given != before and not writer.subresource:
        if is_reset(given):
            return None
        edited = _read(given)
        if edited:
            if tracked.others is None:
                edited = owned_by_types(tracked.own, edited)
            return _entries(_updated(tracked, writer, edited, old, new))
    managed = decode(before, is_canonical=True)
    if not managed:
        return None
    after = _updated(tracked, writer, managed, old, new)
    # Writes to the scale subresource may have listed one manager twice; the later entry counts.
    is_unchanged = after is managed and isinstance(before, list) and len(before) == len(managed)
    return before if is_unchanged else _entries(after)


def _read(given: Any) -> Managed | None:
    with contextlib.suppress(ManagedFieldsError):
        return decode(given)
    return None


def _updated(tracked: Tracked, writer: Writer, managed: Managed, old: JsonObject, new: JsonObject) -> Managed:
    """Return ownership after a non-apply write; empty, as on kube-apiserver, if it cannot be computed.

    This happens if an object does not fit its types (for example, a set of objects), or an entry's version no
    longer exists.
    """
    with contextlib.suppress(EntryError, NotTypedError):
        return _known_updated(tracked, writer, managed, old, new)
    return {}


def _known_updated(
    tracked: Tracked, writer: Writer, managed: Managed, old: JsonObject, new: JsonObject
) -> Managed:
    own = tracked.own
    if tracked.others is not None:
        # Built-in types were checked by conforming; a custom schema may allow values that ownership does not.
        _check_typed(tracked, "new", new)
        _check_typed(tracked, "live", old)
    who = manager_id(writer.manager, UPDATE, own.api_version, writer.subresource)
    return capped(after_update(own, managed, who, old, new, writer.now, tracked.others))


def _check_typed(tracked: Tracked, which: str, document: JsonObject) -> None:
    found = problems(tracked.own.node, document, twice=True)
    if found:
        raise NotTypedError(
            f"failed to convert {which} object ({object_name(tracked, document)}) to smd typed: {problem_text(found)}"
        )


def _entries(managed: Managed) -> Entries | None:
    return encode(managed) if managed else None


def apply(
    tracked: Tracked,
    writer: Writer,
    live: JsonObject | None,
    body: JsonObject,
    *,
    force: bool,
) -> tuple[JsonObject, Entries | None]:
    """Return the result of an apply to an object (None: it does not exist), and its managedFields.

    The object is not conformed yet, and shares subtrees with the arguments, which are not modified. Raises
    StatusErrors: 400 for a body of another type or with managedFields, 409 for conflicts with one cause per
    field, 500 for a body that does not fit its type (as kube-apiserver responds).
    """
    _check_kind(tracked, body)
    try:
        made, after = _applied(tracked, writer, live, body, force=force)
    except NotTypedError as error:
        raise StatusError(500, "", str(error)) from None
    if writer.manager == _KUBECTL:
        _renew_last_applied(made, body)
    return made, _entries(after)


def _applied(
    tracked: Tracked, writer: Writer, live: JsonObject | None, body: JsonObject, *, force: bool
) -> tuple[JsonObject, Managed]:
    own, others = tracked.own, tracked.others
    old = tracked.empty if live is None else live
    managed = decode(metadata_of(old).get("managedFields"), is_canonical=True)
    if not managed and live is not None:
        managed = _before_first_apply(tracked, writer, live)
    _check_body(tracked, body)
    if others is not None and (found := problems(own.node, old, twice=True)):
        raise NotTypedError(
            f"failed to create typed live object ({object_name(tracked, old)}): {problem_text(found)}"
        )
    who = manager_id(writer.manager, APPLY, own.api_version, writer.subresource)
    try:
        new, after = after_apply(own, managed, who, old, body, writer.now, force=force, others=others)
    except ConflictsError as error:
        left = _not_last_applied(tracked, writer, old, error.conflicts)
        if left:
            raise conflict_error(left) from None
        new, after = after_apply(own, managed, who, old, body, writer.now, force=True, others=others)
    return dict(old if new is None else new), after


def _before_first_apply(tracked: Tracked, writer: Writer, live: JsonObject) -> Managed:
    """Return the ownership of an untracked object before its first apply: one manager owns everything."""
    first = Writer(_BEFORE_FIRST_APPLY, writer.subresource, writer.now)
    try:
        return _known_updated(tracked, first, {}, tracked.empty, live)
    except (EntryError, NotTypedError) as error:
        raise NotTypedError(f"failed to create manager for existing fields: {error}") from None


def _check_kind(tracked: Tracked, body: JsonObject) -> None:
    given_version, given_kind = body.get("apiVersion") or "", body.get("kind") or ""
    api_version = tracked.own.api_version
    if given_kind != tracked.kind or given_version != api_version:
        group, _, version = str(given_version).rpartition("/")
        if "/" in group:
            group, version, given_kind = "", "", ""  # not a version: errors show it as empty
        raise bad_request(f"invalid object type: {group}/{version}, Kind={given_kind}")


def _check_body(tracked: Tracked, body: JsonObject) -> None:
    if isinstance(metadata_of(body).get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    found = problems(tracked.own.node, body)
    if found:
        what = f"failed to create typed patch object ({object_name(tracked, body)})"
        raise StatusError(500, "", f"{what}: {problem_text(found)}")


def not_converted(tracked: Tracked, document: JsonObject, why: str) -> StatusError:
    """500: the result of an apply cannot be decoded as its kind; worded as by kube-apiserver."""
    kind = f"{tracked.group}/{tracked.version}, Kind={tracked.kind}"
    return StatusError(
        500,
        "",
        f"failed to convert new object ({object_name(tracked, document)}) to proper version: "
        f"unable to convert unstructured object to {kind}: {why}",
    )


def object_name(tracked: Tracked, document: JsonObject) -> str:
    """Format the name of an object for errors."""
    metadata = metadata_of(document)
    where = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return f"{where}; {tracked.group}/{tracked.version}, Kind={tracked.kind}"


def _not_last_applied(
    tracked: Tracked, writer: Writer, live: JsonObject, conflicts: Any
) -> dict[ManagerId, FieldSet]:
    """Return the remaining conflicts. kubectl may take over unchanged fields from its client-side apply."""
    allowed = _last_applied_set(tracked, live) if writer.manager == _KUBECTL else None
    if allowed is None:
        return dict(conflicts)
    left = {who: difference(fields, intersection(fields, allowed)) for who, fields in conflicts.items()}
    return {who: fields for who, fields in left.items() if fields}


def _last_applied_set(tracked: Tracked, live: JsonObject) -> FieldSet | None:
    text = (metadata_of(live).get("annotations") or {}).get(LAST_APPLIED)
    own = tracked.own
    try:
        last = json.loads(text) if text else None
        if not isinstance(last, dict) or last.get("apiVersion") != own.api_version:
            return None
        if problems(own.node, last) or problems(own.node, live):
            return None
        return compare(own.node, last, live).taken_from(field_set(own.node, last))
    except (ValueError, RecursionError):
        return None


def _renew_last_applied(made: JsonObject, body: JsonObject) -> None:
    """Update the last-applied annotation of client-side apply, if the object has it."""
    metadata = dict(metadata_of(made))
    annotations = dict(metadata.get("annotations") or {})
    if not annotations.get(LAST_APPLIED):
        return
    mine = dict(metadata_of(body))
    if "annotations" in mine:
        given = mine["annotations"] or {}
        mine["annotations"] = {name: text for name, text in given.items() if name != LAST_APPLIED}
    annotations[LAST_APPLIED] = go_json({**body, "metadata": mine}) + "\n"
    size = sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())
    if size > _LARGEST_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED]
    metadata["annotations"] = annotations
    made["metadata"] = metadata
