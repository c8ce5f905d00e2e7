"""Slice writes: their order, the effect of failures, and the reported results (S-70 to S-74, M-41)."""

import asyncio

import pytest

from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointSlice
from aiokube.api.meta import ObjectKey, ObjectMeta, key_of
from aiokube.client.errors import ConnectionFailedError, RequestTimedOutError
from aiokube.testing.api_errors import status_error
from aiokube.testing.memory_server import Call, MemoryServer
from endpointd.controllers.slice_writes import SliceWriter, SliceWrites

pytestmark = pytest.mark.usefixtures("both_answers")

OWNER = "Endpoints default/web"


class Told:
    """Records the reported results."""

    def __init__(self) -> None:
        self.wrote_pairs: list[tuple[EndpointSlice, EndpointSlice]] = []
        self.found_items: list[EndpointSlice] = []
        self.gone_items: list[tuple[str, str]] = []

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        self.wrote_pairs.append((sent, answer))

    def found(self, item: EndpointSlice) -> None:
        self.found_items.append(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        self.gone_items.append((key.name, uid))


def new(*ips: str) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(generate_name="web-", namespace="default"),
        address_type="IPv4",
        endpoints=tuple(Endpoint(addresses=(ip,)) for ip in ips),
    )


class Bench:
    def __init__(self, *, at_once: int = 1) -> None:
        self.server = MemoryServer()
        self.told = Told()
        self.writer = SliceWriter(self.server, self.told, max_concurrent_writes=at_once)

    def stored(self, name: str) -> EndpointSlice:
        endpoint_slice = new("10.0.0.1")
        metadata = ObjectMeta(name=name, namespace="default")
        return self.server.create_foreign(
            ENDPOINT_SLICES,
            EndpointSlice(metadata=metadata, address_type="IPv4", endpoints=endpoint_slice.endpoints),
        )

    @property
    def verbs(self) -> list[str]:
        return [call.verb for call in self.server.calls]

    @property
    def names(self) -> set[str]:
        return {key.name for key in self.server.objects(ENDPOINT_SLICES)}


def edited(endpoint_slice: EndpointSlice, ip: str) -> EndpointSlice:
    return EndpointSlice(
        metadata=endpoint_slice.metadata, address_type="IPv4", endpoints=(Endpoint(addresses=(ip,)),)
    )


def texts(done: SliceWrites) -> list[str]:
    return [failure.text for failure in done.failures]


async def test_creates_precede_updates_and_updates_precede_deletes() -> None:
    """S-71, M-41."""
    bench = Bench()
    old, doomed = bench.stored("a"), bench.stored("b")
    done = await bench.writer.write(
        OWNER, create=[new("10.0.0.2"), new("10.0.0.3")], update=[edited(old, "10.0.0.4")], delete=[doomed]
    )
    assert bench.verbs == ["create", "create", "update", "delete"]
    assert done == SliceWrites(created=2, updated=1, deleted=1)
    assert len(bench.told.wrote_pairs) == 3
    assert bench.told.gone_items == [("b", doomed.metadata.uid)]


async def test_the_response_is_reported_with_the_sent_slice() -> None:
    bench = Bench()
    endpoint_slice = new("10.0.0.2")
    await bench.writer.write(OWNER, create=[endpoint_slice])
    ((sent, answer),) = bench.told.wrote_pairs
    assert sent is endpoint_slice
    assert answer.metadata.uid
    assert answer.endpoints is endpoint_slice.endpoints  # kept once, not twice


async def test_a_different_response_is_reported_unchanged() -> None:
    bench = Bench()
    bench.server.metadata_only = False
    bench.server.admission = lambda body: edited(body, "10.0.0.9")
    await bench.writer.write(OWNER, create=[new("10.0.0.1")])
    ((_, answer),) = bench.told.wrote_pairs
    assert answer.endpoints == (Endpoint(addresses=("10.0.0.9",)),)


async def test_empty_lists_are_reported_as_they_are_read_back() -> None:
    """S-53: otherwise the watch would report a spurious difference."""
    bench = Bench()
    await bench.writer.write(OWNER, create=[new()])
    ((_, answer),) = bench.told.wrote_pairs
    assert (answer.endpoints, answer.ports) == (None, None)


