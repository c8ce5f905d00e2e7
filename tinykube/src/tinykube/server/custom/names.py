"""The names of a definition: validation, and acceptance within their group."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tinykube.server.errors import FieldError, invalid_value
from tinykube.server.json_access import get_list, get_object, get_str
from tinykube.server.objects import JsonObject

NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 63
_LABEL_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_RESOURCES, _KINDS = ("plural", "singular"), ("kind", "listKind")


def dns1035_problem(value: str) -> str:
    """Return the problem of a DNS-1035 label, or ``""``."""
    problems = []
    if len(value) > _LONGEST:
        problems.append(f"must be no more than {_LONGEST} characters")
    if not _LABEL.fullmatch(value):
        problems.append(_LABEL_TEXT)
    return ",".join(problems)


def name_errors(field: str, names: JsonObject) -> list[FieldError]:
    """Return the errors of a definition's names in spec or status; missing names are checked elsewhere."""
    errors = []
    for name in _RESOURCES:
        value = get_str(names, name)
        if value and (problem := dns1035_problem(value)):
            errors.append(invalid_value(f"{field}.{name}", value, problem))
    for name in _KINDS:
        value = get_str(names, name)
        if value and (problem := dns1035_problem(value.lower())):
            detail = f"may have mixed case, but should otherwise match: {problem}"
            errors.append(invalid_value(f"{field}.{name}", value, detail))
    errors += _each(f"{field}.shortNames", get_list(names, "shortNames"))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        errors.append(invalid_value(f"{field}.listKind", names["kind"], detail))
    return errors + _each(f"{field}.categories", get_list(names, "categories"))


def _each(field: str, values: Sequence[str]) -> list[FieldError]:
    return [
        invalid_value(f"{field}[{index}]", value, problem)
        for index, value in enumerate(values)
        if (problem := dns1035_problem(value))
    ]


class Taken(msgspec.Struct, frozen=True):
    """The accepted names of the other definitions in a group."""

    resources: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()


def taken_names(others: Iterable[JsonObject]) -> Taken:
    """Return the accepted names of these definitions."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for one in others:
        names = get_object(get_object(one, "status"), "acceptedNames")
        resources.update(get_str(names, name) for name in _RESOURCES)
        resources.update(get_list(names, "shortNames"))
        kinds.update(get_str(names, name) for name in _KINDS)
    return Taken(frozenset(resources - {""}), frozenset(kinds - {""}))


def accept_names(definition: JsonObject, taken: Taken, now: str) -> None:
    """Set a definition's accepted names and both conditions, in place.

    Names that it already has are kept; names of other definitions are not accepted; it becomes established
    only once all names are accepted. Idempotent.
    """
    status = definition.setdefault("status", {})
    wanted, held = get_object(get_object(definition, "spec"), "names"), get_object(status, "acceptedNames")
    if wanted == held and condition(definition, ESTABLISHED) is not None:
        return
    granted, reason, message = _granted(wanted, held, taken)
    status["acceptedNames"] = granted
    accepted = not reason
    set_condition(
        definition,
        NAMES_ACCEPTED,
        accepted,
        "NoConflicts" if accepted else reason,
        "no conflicts found" if accepted else message,
        now,
    )
    if is_true(definition, ESTABLISHED):
        return
    if accepted:
        text_of = "the initial names have been accepted"
        set_condition(definition, ESTABLISHED, True, "InitialNamesAccepted", text_of, now)
    else:
        set_condition(definition, ESTABLISHED, False, "NotAccepted", "not all names are accepted", now)


def _granted(wanted: JsonObject, held: JsonObject, taken: Taken) -> tuple[JsonObject, str, str]:
    """Return the accepted names, and reason and message of the last conflict."""
    granted: JsonObject = dict(held)
    reason = message = ""
    for name, used in (("plural", taken.resources), ("singular", taken.resources)):
        value = get_str(wanted, name)
        if value != get_str(held, name) and value in used:
            reason, message = f"{name.capitalize()}Conflict", f'"{value}" is already in use'
        else:
            granted[name] = value
    short = get_list(wanted, "shortNames")
    used_short = [one for one in short if one not in get_list(held, "shortNames") and one in taken.resources]
    if used_short:
        told = [f'"{one}" is already in use' for one in dict.fromkeys(used_short)]
        message = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        reason = "ShortNamesConflict"
    else:
        _put(granted, "shortNames", short)
    for name, kind_reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        value = get_str(wanted, name)
        if value != get_str(held, name) and value in taken.kinds:
            reason, message = kind_reason, f'"{value}" is already in use'
        else:
            granted[name] = value
    _put(granted, "categories", get_list(wanted, "categories"))
    for name in ("plural", "kind"):
        granted.setdefault(name, "")
    return granted, reason, message


def _put(names: JsonObject, name: str, values: list[Any]) -> None:
    if values:
        names[name] = list(values)
    else:
        names.pop(name, None)


# -------------------------------------------------------------------------------------------- conditions


def condition(definition: Mapping[str, Any], kind: str) -> JsonObject | None:
    """Return a condition of a definition, if present."""
    for one in get_list(get_object(definition, "status"), "conditions"):
        if one.get("type") == kind:
            found: JsonObject = one
            return found
    return None


def is_true(definition: Mapping[str, Any], kind: str) -> bool:
    """Return whether a condition of a definition is true."""
    return (condition(definition, kind) or {}).get("status") == "True"


def set_condition(
    definition: JsonObject, kind: str, holds: bool, reason: str, message: str, now: str
) -> None:
    """Set a condition, in place; its transition time changes only with its status."""
    status = definition.setdefault("status", {})
    conditions = get_list(status, "conditions")
    value = "True" if holds else "False"
    found = condition(definition, kind)
    if found is None:
        found = {"type": kind, "status": "", "lastTransitionTime": now, "reason": "", "message": ""}
        conditions.append(found)
    if found["status"] != value:
        found["lastTransitionTime"] = now
    found.update(status=value, reason=reason, message=message)
    status["conditions"] = conditions
