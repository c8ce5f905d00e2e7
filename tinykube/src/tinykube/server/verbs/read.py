"""Get and list durable objects, at the current or a requested revision."""

from collections.abc import Sequence
from itertools import islice

import msgspec

from tinykube.server.errors import StatusError, bad_request, expired, not_found
from tinykube.server.objects import StorageKey
from tinykube.server.storage.model import RevisionCompactedError, Snapshot, Storage, StoredObject
from tinykube.server.verbs.context import Backend, Target
from tinykube.server.verbs.continuation import (
    LATEST,
    Continuation,
    decode_token,
    encode_token,
    token_expired,
)
from tinykube.server.verbs.options import EXACT, ListOptions
from tinykube.server.verbs.selection import Selection, parse_selection

_FRESHNESS_SECONDS = 3.0
_LARGEST_LIMIT = 2**31


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    revision: int
    items: Sequence[StoredObject]
    continue_token: str = ""
    remaining: int | None = None


async def get(backend: Backend, target: Target, resource_version: str = "") -> StoredObject:
    """Return a durable object, at least as new as the requested version. Raises 404 and 504."""
    if resource_version and resource_version != "0":
        await wait_for(backend.storage, parse_revision(resource_version, of="resourceVersion"))
    stored = backend.storage.get(target.key())
    if stored is None:
        raise not_found(target.resource, target.name)
    return stored


def parse_revision(text: str, *, of: str = "invalid resource version: resourceVersion") -> int:
    """Parse the resource version of a read. Raises 400 with a message that starts with ``of``."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise bad_request(
            f'{of}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


async def wait_for(storage: Storage, revision: int) -> None:
    """Wait up to three seconds for a revision, else raise the 504 that clients expect."""
    if revision <= storage.revision or await storage.wait_for_revision(revision, _FRESHNESS_SECONDS):
        return
    raise StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {revision}, current: {storage.revision}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers={"Retry-After": "1"},
    )


async def list_page(backend: Backend, target: Target, options: ListOptions) -> Page:
    """Return one page of a collection, in key order; all pages of a list have the same revision.

    Without a limit there is one page. Raises 400 (selectors, token), 410 (compacted revision; on later pages
    with a token that continues at the current state), 422 (options) and 504 (a future revision).
    """
    options.check_list()
    selection = parse_selection(target.definition, options.label_selector, options.field_selector)
    limit = options.limit if 0 < options.limit < _LARGEST_LIMIT else 0
    if options.continue_token:
        return _next_page(backend, target, options, selection, limit)
    revision: int | None = None
    if options.resource_version:
        asked = parse_revision(options.resource_version)
        if asked:
            await wait_for(backend.storage, asked)
            exact = options.resource_version_match == EXACT
            if exact or (limit and not options.resource_version_match):
                revision = asked
    try:
        snapshot = _snapshot(backend, target, revision)
    except RevisionCompactedError:
        raise expired("The resourceVersion for the provided list is too old.") from None
    return _page(backend, target, snapshot, selection, limit, Continuation(snapshot.revision, "", ""))


def _next_page(
    backend: Backend, target: Target, options: ListOptions, selection: Selection, limit: int
) -> Page:
    if options.resource_version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    begin = decode_token(
        options.continue_token,
        namespace=target.namespace,
        cluster_scoped=not target.definition.namespaced,
    )
    if begin.revision > backend.storage.revision:
        raise bad_request(
            "invalid continue token: continue key is not valid: its revision has not been reached yet"
        )
    try:
        snapshot = _snapshot(backend, target, None if begin.revision == LATEST else begin.revision)
    except RevisionCompactedError:
        fresh = msgspec.structs.replace(begin, revision=LATEST)
        raise token_expired(encode_token(fresh, namespaced_list=_has_single_namespace(target))) from None
    return _page(backend, target, snapshot, selection, limit, begin)


def _has_single_namespace(target: Target) -> bool:
    return bool(target.namespace) or not target.definition.namespaced


def _snapshot(backend: Backend, target: Target, revision: int | None) -> Snapshot:
    return backend.storage.snapshot(target.definition.storage_resource, target.namespace, revision)


def _page(
    backend: Backend,
    target: Target,
    snapshot: Snapshot,
    selection: Selection,
    limit: int,
    begin: Continuation,
) -> Page:
    matches = selection.matcher()
    objects = snapshot.after(begin.namespace, begin.name)
    if selection.name:
        objects = _named(backend, target, snapshot, selection.name, begin)
    if matches is not None:
        objects = filter(matches, objects)
    if not limit:
        return Page(snapshot.revision, list(objects))
    found = list(islice(objects, limit + 1))
    if len(found) <= limit:
        return Page(snapshot.revision, found)
    last = found[limit - 1].key
    token = encode_token(
        Continuation(snapshot.revision, last.namespace, last.name),
        namespaced_list=_has_single_namespace(target),
    )
    remaining = None
    if matches is None:
        is_first = not begin.name
        remaining = len(snapshot) - limit if is_first else _count(snapshot, last)
    return Page(snapshot.revision, found[:limit], token, remaining)


def _named(
    backend: Backend, target: Target, snapshot: Snapshot, name: str, begin: Continuation
) -> list[StoredObject]:
    """Return the objects of one name, without a scan if there can be only one."""
    if _has_single_namespace(target) and snapshot.revision == backend.storage.revision and not begin.name:
        stored = backend.storage.get(target.key(name))
        return [] if stored is None else [stored]
    return [stored for stored in snapshot.after(begin.namespace, begin.name) if stored.key.name == name]


def _count(snapshot: Snapshot, last: StorageKey) -> int:
    return sum(1 for _ in snapshot.after(last.namespace, last.name))
