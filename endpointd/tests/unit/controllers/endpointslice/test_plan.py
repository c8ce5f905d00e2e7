"""The planned creates, updates and deletes of slices (behaviour 2.6 to 2.9)."""

import msgspec
import pytest

from aiokube.api.core import NamedPort, Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForZone,
)
from aiokube.api.endpoints import HEADLESS_LABEL, LAST_CHANGE_TRIGGER_TIME_ANNOTATION
from aiokube.testing.builders import (
    HTTP,
    edited,
    make_endpoint,
    make_owner,
    make_pod,
    make_pods,
    make_service,
    make_service_port,
    make_slice,
)
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.state import ServicePlan, ServiceState

SERVICE = make_service()
TIME = "2026-01-01T00:00:07Z"


def zone_of(node: str) -> str | None:
    return "zone-a" if node == "node-1" else None


def plan_service(
    pods: list[Pod],
    slices: list[EndpointSlice],
    *,
    service: Service = SERVICE,
    limit: int = 100,
    time: str | None = None,
) -> ServicePlan:
    return ServiceState.build(service, zone_of, pods, slices).plan(limit, time)


def plan(
    pods: list[Pod],
    slices: list[EndpointSlice],
    *,
    service: Service = SERVICE,
    limit: int = 100,
    time: str | None = None,
) -> AddressTypePlan:
    """Plan a service of one address type with every slice dirty."""
    families = plan_service(pods, slices, service=service, limit=limit, time=time).address_type_plans
    return families[0][1] if families else AddressTypePlan()


def filled(
    name: str, pods: list[Pod], *, service: Service = SERVICE, ports: tuple[EndpointPort, ...] = (HTTP,)
) -> EndpointSlice:
    """Return a slice that contains these pods correctly."""
    return make_slice(service, name, [make_endpoint(pod) for pod in pods], ports=ports)


def sizes(slices: tuple[EndpointSlice, ...]) -> list[int]:
    return [len(endpoint_slice.endpoints or ()) for endpoint_slice in slices]


def names(slices: tuple[EndpointSlice, ...]) -> list[str]:
    return [endpoint_slice.metadata.name for endpoint_slice in slices]


def pods_in(endpoint_slice: EndpointSlice) -> list[str]:
    return [
        endpoint.target_ref.name or "" for endpoint in endpoint_slice.endpoints or () if endpoint.target_ref
    ]


# ------------------------------------------------------------------------------- the vectors of S-47


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (50, [50, 50, 50, 50, 50]),
        (80, [80, 80, 80, 10]),
        (100, [100, 100, 50]),
        (150, [150, 100]),
        (250, [250]),
        (500, [250]),
    ],
)
def test_new_endpoints_fill_slices_up_to_the_limit(limit: int, expected: list[int]) -> None:
    """S-41, S-43, S-47."""
    made = plan(make_pods(250), [], limit=limit)
    assert sizes(made.create) == expected
    assert (made.update, made.delete, made.added, made.removed) == ((), (), 250, 0)
    assert sorted(pod for endpoint_slice in made.create for pod in pods_in(endpoint_slice)) == [
        pod.metadata.name for pod in make_pods(250)
    ]


def test_the_remainder_goes_into_the_slice_that_becomes_fullest() -> None:
    """S-43, S-47: 62 + 61 stored, 250 wanted."""
    pods = make_pods(250)
    made = plan(pods, [filled("web-a", pods[:61]), filled("web-b", pods[61:123])])
    assert sizes(made.create) == [100]
    assert (names(made.update), sizes(made.update)) == (["web-b"], [89])
    assert made.delete == ()


def test_the_remainder_is_never_split_over_several_slices() -> None:
    """S-43, S-47: 74 + 74 stored, 300 wanted: four slices where three would do."""
    pods = make_pods(300)
    made = plan(pods, [filled("web-a", pods[:74]), filled("web-b", pods[74:148])])
    assert sizes(made.create) == [100, 52]
    assert (made.update, made.delete) == ((), ())


