"""Events (core/v1), complete: what controllers tell people about objects."""

import msgspec

from aiokube.api.meta import ObjectMeta, ObjectReference
from aiokube.api.resource import Resource

NORMAL = "Normal"
WARNING = "Warning"


class EventSource(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Who tells it: a component, and the host it runs on where that matters."""

    component: str | None = None
    host: str | None = None


class EventSeries(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """How often it happened, as recorders of events.k8s.io count it."""

    count: int | None = None
    last_observed_time: str | None = None


class Event(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Something that happened to ``involved_object``, ``count`` times from first to last timestamp.

    Times are RFC 3339 texts. The namespace must be that of the object, or ``default`` where it has none.
    """

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int | None = None
    type: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    action: str | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


EVENTS: Resource[Event] = Resource(
    group="", version="v1", plural="events", kind="Event", wire=Event, complete=True
)
