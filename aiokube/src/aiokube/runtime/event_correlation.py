"""Aggregation of Events, without I/O or clock: decides which occurrences are written.

As in upstream (behaviour 0.7), three rules apply in this order:

1. **Aggregation.** Occurrences that differ only in their message are similar. Of each ten distinct messages
without a pause of ten minutes, nine get their own Event; all further messages share one Event, which shows
the latest message with a prefix.
2. **Counting.** A repeated occurrence increases the count of its Event.
3. **Rate limit.** A component may write 25 times about one object, then once in five minutes. Suppressed
occurrences are counted, so the next write has the full count.

A fourth rule is not upstream's: a component may write 1,000 times about the objects of one namespace, then once a
second. Thousands of Services over quota would otherwise write 25 Events each.
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
NAMESPACE_BURST = 1000
NAMESPACE_REFILL_SECONDS = 1.0
DEFAULT_NAMESPACE = "default"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 253
_NOT_IN_A_NAME = re.compile("[^a-z0-9.-]")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence to report. ``at`` is the wall-clock time, ``moment`` the monotonic time."""

    component: str
    regarding: ObjectReference
    type: str
    reason: str
    message: str
    at: datetime
    moment: float

    @property
    def namespace(self) -> str:
        """The namespace of the Event: that of the object, or ``default``."""
        return self.regarding.namespace or DEFAULT_NAMESPACE


class CreateEvent(msgspec.Struct, frozen=True):
    """Create a new Event."""

    event: Event


class CountUp(msgspec.Struct, frozen=True):
    """Patch an existing Event; if it no longer exists (Events expire after an hour), create ``event``."""

    key: ObjectKey
    patch: bytes
    event: Event


Write = CreateEvent | CountUp


# ----------------------------------------------------------------------------------------------- rules


class Similar(msgspec.Struct, frozen=True):
    """The distinct messages of similar occurrences, and the time of the last one."""

    messages: frozenset[str] = frozenset()
    last_moment: float = 0.0


def fold(similar: Similar | None, message: str, moment: float) -> tuple[Similar, bool]:
    """Record a message; return whether it must be aggregated with similar ones."""
    known: frozenset[str] = frozenset()
    if similar is not None and moment - similar.last_moment <= FOLD_WINDOW_SECONDS:
        known = similar.messages
    if message not in known and len(known) >= FOLD_FROM_MESSAGES - 1:
        return Similar(known, moment), True
    return Similar(known | {message}, moment), False


class Told(msgspec.Struct, frozen=True):
    """A written Event: its name, count, and first timestamp."""

    name: str
    count: int
    first_timestamp: str


class Allowance(msgspec.Struct, frozen=True):
    """The remaining writes about one object, as of a moment."""

    tokens: float = BURST
    moment: float = 0.0


def spend(
    allowance: Allowance | None,
    moment: float,
    *,
    burst: int = BURST,
    refill_seconds: float = REFILL_SECONDS,
) -> tuple[Allowance, bool]:
    """Take one write from an allowance; return whether one was left."""
    tokens = float(burst)
    if allowance is not None:
        tokens = min(tokens, allowance.tokens + (moment - allowance.moment) / refill_seconds)
    if tokens < 1.0:
        return Allowance(tokens, moment), False
    return Allowance(tokens - 1.0, moment), True


def event_name(object_name: str, nanoseconds: int) -> str:
    """Return ``<object>.<hex of the time>``, with invalid characters of the object's name replaced."""
    suffix = f".{nanoseconds:x}"
    stem = _NOT_IN_A_NAME.sub("-", object_name.lower())[: _LONGEST_NAME - len(suffix)].strip(".-")
    return f"{stem or 'object'}{suffix}"


def nanoseconds_since_epoch(at: datetime) -> int:
    """Return the time in nanoseconds (a multiple of 1000: a datetime has microseconds)."""
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


# ---------------------------------------------------------------------------------------------- memory


class Recent(Generic[K, V]):
    """A bounded dictionary that evicts the least recently used keys."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value and mark it as recently used; None if it was evicted."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Store a value, and evict the least recently used one if necessary."""
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
    """Decides for each occurrence what to write, by the four rules, with bounded memory.

    Deterministic: the same occurrences in the same order give the same writes. It never waits for a write,
    and a lost write affects no other.
    """

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._similar: Recent[Hashable, Similar] = Recent(remembered)
        self._told: Recent[Hashable, Told] = Recent(remembered)
        self._allowances: Recent[_ObjectId, Allowance] = Recent(remembered)
        self._namespaces: Recent[tuple[str, str], Allowance] = Recent(remembered)
        self._last_name = 0

    def observe(self, occurrence: Occurrence) -> Write | None:
        """Record an occurrence and return the write; None if a rate limit, of its object or namespace, suppresses it."""
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
        shared = (occurrence.component, occurrence.namespace)
        allowance, allowed = spend(
            self._namespaces.get(shared),
            occurrence.moment,
            burst=NAMESPACE_BURST,
            refill_seconds=NAMESPACE_REFILL_SECONDS,
        )
        self._namespaces.put(shared, allowance)
        if not allowed:
            return None
        event = _event(occurrence, now_told, message, timestamp)
        if told is None:
            return CreateEvent(event)
        patch = msgspec.json.encode(_Patch(now_told.count, timestamp, message))
        return CountUp(ObjectKey(occurrence.namespace, told.name), patch, event)

    def _new_name(self, occurrence: Occurrence) -> str:
        # Two occurrences in the same microsecond need different names.
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