def test_slices_with_changes_are_filled_first_starting_with_the_fullest() -> None:
    """S-42, S-47: 80 + 20 all changed, 15 new."""
    stored = make_pods(100, ready=False)
    slices = [filled("web-a", stored[:20]), filled("web-b", stored[20:])]
    made = plan(make_pods(115), slices)
    assert (made.create, made.delete) == ((), ())
    assert dict(zip(names(made.update), sizes(made.update), strict=True)) == {"web-a": 20, "web-b": 95}


def test_ten_slices_of_thirty_become_three_when_the_port_changes() -> None:
    """S-46, S-70, S-47: names are used again, and creates take their deletes from the front."""
    pods = make_pods(300)
    slices = [filled(f"web-{number}", pods[number * 30 : number * 30 + 30]) for number in range(10)]
    assert plan(pods, slices).is_empty
    made = plan(pods, slices, service=make_service(ports=(make_service_port(80, 81),)))
    assert made.create == ()
    assert (names(made.update), sizes(made.update)) == (["web-0", "web-1", "web-2"], [100, 100, 100])
    assert names(made.delete) == [f"web-{number}" for number in range(3, 10)]
    assert made.added == made.removed == 300


def test_a_named_port_with_five_numbers_makes_five_groups() -> None:
    """S-30, S-47."""
    service = make_service(ports=(make_service_port(80, "http"),))
    pods = [
        make_pod(
            f"pod-{number:03}",
            f"10.0.{number // 250}.{number % 250 + 1}",
            named_ports=(NamedPort("http", "TCP", 8080 + number % 5),),
        )
        for number in range(300)
    ]
    made = plan(pods, [], service=service)
    assert sizes(made.create) == [60] * 5
    assert sorted((endpoint_slice.ports or ())[0].port or 0 for endpoint_slice in made.create) == [
        8080,
        8081,
        8082,
        8083,
        8084,
    ]
    assert {(endpoint_slice.ports or ())[0].name for endpoint_slice in made.create} == {""}


def test_a_target_port_change_rewrites_every_slice_in_place() -> None:
    """TestReconcileEndpointSlicesUpdating: no create, no delete."""
    pods = make_pods(250)
    slices = [filled("web-a", pods[:100]), filled("web-b", pods[100:200]), filled("web-c", pods[200:])]
    made = plan(pods, slices, service=make_service(ports=(make_service_port(80, 81),)))
    assert (made.create, made.delete) == ((), ())
    assert sorted(sizes(made.update)) == [50, 100, 100]


# ----------------------------------------------------------------------------------- step by step


def test_a_correct_slice_is_not_written() -> None:
    """S-40."""
    pods = make_pods(3)
    made = plan(pods, [filled("web-a", pods[:2]), filled("web-b", pods[2:])])
    assert made.is_empty
    assert (made.added, made.removed) == (0, 0)


def test_kept_endpoints_keep_their_order_and_new_ones_are_appended() -> None:
    """S-40, S-45."""
    pods = make_pods(5)
    stored = filled("web-a", [pods[3], pods[1], make_pod("gone", "10.9.9.9"), pods[0]])
    made = plan(pods, [stored])
    assert [pods_in(endpoint_slice) for endpoint_slice in made.update] == [
        ["pod-00004", "pod-00002", "pod-00001", "pod-00003", "pod-00005"]
    ]
    assert (made.added, made.removed) == (2, 1)


def test_a_duplicate_endpoint_is_kept_once() -> None:
    """S-40: in one slice, or in two."""
    pods = make_pods(3)
    made = plan(pods, [filled("web-a", [pods[0], pods[0], pods[1]]), filled("web-b", [pods[1], pods[2]])])
    assert [pods_in(endpoint_slice) for endpoint_slice in made.update] == [
        ["pod-00001", "pod-00002"],
        ["pod-00003"],
    ]
    assert (made.added, made.removed) == (0, 2)


def test_an_emptied_slice_is_deleted() -> None:
    """S-40."""
    pods = make_pods(2)
    made = plan(pods, [filled("web-a", pods), filled("web-b", [make_pod("gone", "10.9.9.9")])])
    assert (made.create, made.update) == ((), ())
    assert names(made.delete) == ["web-b"]


