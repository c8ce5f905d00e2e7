"""A controller recognises its own writes, stores them immediately, and accepts the server's modifications."""

import msgspec
import pytest

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import WatchEvent
from aiokube.runtime.store import Store
from aiokube.testing.builders import edited, make_endpoint, make_pod, make_service, make_slice
from endpointd.controllers.recording import WriteRecorder, slice_content

KEY = ObjectKey("default", "web-abcde")
SENT = make_slice(make_service(), endpoints=[make_endpoint(make_pod())], resource_version="5")
MADE = edited(SENT, endpoints=(msgspec.structs.replace((SENT.endpoints or ())[0], hostname="webhook"),))


class Recording:
    """A store with a recorder, and a handler like a controller's."""

    def __init__(self, *slices: EndpointSlice, version: str = "1") -> None:
        self.store: Store[EndpointSlice] = Store("slices")
        self.store.replace(list(slices), version)
        self.recorder = WriteRecorder(self.store, slice_content)
        self.told: list[tuple[str, bool]] = []
        self.answers = 0
        self.store.subscribe(self._changed)

    def _changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self.answers += self.recorder.observe(old, new)
        self.told.append(("gone" if new is None else "there", self.recorder.under_way))

    def watch(self, endpoint_slice: EndpointSlice) -> None:
        self.store.apply([WatchEvent("MODIFIED", endpoint_slice)])

    @property
    def counts_as(self) -> EndpointSlice | None:
        stored = self.store.get(KEY)
        assert stored is not None
        return self.recorder.sent_for(stored)


def test_a_handler_distinguishes_own_and_external_writes() -> None:
    world = Recording()
    written = make_slice(make_service(), resource_version="5")
    world.recorder.record(written, written)
    assert world.store.get(KEY) is written
    world.recorder.record_gone(KEY, written.metadata.uid)
    assert world.store.get(KEY) is None
    world.recorder.record_found(make_slice(make_service(), resource_version="6"))
    world.recorder.record_gone(KEY, written.metadata.uid)
    world.store.record_write(make_slice(make_service(), "web-other", resource_version="9"))
    assert world.told == [*2 * [("there", True), ("gone", True)], ("there", False)]


class RefusingStore(Store[EndpointSlice]):
    """Rejects every write."""

    def record_write(self, item: EndpointSlice) -> None:
        raise RuntimeError("no")


def test_a_store_that_raises_resets_the_own_write_mark() -> None:
    recorder = WriteRecorder(RefusingStore("slices"), slice_content)
    with pytest.raises(RuntimeError, match="no"):
        recorder.record(SENT, SENT)
    assert not recorder.under_way


def test_a_response_equal_to_the_sent_object_needs_no_mapping() -> None:
    world = Recording()
    world.recorder.record(edited(SENT, ports=()), edited(SENT, ports=None))
    assert world.counts_as is None
    world.watch(edited(SENT, ports=None))
    assert (world.counts_as, world.answers) == (None, 0)


def test_a_modified_response_counts_as_the_sent_object() -> None:
    world = Recording()
    world.recorder.record(SENT, MADE)
    assert world.store.get(KEY) == MADE
    assert world.counts_as is SENT


def test_other_content_at_the_version_of_our_write_is_its_response() -> None:
    """A metadata-only response repeats the sent content; the watch reports the server's modifications."""
    world = Recording()
    world.recorder.record(SENT, SENT)
    assert world.recorder.sent_for(SENT) is None
    world.watch(MADE)
    assert world.store.get(KEY) == MADE
    assert (world.counts_as, world.answers) == (SENT, 1)


def test_a_list_reports_the_response_like_a_watch() -> None:
    world = Recording()
    world.recorder.record(SENT, SENT)
    world.store.replace([MADE], "9")
    assert (world.counts_as, world.answers) == (SENT, 1)


def test_a_watch_faster_than_the_response_has_the_same_result() -> None:
    world = Recording()
    world.watch(MADE)
    assert (world.counts_as, world.answers) == (None, 0)
    world.recorder.record(SENT, SENT)
    assert world.counts_as is SENT


def test_a_write_reverted_by_a_webhook_counts_as_the_sent_object() -> None:
    world = Recording(MADE, version="5")
    world.recorder.record(SENT, SENT)
    assert world.store.get(KEY) == MADE
    assert world.counts_as is SENT


def test_an_external_change_clears_the_record_of_our_write() -> None:
    world = Recording()
    world.recorder.record(SENT, MADE)
    world.watch(edited(MADE, resource_version="6"))
    assert (world.counts_as, world.answers) == (None, 0)


def test_a_deleted_object_is_forgotten() -> None:
    world = Recording()
    world.recorder.record(SENT, MADE)
    world.store.apply([WatchEvent("DELETED", edited(MADE, resource_version="6"))])
    assert world.recorder._answers == {}


def test_the_same_version_after_a_restored_backup_is_no_response() -> None:
    world = Recording(version="4")
    world.recorder.record(SENT, MADE)
    world.watch(MADE)
    world.store.apply([WatchEvent("MODIFIED", make_slice(make_service(), "other", resource_version="8"))])
    restored = edited(MADE, labels={"restored": "from a backup"})
    world.store.replace([restored], "6")
    assert world.store.get(KEY) == restored
    assert (world.counts_as, world.answers) == (None, 0)
