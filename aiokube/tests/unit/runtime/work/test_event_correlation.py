"""Aggregation of occurrences (behaviour 0.7): no I/O, explicit time."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.runtime.event_correlation import (
    CountUp,
    CreateEvent,
    EventCorrelator,
    Occurrence,
    Recent,
    Similar,
    Write,
    event_name,
    fold,
    nanoseconds_since_epoch,
    spend,
)

SERVICE = ObjectReference(kind="Service", api_version="v1", namespace="shop", name="cart", uid="uid-1")
START = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def occurrence(message: str = "it broke", at: float = 0.0, **changes: object) -> Occurrence:
    whole = Occurrence(
        component="endpoint-slice-controller",
        regarding=SERVICE,
        type="Warning",
        reason="FailedToUpdateEndpointSlices",
        message=message,
        at=START + timedelta(seconds=at),
        moment=500.0 + at,
    )
    return msgspec.structs.replace(whole, **changes)


def created(write: Write | None) -> CreateEvent:
    assert isinstance(write, CreateEvent)
    return write


def counted(write: Write | None) -> CountUp:
    assert isinstance(write, CountUp)
    return write


def test_the_first_occurrence_creates_a_complete_event() -> None:
    event = created(EventCorrelator().observe(occurrence())).event
    assert msgspec.to_builtins(event) == {
        "metadata": {
            "name": f"cart.{nanoseconds_since_epoch(START):x}",
            "namespace": "shop",
        },
        "involvedObject": {
            "kind": "Service",
            "apiVersion": "v1",
            "namespace": "shop",
            "name": "cart",
            "uid": "uid-1",
        },
        "reason": "FailedToUpdateEndpointSlices",
        "message": "it broke",
        "source": {"component": "endpoint-slice-controller"},
        "firstTimestamp": "2026-03-01T12:00:00Z",
        "lastTimestamp": "2026-03-01T12:00:00Z",
        "count": 1,
        "type": "Warning",
        "reportingComponent": "endpoint-slice-controller",
    }


def test_a_repeated_occurrence_increments_the_count_of_its_event() -> None:
    correlator = EventCorrelator()
    first = created(correlator.observe(occurrence())).event
    correlator.observe(occurrence(at=5.0))
    third = counted(correlator.observe(occurrence(at=60.0)))
    assert third.key == ObjectKey("shop", first.metadata.name)
    assert msgspec.json.decode(third.patch) == {
        "count": 3,
        "lastTimestamp": "2026-03-01T12:01:00Z",
        "message": "it broke",
    }


def test_a_recreated_event_keeps_its_count_and_first_timestamp() -> None:
    correlator = EventCorrelator()
    first = created(correlator.observe(occurrence())).event
    again = counted(correlator.observe(occurrence(at=4000.0))).event
    assert (again.metadata.name, again.first_timestamp, again.last_timestamp, again.count) == (
        first.metadata.name,
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:06:40Z",
        2,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"component": "endpoint-controller"},
        {"type": "Normal"},
        {"reason": "SomethingElse"},
        {"message": "in another way"},
        {"regarding": msgspec.structs.replace(SERVICE, name="basket")},
        {"regarding": msgspec.structs.replace(SERVICE, namespace="mall")},
        {"regarding": msgspec.structs.replace(SERVICE, uid="uid-2")},
        {"regarding": msgspec.structs.replace(SERVICE, kind="Endpoints")},
        {"regarding": msgspec.structs.replace(SERVICE, api_version="v2")},
        {"regarding": msgspec.structs.replace(SERVICE, field_path="spec.ports{http}")},
    ],
)
def test_any_different_field_creates_another_event(changes: dict[str, object]) -> None:
    correlator = EventCorrelator()
    correlator.observe(occurrence())
    created(correlator.observe(occurrence(**changes)))  # type: ignore[arg-type]


def test_another_version_of_the_object_counts_as_the_same_event() -> None:
    correlator = EventCorrelator()
    correlator.observe(occurrence(regarding=msgspec.structs.replace(SERVICE, resource_version="7")))
    counted(correlator.observe(occurrence(regarding=msgspec.structs.replace(SERVICE, resource_version="8"))))


def test_similar_events_are_combined_from_the_tenth_message_within_ten_minutes() -> None:
    correlator = EventCorrelator()
    for number in range(9):
        event = created(correlator.observe(occurrence(f"try {number}", at=number))).event
        assert event.message == f"try {number}"
    folded = created(correlator.observe(occurrence("try 9", at=9))).event
    assert folded.message == "(combined from similar events): try 9"
    assert folded.count == 1
    next_one = counted(correlator.observe(occurrence("try 10", at=10)))
    assert next_one.key.name == folded.metadata.name
    assert msgspec.json.decode(next_one.patch) == {
        "count": 2,
        "lastTimestamp": "2026-03-01T12:00:10Z",
        "message": "(combined from similar events): try 10",
    }


def test_a_message_with_its_own_event_keeps_counting_there() -> None:
    correlator = EventCorrelator()
    own = created(correlator.observe(occurrence("try 0"))).event
    for number in range(1, 12):
        correlator.observe(occurrence(f"try {number}", at=number))
    assert counted(correlator.observe(occurrence("try 0", at=20))).key.name == own.metadata.name


def test_a_repeated_identical_message_is_never_combined() -> None:
    correlator = EventCorrelator()
    for number in range(24):
        write = correlator.observe(occurrence(at=number))
        assert write is not None
        assert write.event.message == "it broke"


def test_messages_are_separate_again_after_a_pause_of_more_than_ten_minutes() -> None:
    correlator = EventCorrelator()
    for number in range(12):
        correlator.observe(occurrence(f"try {number}"))
    still = correlator.observe(occurrence("after 600 s", at=600.0))
    assert still is not None
    assert still.event.message == "(combined from similar events): after 600 s"
    later = correlator.observe(occurrence("after 1201 s", at=1200.5))
    assert later is not None
    assert later.event.message == "after 1201 s"


def test_only_similar_events_of_an_object_are_combined() -> None:
    correlator = EventCorrelator()
    for number in range(9):
        correlator.observe(occurrence(f"try {number}"))
    other = correlator.observe(occurrence("of another kind", reason="Other"))
    assert other is not None
    assert other.event.message == "of another kind"


def test_an_object_may_write_25_events_and_then_one_every_five_minutes() -> None:
    correlator = EventCorrelator()
    writes = [correlator.observe(occurrence(reason=f"Reason{number}")) for number in range(30)]
    assert [write is not None for write in writes] == [True] * 25 + [False] * 5
    assert correlator.observe(occurrence(at=299.0, reason="R")) is None
    assert correlator.observe(occurrence(at=300.0, reason="R")) is not None
    assert correlator.observe(occurrence(at=301.0, reason="R")) is None


def test_the_write_limit_applies_per_component_and_object() -> None:
    correlator = EventCorrelator()
    for number in range(30):
        correlator.observe(occurrence(reason=f"Reason{number}"))
    assert correlator.observe(occurrence()) is None
    assert correlator.observe(occurrence(component="endpoint-controller")) is not None
    assert (
        correlator.observe(occurrence(regarding=msgspec.structs.replace(SERVICE, name="other"))) is not None
    )


def test_suppressed_occurrences_are_counted_in_the_next_write() -> None:
    correlator = EventCorrelator()
    for number in range(40):
        correlator.observe(occurrence(at=number / 10))
    write = counted(correlator.observe(occurrence(at=400.0)))
    assert write.event.count == 41


def test_an_event_suppressed_at_creation_is_created_by_its_first_allowed_write() -> None:
    correlator = EventCorrelator()
    for number in range(25):
        correlator.observe(occurrence(reason=f"Reason{number}"))
    assert correlator.observe(occurrence(reason="Late")) is None
    assert counted(correlator.observe(occurrence(reason="Late", at=300.0))).event.count == 2


def test_events_of_cluster_scoped_objects_are_in_the_default_namespace() -> None:
    node = ObjectReference(kind="Node", api_version="v1", name="node-1", uid="uid-9")
    correlator = EventCorrelator()
    first = created(correlator.observe(occurrence(regarding=node))).event
    assert first.metadata.namespace == "default"
    assert counted(correlator.observe(occurrence(regarding=node))).key.namespace == "default"


def test_two_occurrences_in_the_same_microsecond_have_different_names() -> None:
    correlator = EventCorrelator()
    first = created(correlator.observe(occurrence("one")))
    second = created(correlator.observe(occurrence("two")))
    assert first.event.metadata.name != second.event.metadata.name


@pytest.mark.parametrize(
    ("object_name", "name"),
    [
        ("cart", "cart.ff"),
        ("a.b-c", "a.b-c.ff"),
        ("system:Node", "system-node.ff"),
        ("-odd-", "odd.ff"),
        ("", "object.ff"),
        ("x" * 300, "x" * 250 + ".ff"),
    ],
)
def test_the_event_name_is_the_object_name_with_a_hex_timestamp_and_always_valid(
    object_name: str, name: str
) -> None:
    assert event_name(object_name, 255) == name


def test_timestamps_are_converted_to_exact_nanoseconds() -> None:
    assert nanoseconds_since_epoch(datetime(1970, 1, 2, 0, 0, 1, 7, tzinfo=UTC)) == 86_401_000_007_000
    # As a float this one would be off by tens of nanoseconds.
    assert nanoseconds_since_epoch(START) == 1_772_366_400_250_000_000


def test_the_event_cache_is_bounded_and_keeps_the_most_recently_used() -> None:
    correlator = EventCorrelator(remembered=3)
    names = ["a", "b", "c", "a", "d"]  # "b" is evicted
    for name in names:
        correlator.observe(occurrence(regarding=msgspec.structs.replace(SERVICE, name=name)))
    assert len(correlator._told) == len(correlator._similar) == len(correlator._allowances) == 3
    for name, kind in (("a", CountUp), ("c", CountUp), ("d", CountUp), ("b", CreateEvent)):
        write = correlator.observe(occurrence(regarding=msgspec.structs.replace(SERVICE, name=name)))
        assert type(write) is kind, name


def test_reading_a_cached_value_marks_it_as_recently_used() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)


def test_at_most_nine_messages_are_tracked_per_group() -> None:
    similar: Similar | None = None
    for number in range(100):
        similar, _ = fold(similar, str(number), 0.0)
    assert similar is not None
    assert similar.messages == frozenset(map(str, range(9)))


def test_the_write_limit_never_refills_beyond_its_burst() -> None:
    allowance, _ = spend(None, 0.0)
    for _ in range(5):
        allowance, _ = spend(allowance, 0.0)
    assert allowance.tokens == 19.0
    allowance, allowed = spend(allowance, 1e9)
    assert (allowance.tokens, allowed) == (24.0, True)