def test_an_endpoint_without_a_pod_or_of_another_namespace_is_dropped() -> None:
    """S-33, S-40."""
    (pod,) = make_pods(1)
    elsewhere = make_pod("pod-00001", pod.pod_ips[0], namespace="other")
    strangers: list[Endpoint] = [
        Endpoint(addresses=("10.0.0.9",)),
        make_endpoint(elsewhere),
        make_endpoint(pod),
    ]
    made = plan([pod], [make_slice(SERVICE, "web-a", strangers)])
    assert [pods_in(endpoint_slice) for endpoint_slice in made.update] == [["pod-00001"]]
    assert made.removed == 2


def test_a_changed_endpoint_is_replaced_in_place() -> None:
    """S-40: and unrequested hints are removed with it."""
    pods = make_pods(3)
    hinted = msgspec.structs.replace(
        make_endpoint(pods[0]), hints=EndpointHints(for_zones=(ForZone("zone-x"),))
    )
    unready = make_endpoint(pods[1], ready=False, serving=False)
    made = plan(pods, [make_slice(SERVICE, "web-a", [hinted, unready, make_endpoint(pods[2])])])
    (endpoint_slice,) = made.update
    assert endpoint_slice.endpoints == tuple(make_endpoint(pod) for pod in pods)
    assert (made.added, made.removed) == (0, 0)


def test_traffic_removals_are_written_first() -> None:
    """A batch with both first stops traffic to removed endpoints, then adds new ones."""
    pods = make_pods(6)
    ready_again = make_slice(SERVICE, "web-a", [make_endpoint(pods[0], ready=False, serving=False)])
    one_gone = filled("web-b", [pods[1], make_pod("gone")])
    one_unready = filled("web-c", pods[2:4])
    right = filled("web-d", pods[4:])
    pods[3] = msgspec.structs.replace(pods[3], ready=False)
    assert names(plan(pods, [ready_again, one_gone, one_unready, right]).update) == [
        "web-b",
        "web-c",
        "web-a",
    ]


def test_a_label_of_the_service_reaches_every_slice() -> None:
    """S-40, S-60."""
    pods = make_pods(3)
    slices = [filled("web-a", pods[:1]), filled("web-b", pods[1:])]
    made = plan(pods, slices, service=make_service(labels={"tier": "front"}))
    assert [(endpoint_slice.metadata.labels or {})["tier"] for endpoint_slice in made.update] == [
        "front",
        "front",
    ]
    assert [pods_in(endpoint_slice) for endpoint_slice in made.update] == [
        ["pod-00001"],
        ["pod-00002", "pod-00003"],
    ]
    assert plan(
        pods, slices, service=make_service(labels={HEADLESS_LABEL: "x", MANAGED_BY_LABEL: "x"})
    ).is_empty


@pytest.mark.parametrize(
    "labels",
    [
        {SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: "endpointslice-controller.k8s.io", "extra": "x"},
        {SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: "endpointslice-controller.k8s.io", HEADLESS_LABEL: ""},
    ],
)
def test_extra_labels_are_removed_including_the_headless_one(labels: dict[str, str]) -> None:
    """S-60 compares the reserved ones not at all, so that a wrong headless label stays; here it does not."""
    (pod,) = make_pods(1)
    made = plan([pod], [edited(filled("web-a", [pod]), labels=labels)])
    assert [endpoint_slice.metadata.labels for endpoint_slice in made.update] == [
        make_slice(SERVICE).metadata.labels
    ]


def test_an_empty_slice_of_a_wanted_port_set_is_kept_and_filled() -> None:
    """S-40, S-43: as of a headless service without ports."""
    service = make_service(cluster_ip="None", ports=())
    (pod,) = make_pods(1)
    empty = make_slice(service, "web-a", ports=())
    made = plan([pod], [empty], service=service)
    assert [pods_in(endpoint_slice) for endpoint_slice in made.update] == [["pod-00001"]]
    held = filled("web-b", [pod], service=service, ports=())
    assert plan([pod], [empty, held], service=service).is_empty
    assert plan([pod], [edited(held, ports=())], service=service).is_empty
    assert plan([pod], [edited(held, ports=None)], service=service).is_empty


