"""A controller's own handler knows which changes are its own, and the store has them at once."""

import pytest

from endpointd.api.discovery import EndpointSlice
from endpointd.api.meta import ObjectKey
from endpointd.controllers.recording import OwnWrites
from endpointd.runtime.store import Store
from endpointd.testing.builders import make_service, make_slice

KEY = ObjectKey("default", "web-abcde")


def store_of(*slices: EndpointSlice) -> Store[EndpointSlice]:
    store: Store[EndpointSlice] = Store("slices")
    store.replace(list(slices), "1")
    return store


def test_a_handler_hears_of_our_write_as_ours_and_of_others_as_theirs() -> None:
    store = store_of()
    own = OwnWrites(store)
    heard: list[tuple[str, bool]] = []
    store.subscribe(lambda old, new: heard.append(("gone" if new is None else "there", own.under_way)))
    written = make_slice(make_service(), resource_version="5")
    own.record(written)
    assert store.get(KEY) is written
    own.record_gone(KEY, written.metadata.uid)
    assert store.get(KEY) is None
    own.record_found(make_slice(make_service(), resource_version="6"))
    own.record_gone(KEY, written.metadata.uid)
    store.record_write(make_slice(make_service(), "web-other", resource_version="9"))
    assert heard == [*2 * [("there", True), ("gone", True)], ("there", False)]


class RefusingStore(Store[EndpointSlice]):
    """Takes nothing."""

    def record_write(self, item: EndpointSlice) -> None:
        raise RuntimeError("no")


def test_a_store_that_refuses_leaves_no_mark_behind() -> None:
    own = OwnWrites(RefusingStore("slices"))
    with pytest.raises(RuntimeError, match="no"):
        own.record(make_slice(make_service()))
    assert not own.under_way
