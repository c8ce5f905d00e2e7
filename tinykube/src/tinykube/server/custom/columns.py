"""Additional printer columns of a definition."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tinykube.server.custom.jsonpath import JsonPathError, json_path
from tinykube.server.json_access import get_int, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Column
from tinykube.server.registry.printing import NAME, UNKNOWN, since

_AGE: JsonObject = {
    "name": "Age",
    "type": "date",
    "description": "How long ago the object was created.",
    "jsonPath": ".metadata.creationTimestamp",
}


def columns_of(version: JsonObject) -> tuple[Column, ...]:
    """Return the columns of a version; by default, name and age.

    Columns from the first invalid path on are omitted, as by kube-apiserver.
    """
    columns = [NAME]
    for wanted in version.get("additionalPrinterColumns") or (_AGE,):
        try:
            columns.append(_column(wanted))
        except JsonPathError:
            break
    return tuple(columns)


def _column(wanted: JsonObject) -> Column:
    path, type_name = get_str(wanted, "jsonPath"), get_str(wanted, "type")
    return Column(
        name=get_str(wanted, "name"),
        cell=_cell(path, type_name),
        type=type_name,
        format=get_str(wanted, "format"),
        description=get_str(wanted, "description")
        or f"Custom resource definition column (in JSONPath format): {path}",
        priority=get_int(wanted, "priority"),
    )


def _cell(path_text: str, type_name: str) -> Callable[[JsonObject, float], Any]:
    path, shown = json_path(path_text), _SHOWN.get(type_name, _text)

    def cell(obj: JsonObject, now: float) -> Any:
        found = path.find(obj)
        return shown(found, now) if found else None

    return cell


def _text(found: Sequence[Any], now: float) -> Any:
    value = found[0]
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _integer(found: Sequence[Any], now: float) -> Any:
    value = found[0]
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(found: Sequence[Any], now: float) -> Any:
    value = found[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if float(value).is_integer() else value


def _boolean(found: Sequence[Any], now: float) -> Any:
    return found[0] if isinstance(found[0], bool) else None


def _date(found: Sequence[Any], now: float) -> Any:
    if not isinstance(found[0], str):
        return None
    shown = since(found[0], now)
    return "<invalid>" if shown == UNKNOWN and found[0] else shown


_SHOWN: dict[str, Callable[[Sequence[Any], float], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