def test_exactly_the_limit_needs_no_existing_capacity() -> None:
    """S-43: strictly fewer than the limit."""
    pods = make_pods(4)
    made = plan(pods, [make_slice(SERVICE, "web-a")], limit=4)
    assert sizes(made.create) == [4]
    made = plan(pods[:3], [make_slice(SERVICE, "web-a")], limit=4)
    assert (made.create, sizes(made.update)) == ((), [3])


def test_equal_capacity_prefers_the_first_name_and_full_slices_are_skipped() -> None:
    pods = make_pods(6)
    slices = [filled("web-c", pods[:1]), filled("web-b", pods[1:2]), filled("web-a", pods[2:5])]
    made = plan(pods, slices, limit=3)
    assert (names(made.update), sizes(made.update)) == (["web-b"], [2])


def test_a_slice_above_the_limit_is_unchanged() -> None:
    """S-44: the limit was lowered."""
    pods = make_pods(6)
    assert plan(pods[:5], [filled("web-a", pods[:5])], limit=2).is_empty
    made = plan(pods, [filled("web-a", pods[:5])], limit=2)
    assert (sizes(made.create), made.update) == ([1], ())
    changed = plan(pods, [filled("web-a", [*pods[:4], make_pod("gone", "10.9.9.9")])], limit=2)
    assert (sizes(changed.create), sizes(changed.update)) == ([2], [4])


def test_half_empty_slices_are_never_merged() -> None:
    """S-44."""
    pods = make_pods(3)
    assert plan(pods, [filled(f"web-{pod.metadata.name}", [pod]) for pod in pods]).is_empty


def test_two_pods_with_the_same_address_are_two_endpoints() -> None:
    """S-32."""
    made = plan([make_pod("a"), make_pod("b")], [])
    assert sizes(made.create) == [2]


def test_slices_of_an_unwanted_port_set_are_deleted_and_their_names_recycled() -> None:
    """S-46, S-70."""
    pods = make_pods(1)
    other = EndpointPort(name="", protocol="TCP", port=9)
    made = plan(pods, [filled("web-a", pods, ports=(other,)), filled("web-b", pods, ports=(other,))])
    assert (made.create, names(made.update), names(made.delete)) == ((), ["web-a"], ["web-b"])


# ------------------------------------------------------------------------------------------ placeholder


def test_a_service_without_endpoints_has_one_empty_slice() -> None:
    """S-50, S-53."""
    made = plan([], [])
    (endpoint_slice,) = made.create
    assert (endpoint_slice.endpoints, endpoint_slice.ports) == ((), ())
    assert endpoint_slice.metadata.labels == make_slice(SERVICE).metadata.labels


@pytest.mark.parametrize("emptiness", [None, ()])
def test_an_existing_placeholder_is_kept(emptiness: tuple[()] | None) -> None:
    """S-50: only namespace, labels, type, ports and endpoints matter."""
    placeholder = edited(
        make_slice(SERVICE, "odd-name", annotations={"a": "b"}, generation=7),
        ports=emptiness,
        endpoints=emptiness,
    )
    assert plan([], [placeholder]).is_empty


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {**(make_slice(SERVICE).metadata.labels or {}), "odd": "yes"}},
        {"ports": (HTTP,)},
        {"endpoints": (make_endpoint(make_pod("gone")),), "ports": (HTTP,)},
    ],
)
def test_the_last_slice_becomes_the_placeholder_in_place(change: dict[str, object]) -> None:
    """S-50, S-52."""
    made = plan([], [edited(make_slice(SERVICE, "web-a", ports=()), **change)])
    assert (made.create, made.delete) == ((), ())
    (endpoint_slice,) = made.update
    assert (endpoint_slice.metadata.name, endpoint_slice.endpoints, endpoint_slice.ports) == ("web-a", (), ())


