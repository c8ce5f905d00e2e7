"""Events: stored in core's form; events.k8s.io is a view with other field names."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, invalid, invalid_value, required
from tinykube.server.json_access import ensure_object, get_int, get_object, get_str
from tinykube.server.objects import GroupResource, JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Column, Definition, Request, Strategy
from tinykube.server.registry.printing import column, since

RESOURCE = GroupResource("", "events")
_HOUR_SECONDS = 3600.0
_LONGEST = 128
_LONGEST_MESSAGE = 1024
_ALWAYS_THERE = ("firstTimestamp", "lastTimestamp", "eventTime")
_TO_STORED = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_FROM_STORED = {stored: seen for seen, stored in _TO_STORED.items()}
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class _EventView:
    """The field names of events.k8s.io."""

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Convert to core's form."""
        stored = {_TO_STORED.get(name, name): value for name, value in obj.items()}
        stored["apiVersion"] = "v1"
        _complete(stored)
        return stored

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Convert to the form of events.k8s.io."""
        seen = {_FROM_STORED.get(name, name): value for name, value in obj.items()}
        seen["apiVersion"] = "events.k8s.io/v1"
        for name in ("reportingController", "reportingInstance"):
            if not seen.get(name):
                seen.pop(name, None)
        return seen


def _complete(obj: JsonObject) -> None:
    """Add the fields that core's form always has."""
    ensure_object(obj, "involvedObject")
    ensure_object(obj, "source")
    for name in _ALWAYS_THERE:
        obj.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        obj[name] = get_str(obj, name)


def _shared_errors(obj: JsonObject, controller_field: str) -> list[FieldError]:
    """Return the errors that both forms share."""
    namespace = get_str(metadata_of(obj), "namespace")
    about = get_str(get_object(obj, "involvedObject"), "namespace")
    mismatch = invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    errors: list[FieldError] = []
    if not obj.get("eventTime"):
        if about != namespace and (about or namespace not in ("", "default")):
            errors.append(mismatch)
        return errors
    if not about and namespace not in ("default", "kube-system"):
        errors.append(mismatch)
    controller = get_str(obj, "reportingComponent")
    if not controller:
        errors.append(required(controller_field))
    errors += validation.qualified_name(controller_field, controller)
    for name in ("reportingInstance", "action", "reason"):
        if not get_str(obj, name):
            errors.append(required(name))
        if len(get_str(obj, name)) > _LONGEST:
            errors.append(invalid_value(name, "", f"can have at most {_LONGEST} characters"))
    if len(get_str(obj, "message")) > _LONGEST_MESSAGE:
        errors.append(invalid_value("message", "", f"can have at most {_LONGEST_MESSAGE} characters"))
    return errors


class _CoreEventStrategy(Strategy):
    controller_field = "reportingComponent"

    def default(self, obj: JsonObject) -> None:
        _complete(obj)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        return _shared_errors(obj, self.controller_field)


class _NewEventStrategy(_CoreEventStrategy):
    """The additional rules of events.k8s.io: a time and a type are required, and only the series may change."""

    controller_field = "reportingController"
    _frozen = (
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingController",
        "reportingInstance",
    )

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        errors = [*super().validate(request, obj)]
        # An update may affect an event of the old form: rules for new events do not apply.
        if not metadata_of(obj).get("resourceVersion"):
            errors += _new_event_errors(obj)
        _refuse(obj, errors)
        return ()

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        errors: list[FieldError] = []
        if obj.get("series") != old.get("series"):
            errors += _series_errors(obj)
        for name in self._frozen:
            stored = "reportingComponent" if name == "reportingController" else name
            errors += validation.immutable(name, obj.get(stored), old.get(stored))
        _refuse(obj, errors)
        return ()


def _refuse(obj: JsonObject, errors: Sequence[FieldError]) -> None:
    """Raise 422 as kube-apiserver does, which names core's Event in this API group, too."""
    if errors:
        raise invalid("", "Event", get_str(metadata_of(obj), "name"), errors)


