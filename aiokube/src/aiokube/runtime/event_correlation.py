"""Many occurrences, few Events: what is worth writing, decided without I/O and without a clock.

Facts from upstream (behaviour 0.7). Three rules, in this order:

1. **Folding.** Occurrences that differ in nothing but their message are similar. Of each ten distinct messages
   without a pause of ten minutes, nine keep an Event of their own, and all further ones share one Event whose
   message is the latest, with a prefix.
2. **Counting.** What has been told already is counted up on its Event, not told again.
3. **Quiet.** A component may write 25 times about one object, and then once in five minutes. What falls silent
   here has been counted, so the next write that gets through tells the full count.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec

from aiokube.api.events import Event, EventSource
from aiokube.api.meta import ObjectKey, ObjectMeta, ObjectReference
from aiokube.api.times import format_time

REMEMBERED = 4096
FOLD_FROM_MESSAGES = 10
FOLD_WINDOW_SECONDS = 600.0
FOLDED_PREFIX = "(combined from similar events): "
BURST = 25
REFILL_SECONDS = 300.0
DEFAULT_NAMESPACE = "default"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 253
_NOT_IN_A_NAME = re.compile("[^a-z0-9.-]")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened once. ``at`` is the time of day, ``moment`` the same on the monotonic clock."""

    component: str
    regarding: ObjectReference
    type: str
    reason: str
    message: str
    at: datetime
    moment: float

    @property
    def namespace(self) -> str:
        """The namespace its Event belongs to: the object's own, or ``default``."""
        return self.regarding.namespace or DEFAULT_NAMESPACE


class CreateEvent(msgspec.Struct, frozen=True):
    """Write a new Event."""

    event: Event


class CountUp(msgspec.Struct, frozen=True):
    """Patch ``patch`` onto the Event of that key. If it is gone (Events live an hour), create ``event`` instead."""

    key: ObjectKey
    patch: bytes
    event: Event


Write = CreateEvent | CountUp


# ------------------------------------------------------------------------------------- the rules, pure


class Similar(msgspec.Struct, frozen=True):
    """The distinct messages seen of similar occurrences, and when the last one came."""

    messages: frozenset[str] = frozenset()
    last_moment: float = 0.0


def fold(similar: Similar | None, message: str, moment: float) -> tuple[Similar, bool]:
    """Take note of a message; tell whether it is to be folded with its like."""
    known: frozenset[str] = frozenset()
    if similar is not None and moment - similar.last_moment <= FOLD_WINDOW_SECONDS:
        known = similar.messages
    if message not in known and len(known) >= FOLD_FROM_MESSAGES - 1:
        return Similar(known, moment), True
    return Similar(known | {message}, moment), False


class Told(msgspec.Struct, frozen=True):
    """An Event that has been told: its name, how often, and since when."""

    name: str
    count: int
    first_timestamp: str


class Allowance(msgspec.Struct, frozen=True):
    """How many writes about one object lie ready, counted at a moment."""

    tokens: float = BURST
    moment: float = 0.0


def spend(allowance: Allowance | None, moment: float) -> tuple[Allowance, bool]:
    """Take one write from an allowance; tell whether there was one."""
    tokens = float(BURST)
    if allowance is not None:
        tokens = min(tokens, allowance.tokens + (moment - allowance.moment) / REFILL_SECONDS)
    if tokens < 1.0:
        return Allowance(tokens, moment), False
    return Allowance(tokens - 1.0, moment), True


def event_name(object_name: str, nanoseconds: int) -> str:
    """Return ``<object>.<hex of the time>``, made a valid name where that of the object is none."""
    suffix = f".{nanoseconds:x}"
    stem = _NOT_IN_A_NAME.sub("-", object_name.lower())[: _LONGEST_NAME - len(suffix)].strip(".-")
    return f"{stem or 'object'}{suffix}"


def nanoseconds_since_epoch(at: datetime) -> int:
    """Return the time as whole nanoseconds (a multiple of 1000: a datetime knows microseconds)."""
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


# ------------------------------------------------------------------------------------- what is remembered


class Recent(Generic[K, V]):
    """A dictionary of the most recently used keys, of bounded size."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value, if it is still remembered; being asked for keeps it longer."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Remember a value, and forget the one that was used longest ago if there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._limit:
            self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)


class _Patch(msgspec.Struct, rename="camel"):
    count: int
    last_timestamp: str
    message: str


_ObjectId = tuple[str, str | None, str | None, str | None, str | None, str | None]


class EventCorrelator:
    """Decides for each occurrence what to write of it: the three rules, each with a memory of bounded size.

    Deterministic: the same occurrences in the same order give the same writes. No write of it is ever waited
    for; one that is lost costs nothing but itself.
    """

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._similar: Recent[Hashable, Similar] = Recent(remembered)
        self._told: Recent[Hashable, Told] = Recent(remembered)
        self._allowances: Recent[_ObjectId, Allowance] = Recent(remembered)
        self._last_name = 0

    def observe(self, occurrence: Occurrence) -> Write | None:
        """Take note of an occurrence and return what to write; None where the object has had its share."""
        about = _identity(occurrence)
        alike = (about, occurrence.type, occurrence.reason)
        similar, folded = fold(self._similar.get(alike), occurrence.message, occurrence.moment)
        self._similar.put(alike, similar)
        if folded:
            same: Hashable = alike
            message = FOLDED_PREFIX + occurrence.message
        else:
            same = (alike, occurrence.regarding.field_path, occurrence.message)
            message = occurrence.message

        timestamp = format_time(occurrence.at)
        told = self._told.get(same)
        if told is None:
            now_told = Told(self._new_name(occurrence), 1, timestamp)
        else:
            now_told = Told(told.name, told.count + 1, told.first_timestamp)
        self._told.put(same, now_told)

        allowance, allowed = spend(self._allowances.get(about), occurrence.moment)
        self._allowances.put(about, allowance)
        if not allowed:
            return None
        event = _event(occurrence, now_told, message, timestamp)
        if told is None:
            return CreateEvent(event)
        patch = msgspec.json.encode(_Patch(now_told.count, timestamp, message))
        return CountUp(ObjectKey(occurrence.namespace, told.name), patch, event)

    def _new_name(self, occurrence: Occurrence) -> str:
        # Two in one microsecond are two: the name must not be given twice.
        self._last_name = max(self._last_name + 1, nanoseconds_since_epoch(occurrence.at))
        return event_name(occurrence.regarding.name or "", self._last_name)


def _identity(occurrence: Occurrence) -> _ObjectId:
    regarding = occurrence.regarding
    return (
        occurrence.component,
        regarding.kind,
        regarding.namespace,
        regarding.name,
        regarding.uid,
        regarding.api_version,
    )


def _event(occurrence: Occurrence, told: Told, message: str, timestamp: str) -> Event:
    return Event(
        metadata=ObjectMeta(name=told.name, namespace=occurrence.namespace),
        involved_object=occurrence.regarding,
        reason=occurrence.reason,
        message=message,
        source=EventSource(component=occurrence.component),
        first_timestamp=told.first_timestamp,
        last_timestamp=timestamp,
        count=told.count,
        type=occurrence.type,
        reporting_component=occurrence.component,
    )