def test_the_first_of_several_obsolete_slices_becomes_the_placeholder() -> None:
    """S-50, S-70; TestSyncServiceEndpointSliceLabelSelection: an update, then a delete."""
    made = plan([], [make_slice(SERVICE, "web-b"), make_slice(SERVICE, "web-a")])
    assert (made.create, names(made.update), names(made.delete)) == ((), ["web-a"], ["web-b"])


def test_one_of_several_placeholders_is_kept_unchanged() -> None:
    """S-50 rewrites the first of them; here it is kept unchanged."""
    placeholders = [make_slice(SERVICE, name, ports=()) for name in ("web-b", "web-a")]
    made = plan([], [*placeholders, edited(make_slice(SERVICE, "web-0"), owner_references=None)])
    assert (made.create, made.update, names(made.delete), made.unchanged) == (
        (),
        (),
        ["web-0", "web-b"],
        ("web-a",),
    )


def test_a_placeholder_is_recycled_when_pods_appear() -> None:
    """S-52."""
    made = plan(make_pods(2), [make_slice(SERVICE, "web-a", ports=())])
    assert (made.create, names(made.update), made.delete) == ((), ["web-a"], ())
    assert (made.update[0].ports, sizes(made.update)) == ((HTTP,), [2])


def test_a_placeholder_of_an_earlier_service_is_replaced() -> None:
    """S-51: upstream keeps it, and lacks a placeholder once it is collected."""
    theirs = make_slice(SERVICE, "web-a", ports=(), owner=make_owner(make_service(uid="earlier")))
    made = plan([], [theirs])
    assert (sizes(made.create), made.update, names(made.delete)) == ([0], (), ["web-a"])


def test_no_placeholder_is_kept_next_to_another_slice() -> None:
    pods = make_pods(1)
    made = plan(pods, [filled("web-a", pods), make_slice(SERVICE, "web-b", ports=())])
    assert (made.create, made.update, names(made.delete)) == ((), (), ["web-b"])


# --------------------------------------------------------------------------------------------- owners


def test_a_slice_of_an_earlier_service_is_deleted_and_never_updated() -> None:
    """S-30; TestReconcileEndpointSlicesRecreation: create, then delete."""
    pods = make_pods(2)
    theirs = edited(filled("web-a", pods), owner_references=(make_owner(make_service(uid="earlier")),))
    made = plan(pods, [theirs])
    assert (sizes(made.create), made.update, names(made.delete)) == ([2], (), ["web-a"])
    assert plan(pods, [filled("web-a", pods)]).is_empty


def test_slices_without_our_owner_reference_are_not_recycled() -> None:
    """S-70."""
    pods = make_pods(2)
    theirs = edited(make_slice(SERVICE, "web-a"), owner_references=None)
    made = plan(pods, [theirs, make_slice(SERVICE, "web-b", ports=())])
    assert (made.create, names(made.update), names(made.delete)) == ((), ["web-b"], ["web-a"])


# --------------------------------------------------------------------------------- what writes carry


def annotations(endpoint_slice: EndpointSlice) -> dict[str, str]:
    return dict(endpoint_slice.metadata.annotations or {})


def test_every_written_slice_carries_the_trigger_time_and_drops_an_old_one() -> None:
    """S-62."""
    pods = make_pods(3)
    stale = {LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "old", "mine": "kept"}
    slices = [
        edited(filled("web-a", pods[:1]), annotations=stale),
        edited(filled("web-b", []), annotations=stale),
    ]
    with_time = plan(pods, slices, time=TIME, limit=1)
    written = [*with_time.create, *with_time.update]
    assert {
        annotations(endpoint_slice)[LAST_CHANGE_TRIGGER_TIME_ANNOTATION] for endpoint_slice in written
    } == {TIME}
    assert "web-a" not in names(tuple(written))  # correct slices are not rewritten for it
    without = plan(pods, slices, limit=3)
    assert [annotations(endpoint_slice) for endpoint_slice in without.update] == [{"mine": "kept"}]
    assert [annotations(endpoint_slice) for endpoint_slice in plan(pods, []).create] == [{}]


