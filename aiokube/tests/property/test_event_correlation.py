"""The rules for Events over any history: their limits hold for any occurrences at any time."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from aiokube.api.events import Event
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.runtime.event_correlation import (
    BURST,
    FOLDED_PREFIX,
    REFILL_SECONDS,
    CountUp,
    CreateEvent,
    EventCorrelator,
    Occurrence,
)

START = datetime(2026, 1, 1, tzinfo=UTC)

steps = st.lists(
    st.tuples(
        st.sampled_from(["cart", "basket"]),
        st.sampled_from(["Broken", "Mended"]),
        st.integers(0, 15),
        st.sampled_from([0.0, 0.0, 0.0, 1.0, 30.0, 301.0, 601.0]),
    ),
    max_size=120,
)


def occurrences_of(history: list[tuple[str, str, int, float]]) -> list[Occurrence]:
    moment = 0.0
    occurrences = []
    for name, reason, message, pause in history:
        moment += pause
        occurrences.append(
            Occurrence(
                component="test",
                regarding=ObjectReference(kind="Service", namespace="shop", name=name, uid=name),
                type="Warning",
                reason=reason,
                message=f"message {message}",
                at=START + timedelta(seconds=moment),
                moment=moment,
            )
        )
    return occurrences


@settings(deadline=None)
@given(steps)
def test_writes_per_object_never_exceed_the_burst_and_refill(
    history: list[tuple[str, str, int, float]],
) -> None:
    correlator = EventCorrelator()
    writes: dict[str | None, list[float]] = {}
    for occurrence in occurrences_of(history):
        if correlator.observe(occurrence) is not None:
            writes.setdefault(occurrence.regarding.name, []).append(occurrence.moment)
    for moments in writes.values():
        for first in range(len(moments)):
            for last in range(first, len(moments)):
                allowed = BURST + (moments[last] - moments[first]) / REFILL_SECONDS
                assert last - first + 1 <= allowed + 1e-6


@settings(deadline=None)
@given(steps)
def test_if_all_writes_succeed_counts_miss_only_occurrences_after_the_last_write(
    history: list[tuple[str, str, int, float]],
) -> None:
    correlator = EventCorrelator()
    server: dict[ObjectKey, Event] = {}
    silent = 0
    for occurrence in occurrences_of(history):
        match correlator.observe(occurrence):
            case None:
                silent += 1
            case CreateEvent(event):
                assert event.metadata.key not in server, "a name was given twice"
                server[event.metadata.key] = event
            case CountUp(key, _, event):
                assert key == event.metadata.key
                if key in server:
                    assert (event.count or 0) > (server[key].count or 0)
                server[key] = event
    counted = sum(event.count or 0 for event in server.values())
    assert len(history) - silent <= counted <= len(history)


@settings(deadline=None)
@given(steps)
def test_few_messages_are_never_combined_and_many_never_create_many_events(
    history: list[tuple[str, str, int, float]],
) -> None:
    correlator = EventCorrelator()
    names: dict[tuple[str | None, str], set[str]] = {}
    messages: dict[tuple[str | None, str], set[str]] = {}
    for occurrence in occurrences_of([(name, reason, message, 0.0) for name, reason, message, _ in history]):
        about = (occurrence.regarding.name, occurrence.reason)
        messages.setdefault(about, set()).add(occurrence.message)
        write = correlator.observe(occurrence)
        if write is not None:
            names.setdefault(about, set()).add(write.event.metadata.name)
            if len(messages[about]) < 10:
                assert not (write.event.message or "").startswith(FOLDED_PREFIX)
    assert all(len(each) <= 10 for each in names.values())


@settings(deadline=None)
@given(steps)
def test_the_same_history_produces_the_same_writes(history: list[tuple[str, str, int, float]]) -> None:
    first, second = EventCorrelator(), EventCorrelator()
    for occurrence in occurrences_of(history):
        assert first.observe(occurrence) == second.observe(occurrence)
