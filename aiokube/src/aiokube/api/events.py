"""Events (core/v1) with all fields: messages of controllers about objects, for people."""

import msgspec

from aiokube.api.meta import ObjectMeta, ObjectReference
from aiokube.api.resource import Resource

NORMAL = "Normal"
WARNING = "Warning"


class EventSource(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The component that reports an event, and its host if that matters."""

    component: str | None = None
    host: str | None = None


class EventSeries(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The number of occurrences, as counted by recorders of events.k8s.io."""

    count: int | None = None
    last_observed_time: str | None = None


class Event(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """An occurrence concerning ``involved_object``, seen ``count`` times between the two timestamps.

    Times are RFC 3339 strings. The namespace must be that of the object, or ``default`` for cluster-scoped
    objects.
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