def test_an_update_keeps_other_clients_metadata_and_the_version() -> None:
    """S-40, S-63, S-74."""
    pods = make_pods(2)
    stored = edited(
        filled("web-a", pods[:1]),
        annotations={"a": "b"},
        finalizers=("example.com/f",),
        resource_version="77",
    )
    (endpoint_slice,) = plan(pods, [stored]).update
    assert endpoint_slice.metadata == stored.metadata


def test_a_recycled_slice_keeps_only_its_name_and_the_observed_version() -> None:
    """S-63, S-70; unlike S-74 it carries the version it was planned from."""
    pods = make_pods(1)
    stored = edited(
        make_slice(SERVICE, "web-a", ports=()),
        annotations={"a": "b"},
        finalizers=("example.com/f",),
        resource_version="77",
    )
    (endpoint_slice,) = plan(pods, [stored]).update
    metadata = endpoint_slice.metadata
    assert (metadata.name, metadata.uid, metadata.resource_version) == ("web-a", "web-a-uid", "77")
    assert (metadata.annotations, metadata.finalizers, metadata.generate_name) == (None, None, "web-")
    assert metadata.owner_references == (make_owner(SERVICE),)


def test_no_slices_are_created_for_a_terminating_service() -> None:
    """S-73, TestReconcilerFinalizeSvcDeletionTimestamp."""
    going = make_service(terminating=True)
    pods = make_pods(3)
    assert plan(pods, [], service=going).is_empty
    made = plan(pods, [filled("web-a", pods[:1])], service=going, limit=1)
    assert made.is_empty
    recycled = plan(pods, [make_slice(SERVICE, "web-a", ports=())], service=going)
    assert (recycled.create, names(recycled.update)) == ((), ["web-a"])
    deleting = plan(pods[:1], [filled("web-a", pods[:1]), filled("web-b", pods[1:2])], service=going)
    assert names(deleting.delete) == ["web-b"]


def test_a_pod_on_an_unknown_node_is_removed_and_its_slice_becomes_the_placeholder() -> None:
    """TestReconcilerPodMissingNode."""
    lost = [make_pod(f"pod-{number}", f"10.0.0.{number}", node_name="gone") for number in (1, 2)]
    known = make_pod("pod-3", "10.0.0.3")
    made = plan([*lost, known], [filled("web-a", [*lost, known])])
    assert [pods_in(endpoint_slice) for endpoint_slice in made.update] == [["pod-3"]]
    made = plan(lost, [filled("web-a", lost)])
    assert (made.create, made.delete, made.removed) == ((), (), 2)
    assert [(endpoint_slice.endpoints, endpoint_slice.ports) for endpoint_slice in made.update] == [((), ())]
    publishing = make_service(publish_not_ready_addresses=True)
    kept = [make_endpoint(pod, zone=None) for pod in lost]
    assert plan(lost, [make_slice(publishing, "web-a", kept)], service=publishing).is_empty


def test_slices_of_unwanted_address_types_are_deleted_and_never_recycled() -> None:
    """S-22, TestReconcileEndpointSlicesReplaceDeprecated."""
    pods = make_pods(130)
    old = [
        edited(filled("web-b", pods[:80]), address_type="IP"),
        edited(filled("web-a", pods[80:]), address_type="FQDN"),
        edited(filled("web-c", []), address_type="IPv6"),
    ]
    made = plan_service(pods, old)
    (family,) = [family_plan for _, family_plan in made.address_type_plans]
    assert (sizes(family.create), family.update, family.delete) == ([100, 30], (), ())
    assert [endpoint_slice.metadata.name for endpoint_slice in made.strays] == ["web-a", "web-b", "web-c"]


def test_plans_are_independent_of_the_order_of_pods_and_slices() -> None:
    """Upstream is random here (S-45); a deterministic plan can be tested."""
    pods = make_pods(30)
    slices = [filled(f"web-{number}", pods[number * 5 : number * 5 + 3]) for number in range(4)]
    one = plan(pods, slices, limit=7, time=TIME)
    two = plan(pods[::-1], slices[::-1], limit=7, time=TIME)
    assert one == two
    assert not one.is_empty
