"""Parse query strings as kube-apiserver does. Pure."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from tinykube.server.errors import bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.verbs.options import DeleteOptions, ListOptions, WriteOptions

Query = Mapping[str, Sequence[str]]
NO_QUERY: Query = {}

_MOST_PARAMETERS = 1000
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def parse_query(text: str) -> Query:
    """Return all values of each parameter. Raises 400 for malformed queries."""
    if not text:
        return NO_QUERY
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict")
    except ValueError as error:
        raise bad_request(f"the query string cannot be read: {error}") from None
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def first(query: Query, name: str) -> str:
    """Return the first value of a parameter, or ``""``."""
    values = query.get(name)
    return values[0] if values else ""


def boolean(query: Query, name: str) -> bool | None:
    """Return a boolean: ``0`` and ``false`` are False, anything else (even an empty value) is True; ``None`` if absent."""
    values = query.get(name)
    if not values:
        return None
    return values[0] != "0" and values[0].lower() != "false"


def pretty(query: Query) -> bool | None:
    """Return whether JSON is indented, ``None`` if absent; unlike other booleans, words are False."""
    text = first(query, "pretty")
    return text in _TRUE if text else None


def integer(query: Query, name: str) -> int | None:
    """Return a 64-bit integer, ``None`` if absent. Raises 400."""
    values = query.get(name)
    if not values:
        return None
    text = values[0]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(digits) > 18:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def list_options(query: Query) -> ListOptions:
    """Return the options of a list or watch. Raises 400."""
    if not query:
        return _NO_LIST_OPTIONS
    return ListOptions(
        label_selector=first(query, "labelSelector"),
        field_selector=first(query, "fieldSelector"),
        resource_version=first(query, "resourceVersion"),
        resource_version_match=first(query, "resourceVersionMatch"),
        limit=integer(query, "limit") or 0,
        continue_token=first(query, "continue"),
        timeout_seconds=integer(query, "timeoutSeconds"),
        allow_bookmarks=boolean(query, "allowWatchBookmarks") or False,
        send_initial_events=boolean(query, "sendInitialEvents"),
    )


_NO_LIST_OPTIONS = ListOptions()


def write_options(query: Query, kind: str) -> WriteOptions:
    """Return the options of a create, update or patch."""
    if not query:
        return WriteOptions(kind=kind)
    return WriteOptions(
        kind=kind,
        dry_run=tuple(query.get("dryRun", ())),
        field_manager=first(query, "fieldManager"),
        field_validation=first(query, "fieldValidation"),
        force=boolean(query, "force"),
    )


def delete_options(query: Query, body: JsonObject | None) -> DeleteOptions:
    """Return the options of a delete, with the body's values before the query's. Raises 400."""
    if body is not None:
        return DeleteOptions.from_document(body)
    if not query:
        return DeleteOptions()
    return DeleteOptions(
        grace_period_seconds=integer(query, "gracePeriodSeconds"),
        propagation_policy=first(query, "propagationPolicy") or None,
        orphan_dependents=boolean(query, "orphanDependents"),
        dry_run=tuple(query.get("dryRun", ())),
    )