async def test_writes_of_one_kind_are_concurrent_but_kinds_do_not_mix() -> None:
    bench = Bench(at_once=8)
    old = bench.stored("a")
    under_way: list[str] = []
    most: dict[str, int] = {}

    async def note(call: Call) -> None:
        under_way.append(call.verb)
        assert len(set(under_way)) == 1
        most[call.verb] = max(most.get(call.verb, 0), len(under_way))
        await asyncio.sleep(0)
        under_way.remove(call.verb)

    bench.server.before_each = note
    await bench.writer.write(
        OWNER, create=[new(f"10.0.0.{n}") for n in range(1, 5)], update=[edited(old, "10.0.1.1")]
    )
    assert most == {"create": 4, "update": 1}


async def test_a_rejected_slice_does_not_block_the_others() -> None:
    """Upstream stops at the first failure, so one bad port list blocks all others permanently."""
    bench = Bench()
    old, doomed = bench.stored("a"), bench.stored("b")
    bench.server.fail_next(status_error(422, "Invalid", "ports: Duplicate value"), verb="create")
    done = await bench.writer.write(
        OWNER, create=[new("10.0.0.2"), new("10.0.0.3")], update=[edited(old, "10.0.0.4")], delete=[doomed]
    )
    assert bench.verbs == ["create", "create", "update"]
    assert texts(done) == [f"failed to create EndpointSlice for {OWNER}: ports: Duplicate value"]
    assert (done.created, done.updated, done.deleted) == (1, 1, 0)
    assert done.failures[0].refused


async def test_nothing_is_deleted_if_its_replacement_could_not_be_written() -> None:
    bench = Bench()
    doomed = bench.stored("b")
    bench.server.fail_next(status_error(422, "Invalid"), verb="create")
    await bench.writer.write(OWNER, create=[new("10.0.0.2")], delete=[doomed])
    assert bench.names == {"b"}


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("connection to 10.0.0.1:6443 refused"),
        RequestTimedOutError("no answer"),
        status_error(500, "InternalError"),
        status_error(503, "ServiceUnavailable"),
        status_error(429, "TooManyRequests", retry_after_seconds=7),
    ],
)
async def test_no_further_write_starts_if_the_server_is_unavailable(error: Exception) -> None:
    bench = Bench()
    old = bench.stored("a")
    bench.server.fail_next(error)
    done = await bench.writer.write(OWNER, create=[new("10.0.0.2")], update=[edited(old, "10.0.0.4")])
    assert bench.verbs == ["create"]
    (failure,) = done.failures
    assert not failure.refused
    assert not failure.outdated
    assert failure.retry_after_seconds == (7 if "TooMany" in type(error).__name__ else None)


async def test_a_terminating_namespace_ends_the_writes_without_a_failure() -> None:
    """S-72, M-41; k/k#38612."""
    bench = Bench()
    old = bench.stored("a")
    bench.server.terminating_namespaces.add("default")
    done = await bench.writer.write(OWNER, create=[new("10.0.0.2")], update=[edited(old, "10.0.0.4")])
    assert done == SliceWrites(abandoned=True)
    assert bench.verbs == ["create"]


async def test_any_other_rejection_of_a_create_is_a_failure() -> None:
    bench = Bench()
    bench.server.fail_next(status_error(403, "Forbidden", "exceeded quota"))
    done = await bench.writer.write(OWNER, create=[new("10.0.0.2")])
    assert texts(done) == [f"failed to create EndpointSlice for {OWNER}: exceeded quota"]
    assert not done.abandoned


async def test_an_update_of_a_changed_slice_reads_the_current_one() -> None:
    """S-74: a conflict, and a plan from the current state."""
    bench = Bench()
    seen = bench.stored("a")
    now = bench.server.update_foreign(ENDPOINT_SLICES, edited(seen, "10.0.0.9"))
    done = await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])
    (failure,) = done.failures
    assert failure.outdated
    assert failure.text.startswith(f"failed to update a EndpointSlice for {OWNER}: ")
    assert bench.told.found_items == [now]
    assert bench.told.gone_items == []


async def test_an_update_of_a_deleted_slice_reports_the_deletion() -> None:
    bench = Bench()
    seen = bench.stored("a")
    bench.server.delete_foreign(ENDPOINT_SLICES, key_of(seen))
    done = await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])
    assert done.failures[0].outdated
    assert bench.told.gone_items == [("a", seen.metadata.uid)]


async def test_an_update_of_a_recreated_slice_reports_deletion_and_new_slice() -> None:
    bench = Bench()
    seen = bench.stored("a")
    bench.server.delete_foreign(ENDPOINT_SLICES, key_of(seen))
    another = bench.stored("a")
    done = await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])
    assert done.failures[0].outdated
    assert bench.told.gone_items == [("a", seen.metadata.uid)]
    assert bench.told.found_items == [another]