def _series_errors(obj: JsonObject) -> list[FieldError]:
    series = obj.get("series")
    errors: list[FieldError] = []
    if series is not None:
        if get_int(series, "count") < 2:
            errors.append(invalid_value("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            errors.append(required("series.lastObservedTime"))
    return errors


def _new_event_errors(obj: JsonObject) -> list[FieldError]:
    errors = _series_errors(obj)
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    kind = get_str(obj, "type")
    if kind not in ("Normal", "Warning"):
        errors.append(invalid_value("type", "", f"has invalid value: {kind}"))
    errors += [
        invalid_value(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count")
        if obj.get(name)
    ]
    if any(get_object(obj, "source").values()):
        errors.append(invalid_value("source", "", "needs to be unset"))
    return errors


def _stored_fields(obj: JsonObject) -> dict[str, str]:
    about, controller = get_object(obj, "involvedObject"), get_str(obj, "reportingComponent")
    return {
        **{f"involvedObject.{name}": get_str(about, name) for name in _REFERENCE_FIELDS},
        "reason": get_str(obj, "reason"),
        "reportingComponent": controller,
        "source": get_str(get_object(obj, "source"), "component") or controller,
        "type": get_str(obj, "type"),
    }


def _all_fields(obj: JsonObject) -> dict[str, str]:
    """Return the values under the names of both forms, because they share a store."""
    fields = _stored_fields(obj)
    return {
        **fields,
        **{f"regarding.{name}": fields[f"involvedObject.{name}"] for name in _REFERENCE_FIELDS},
        "reportingController": fields["reportingComponent"],
    }


# ----------------------------------------------------------------------------------------- table


def _stored_form(obj: JsonObject) -> JsonObject:
    return _EventView().to_storage(obj) if get_str(obj, "apiVersion") == "events.k8s.io/v1" else obj


def _first_seen(obj: JsonObject, now: float) -> str:
    stored = _stored_form(obj)
    return since(stored.get("firstTimestamp") or stored.get("eventTime"), now)


def _last_seen(obj: JsonObject, now: float) -> str:
    stored = _stored_form(obj)
    series = stored.get("series")
    if series is not None:
        return since(series.get("lastObservedTime"), now)
    if stored.get("lastTimestamp"):
        return since(stored["lastTimestamp"], now)
    return _first_seen(obj, now)


def _object(obj: JsonObject) -> str:
    about = get_object(_stored_form(obj), "involvedObject")
    kind, name = get_str(about, "kind").lower(), get_str(about, "name")
    return f"{kind}/{name}" if name else kind


def _source(obj: JsonObject) -> str:
    stored = _stored_form(obj)
    source = get_object(stored, "source")
    component = get_str(source, "component") or get_str(stored, "reportingComponent")
    instance = get_str(source, "host") or get_str(stored, "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _count(obj: JsonObject) -> int:
    stored = _stored_form(obj)
    series = stored.get("series")
    return get_int(series, "count") if series is not None else get_int(stored, "count") or 1


_COLUMNS = (
    Column(name="Last Seen", cell=_last_seen),
    column("Type", lambda obj: get_str(obj, "type")),
    column("Reason", lambda obj: get_str(obj, "reason")),
    column("Object", _object),
    column(
        "Subobject",
        lambda obj: get_str(get_object(_stored_form(obj), "involvedObject"), "fieldPath"),
        wide=True,
    ),
    column("Source", _source, wide=True),
    column("Message", lambda obj: get_str(_stored_form(obj), "message").strip()),
    Column(name="First Seen", cell=_first_seen, priority=1),
    column("Count", _count, wide=True),
    Column(name="Name", cell=lambda obj, now: get_str(metadata_of(obj), "name"), format="name", priority=1),
)

EVENTS = Definition(
    group="",
    version="v1",
    plural="events",
    kind="Event",
    singular="event",
    namespaced=True,
    short_names=("ev",),
    strategy=_CoreEventStrategy(),
    columns=_COLUMNS,
    fields=_all_fields,
    field_names=(
        *(f"involvedObject.{name}" for name in _REFERENCE_FIELDS),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    creates_on_update=True,
    lifetime_seconds=_HOUR_SECONDS,
)

NEW_EVENTS = Definition(
    group="events.k8s.io",
    version="v1",
    plural="events",
    kind="Event",
    singular="event",
    namespaced=True,
    short_names=("ev",),
    strategy=_NewEventStrategy(),
    columns=_COLUMNS,
    fields=lambda obj: _all_fields(_stored_form(obj)),
    field_names=(
        *(f"regarding.{name}" for name in _REFERENCE_FIELDS),
        "reason",
        "reportingController",
        "type",
    ),
    creates_on_update=True,
    lifetime_seconds=_HOUR_SECONDS,
    stored_as=RESOURCE,
    view=_EventView(),
)
