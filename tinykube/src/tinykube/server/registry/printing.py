"""Table cells that several kinds share."""

from collections.abc import Callable
from datetime import datetime

from tinykube.server.json_access import get_list, get_object, get_str
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Column

Cell = Callable[[JsonObject, float], str | int]

NONE = "<none>"
UNKNOWN = "<unknown>"
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints ages: one unit, or two if the larger one is small."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for limit, unit, name, part, part_name in (
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if whole < limit:
            rest = whole % unit // part if part else 0
            return f"{whole // unit}{name}" + (f"{rest}{part_name}" if rest else "")
    return f"{whole // _YEAR}y"


def since(timestamp: object, now: float) -> str:
    """Return the time since a timestamp; ``<unknown>`` if it is missing or invalid."""
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return UNKNOWN


def _name(obj: JsonObject, now: float) -> str:
    return get_str(metadata_of(obj), "name")


def _age(obj: JsonObject, now: float) -> str:
    return since(metadata_of(obj).get("creationTimestamp"), now)


NAME = Column(
    name="Name", cell=_name, format="name", description="Name of the object, unique in its namespace."
)
AGE = Column(name="Age", cell=_age, description="How long ago the object was created.")


def column(
    name: str, cell: Callable[[JsonObject], str | int], *, kind: str = "string", wide: bool = False
) -> Column:
    """Return a column whose cells depend only on the object; ``wide`` ones are shown by ``-o wide``."""
    return Column(name=name, cell=lambda obj, now: cell(obj), type=kind, priority=1 if wide else 0)


def format_labels(values: JsonObject | None) -> str:
    """Return labels as ``a=b,c=d``, or ``<none>``."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector_text(selector: JsonObject | None) -> str:
    """Return a label selector in its text form, requirements sorted by key; ``""`` without requirements."""
    if selector is None:
        return ""
    operators = {"In": "in", "NotIn": "notin"}
    parts: list[tuple[str, str]] = [
        (key, f"{key}={value}") for key, value in get_object(selector, "matchLabels").items()
    ]
    for expression in get_list(selector, "matchExpressions"):
        key, operator = get_str(expression, "key"), get_str(expression, "operator")
        if operator in operators:
            values = ",".join(sorted(get_list(expression, "values")))
            parts.append((key, f"{key} {operators[operator]} ({values})"))
        else:
            parts.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(shown for _, shown in sorted(parts, key=lambda part: part[0]))


def template_columns() -> tuple[Column, Column]:
    """Return the wide columns of workloads: names and images of the template's containers."""

    def joined(name: str) -> Callable[[JsonObject], str]:
        def cell(obj: JsonObject) -> str:
            spec = get_object(get_object(get_object(obj, "spec"), "template"), "spec")
            return ",".join(get_str(container, name) for container in get_list(spec, "containers"))

        return cell

    return column("Containers", joined("name"), wide=True), column("Images", joined("image"), wide=True)