async def test_a_conflict_that_cannot_be_read_is_left_to_the_watch() -> None:
    bench = Bench()
    seen = bench.stored("a")
    bench.server.update_foreign(ENDPOINT_SLICES, edited(seen, "10.0.0.9"))
    bench.server.fail_next(status_error(503, "ServiceUnavailable"), verb="get")
    done = await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])
    assert not done.failures[0].outdated
    assert bench.told.found_items == []


async def test_a_404_that_names_no_object_is_a_failure() -> None:
    """A starting server, or a proxy in front of it, returns it for any path."""
    bench = Bench()
    seen, doomed = bench.stored("a"), bench.stored("b")
    nothing_here = status_error(404, "", "404 page not found")
    bench.server.fail_next(nothing_here, verb="update")
    bench.server.fail_next(nothing_here, verb="delete")
    (failure,) = (await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])).failures
    assert not failure.outdated
    (failure,) = (await bench.writer.write(OWNER, delete=[doomed])).failures
    assert not failure.outdated
    assert bench.told.gone_items == []


async def test_a_read_with_an_unnamed_404_reports_nothing() -> None:
    bench = Bench()
    seen = bench.stored("a")
    bench.server.update_foreign(ENDPOINT_SLICES, edited(seen, "10.0.0.9"))
    bench.server.fail_next(status_error(404, "", "404 page not found"), verb="get")
    (failure,) = (await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])).failures
    assert not failure.outdated
    assert bench.told.gone_items == []


async def test_a_slice_deleted_before_its_read_is_reported_as_deleted() -> None:
    bench = Bench()
    seen = bench.stored("a")
    bench.server.update_foreign(ENDPOINT_SLICES, edited(seen, "10.0.0.9"))

    async def delete_first(call: Call) -> None:
        if call.verb == "get":
            bench.server.delete_foreign(ENDPOINT_SLICES, key_of(seen))

    bench.server.before_each = delete_first
    done = await bench.writer.write(OWNER, update=[edited(seen, "10.0.0.4")])
    assert done.failures[0].outdated
    assert bench.told.gone_items == [("a", seen.metadata.uid)]


async def test_an_already_deleted_slice_counts_as_deleted() -> None:
    """M-10 and S-72 call it an error."""
    bench = Bench()
    doomed = bench.stored("b")
    bench.server.delete_foreign(ENDPOINT_SLICES, key_of(doomed))
    done = await bench.writer.write(OWNER, delete=[doomed])
    assert done == SliceWrites(deleted=1)
    assert bench.told.gone_items == [("b", doomed.metadata.uid)]


async def test_another_slice_with_the_same_name_is_not_deleted() -> None:
    bench = Bench()
    doomed = bench.stored("b")
    bench.server.delete_foreign(ENDPOINT_SLICES, key_of(doomed))
    another = bench.stored("b")
    done = await bench.writer.write(OWNER, delete=[doomed])
    assert done.failures[0].outdated
    assert bench.names == {"b"}
    assert bench.told.found_items == [another]


async def test_all_slices_are_deleted_even_if_some_deletes_fail() -> None:
    """M-10."""
    bench = Bench()
    doomed = [bench.stored(name) for name in "abc"]
    bench.server.fail_next(status_error(500, "InternalError", "etcd is busy"))
    done = await bench.writer.delete_all(OWNER, doomed)
    assert bench.verbs == ["delete"] * 3
    assert done.deleted == 2
    assert texts(done) == [f"failed to delete a EndpointSlice for {OWNER}: etcd is busy"]
    assert bench.names == {"a"}


async def test_an_empty_plan_sends_no_request() -> None:
    bench = Bench()
    assert await bench.writer.write(OWNER) == SliceWrites()
    assert await bench.writer.delete_all(OWNER, []) == SliceWrites()
    assert bench.verbs == []


async def test_responses_before_a_cancellation_have_been_reported() -> None:
    bench = Bench()
    held = asyncio.Event()

    async def hold_the_second(call: Call) -> None:
        if len(bench.server.calls) == 2:
            held.set()
            await asyncio.Event().wait()

    bench.server.before_each = hold_the_second
    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            bench.writer.write(OWNER, create=[new("10.0.0.2"), new("10.0.0.3")]), name="writing"
        )
        await held.wait()
        task.cancel()
    assert len(bench.told.wrote_pairs) == 1
