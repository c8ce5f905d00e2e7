"""The endpoints of pods by address, changed one at a time, compared with sorting all of them."""

from hypothesis import given
from hypothesis import strategies as st

from aiokube.api.meta import ObjectKey
from aiokube.discovery.address_order import AddressOrder
from aiokube.discovery.endpoint import EndpointView

PODS = [ObjectKey("ns1", name) for name in "abcdef"]
VIEWS = st.builds(
    EndpointView,
    ip=st.sampled_from(["10.0.0.1", "10.0.0.10", "10.0.0.2"]),
    port=st.sampled_from([80, 8080]),
    ready=st.booleans(),
    terminating=st.booleans(),
)
CHANGES = st.lists(st.tuples(st.sampled_from(PODS), st.none() | VIEWS), max_size=40)


def full_sort(views: dict[ObjectKey, EndpointView]) -> tuple[EndpointView, ...]:
    found: dict[str, list[EndpointView]] = {}
    for _, view in sorted(views.items()):
        found.setdefault(view.address, []).append(view)
    return tuple(
        min(same, key=lambda view: (view.terminating, not view.ready)) for _, same in sorted(found.items())
    )


@given(CHANGES)
def test_the_incremental_order_equals_a_full_sort_after_every_change(
    changes: list[tuple[ObjectKey, EndpointView | None]],
) -> None:
    order, views = AddressOrder(), dict[ObjectKey, EndpointView]()
    for pod, view in changes:
        if view is None:
            order.remove(pod)
            views.pop(pod, None)
        else:
            order.put(pod, view)
            views[pod] = view
        assert order.endpoints() == full_sort(views)
        assert len(order) == len(views)


def test_a_non_terminating_pod_takes_precedence_for_an_address() -> None:
    order = AddressOrder()
    order.put(PODS[0], EndpointView(ip="10.0.0.1", port=80, ready=False, terminating=True))
    order.put(PODS[1], EndpointView(ip="10.0.0.1", port=80))
    assert [view.ready for view in order.endpoints()] == [True]
    order.remove(PODS[1])
    assert [view.ready for view in order.endpoints()] == [False]
