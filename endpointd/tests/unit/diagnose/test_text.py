"""An explanation is a readable page: healthy pods are summarised, problems have their reasons."""

from datetime import UTC, datetime

import msgspec

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.testing.builders import make_node, make_pod, make_pods, make_service
from endpointd.diagnose.explain import explain_service
from endpointd.diagnose.plan import planned
from endpointd.diagnose.reasons import human_duration
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot
from endpointd.diagnose.text import Style, service_text

WEB = ObjectKey("default", "web")
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def page(snapshot: Snapshot, *, colours: bool = False) -> str:
    slices = tuple(item for item in planned(snapshot) if isinstance(item, EndpointSlice))
    world = ClusterIndex(msgspec.structs.replace(snapshot, slices=slices))
    return service_text(explain_service(world, WEB, NOW), Style(colours=colours, width=100))


def labelled(count: int) -> tuple[object, ...]:
    return tuple(msgspec.structs.replace(pod, labels={"app": "web"}) for pod in make_pods(count))


def test_many_healthy_pods_are_counted_and_the_others_listed() -> None:
    bad = make_pod("web-bad", "10.9.0.1", labels={"app": "web"}, ready=False)
    text = page(Snapshot(services=(make_service(),), nodes=(make_node(),), pods=(*labelled(500), bad)))  # type: ignore[arg-type]
    assert "500 pods  in, ready: pod-00001, pod-00002, pod-00003 and 497 more" in text
    assert text.startswith("default/web 500 of 501 pods are ready; of the others: the pod is not ready\n")
    assert text.index("web-bad") < text.index("500 pods  in, ready")
    assert "web-bad  in, not ready" in text
    assert len(text.splitlines()) < 30


def test_few_healthy_pods_are_listed_with_their_slices() -> None:
    text = page(Snapshot(services=(make_service(),), nodes=(make_node(),), pods=labelled(2)))  # type: ignore[arg-type]
    assert "pod-00001  in, ready" in text
    assert "10.0.0.2 in web-" in text


def test_colours_are_used_only_on_terminals() -> None:
    snapshot = Snapshot(
        services=(make_service(),), nodes=(make_node(),), pods=(make_pod(labels={"app": "web"}),)
    )
    assert "\x1b[" in page(snapshot, colours=True)
    assert "\x1b[" not in page(snapshot)


def test_a_service_without_related_pods_is_reported_as_such() -> None:
    text = page(Snapshot(services=(make_service(),)))
    assert "No related pods" in text


def test_a_pod_truncated_from_the_endpoints_is_reported_as_such() -> None:
    """E-40: the Endpoints of a service hold at most 1,000 addresses."""
    snapshot = Snapshot(services=(make_service(),), nodes=(make_node(),), pods=labelled(1003))  # type: ignore[arg-type]
    items = planned(snapshot)
    slices = tuple(item for item in items if isinstance(item, EndpointSlice))
    rest = tuple(item for item in items if not isinstance(item, EndpointSlice))
    world = ClusterIndex(msgspec.structs.replace(snapshot, slices=slices, endpoints=rest))
    found = explain_service(world, WEB, NOW)
    cut = [pod for pod in found.pods if "Truncated" in [reason.code for reason in pod.reasons]]
    assert len(cut) == 3
    assert all(pod.in_endpoints is False and pod.verdict == "ready" for pod in cut)


def test_slices_of_other_managers_that_name_the_service_are_reported() -> None:
    foreign = EndpointSlice(
        metadata=ObjectMeta(name="mesh-1", namespace="default", labels={"kubernetes.io/service-name": "web"}),
        address_type="IPv4",
    )
    found = explain_service(ClusterIndex(Snapshot(services=(make_service(),), slices=(foreign,))), WEB, NOW)
    assert [reason.text for reason in found.reasons if reason.code == "OthersClaim"] == [
        "slices managed by no controller also name this service: consumers use them in addition to ours"
    ]


def test_durations_are_printed_in_the_relevant_units() -> None:
    seconds = (5, 119, 120, 200, 3600, 4 * 3600 + 60, 30 * 3600, 12 * 86_400)
    assert [human_duration(one) for one in seconds] == [
        "5s",
        "119s",
        "2m",
        "3m20s",
        "60m",
        "4h1m",
        "30h",
        "12d",
    ]
