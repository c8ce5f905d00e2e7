"""The planned writes of an Endpoints' slices (behaviour 3.5, 3.6)."""

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from tests.unit.controllers.mirroring.world import (
    ADMIN,
    HTTP,
    MANAGED_BY,
    OURS,
    SERVICE_NAME,
    addresses,
    change,
    labels_of,
    make_endpoints,
    members,
    subset,
)

from aiokube.api.discovery import Endpoint, EndpointHints, EndpointSlice, ForZone
from aiokube.api.endpoints import EndpointPort, Endpoints, EndpointSubset
from aiokube.api.meta import ObjectMeta, OwnerReference
from endpointd.controllers.mirroring import plan as plan_module
from endpointd.controllers.mirroring.desired import COPIED_METADATA_BYTES, mirror, new_slice
from endpointd.controllers.mirroring.plan import (
    MirrorPlan,
    plan_clean_up,
    plan_mirror,
    problems_of,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


def stored(
    endpoint_slice: EndpointSlice, name: str, *, created: str = "2026-01-01T00:00:00Z"
) -> EndpointSlice:
    """Return a slice as the server would store it."""
    return change(
        endpoint_slice,
        name=name,
        uid=f"{name}-uid",
        resource_version="5",
        creation_timestamp=created,
        endpoints=endpoint_slice.endpoints or None,
        ports=endpoint_slice.ports or None,
    )


def slices_for(item: Endpoints) -> list[EndpointSlice]:
    """Return the server's slices of a mirrored Endpoints."""
    groups = mirror(item, 1000).groups
    return [stored(new_slice(item, group), f"web-{number}") for number, group in enumerate(groups)]


def plan(item: Endpoints, slices: list[EndpointSlice] | None = None, **options: int) -> MirrorPlan:
    return plan_mirror(item, mirror(item, options.get("max", 1000)), slices or [])


def requests(made: MirrorPlan) -> tuple[int, int, int]:
    return len(made.create), len(made.update), len(made.delete)


def ips(endpoint_slice: EndpointSlice) -> list[str]:
    return [endpoint.addresses[0] for endpoint in members(endpoint_slice)]


def after(made: MirrorPlan, slices: list[EndpointSlice]) -> list[EndpointSlice]:
    """Return the slices after a plan has been executed."""
    gone = {endpoint_slice.metadata.name for endpoint_slice in made.delete}
    anew = {
        endpoint_slice.metadata.name: stored(endpoint_slice, endpoint_slice.metadata.name)
        for endpoint_slice in made.update
    }
    kept = [
        anew.get(endpoint_slice.metadata.name, endpoint_slice)
        for endpoint_slice in slices
        if endpoint_slice.metadata.name not in gone
    ]
    return kept + [
        stored(endpoint_slice, f"web-new-{number}") for number, endpoint_slice in enumerate(made.create)
    ]


# ------------------------------------------------------------------------------------- one slice per group

TWO = (
    subset("10.0.0.1", "10.0.0.2", ports=(HTTP,)),
    subset("10.0.0.3", "10.0.0.4", "10.0.0.5", ports=(ADMIN,)),
)


@pytest.mark.parametrize(
    ("subsets", "created", "endpoints"),
    [
        ((), 0, 0),
        ((subset(),), 0, 0),
        ((subset("10.0.0.1"),), 1, 1),
        ((subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.2", ports=(ADMIN,))), 2, 2),
        ((subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.1", ports=(ADMIN,))), 1, 1),
        ((subset("10.0.0.1"), subset("10.0.0.2")), 1, 2),
        ((subset("10.0.0.1", "10.0.0.2", ports=(HTTP, ADMIN)),), 1, 2),
        ((subset(not_ready=["10.0.0.1", "10.0.0.2"]),), 1, 2),
        ((subset("10.0.0.1", "10.0.0.2", not_ready=["10.0.0.3", "10.0.0.4"]),), 1, 4),
        (TWO, 2, 5),
        ((subset("10.0.0.1", "fd00::1", ports=(HTTP,)), subset("10.0.0.2", "fd00::2", ports=(ADMIN,))), 4, 4),
        ((subset("fd00::1", ports=(HTTP,)), subset("fd00::2", ports=(ADMIN,))), 2, 2),
        ((subset("nonsense", "more"),), 0, 0),
    ],
)
def test_each_group_that_has_endpoints_gets_one_slice(
    subsets: tuple[EndpointSubset, ...], created: int, endpoints: int
) -> None:
    """TestReconcile, without slices before."""
    made = plan(make_endpoints(*subsets))
    assert requests(made) == (created, 0, 0)
    assert sum(len(members(endpoint_slice)) for endpoint_slice in made.create) == endpoints
    assert made.counts.added == made.counts.endpoints == endpoints
    assert made.counts.slices_desired == made.counts.slices_actual == created


def test_correct_slices_are_not_written() -> None:
    """M-32; TestReconcile: identical slice of the same owner."""
    item = make_endpoints(*TWO, labels={"app": "db"}, annotations={"note": "x"})
    made = plan(item, slices_for(item))
    assert made.is_empty
    assert (made.counts.added, made.counts.updated, made.counts.removed) == (0, 0, 0)
    assert made.counts.slices_actual == made.counts.slices_desired == 2


def test_another_order_of_endpoints_and_ports_causes_no_write() -> None:
    """M-32: a set; and what an older kube-controller-manager wrote is not rewritten."""
    item = make_endpoints(subset("10.0.0.1", "10.0.0.2", ports=(HTTP, ADMIN)))
    (endpoint_slice,) = slices_for(item)
    jumbled = change(
        endpoint_slice,
        endpoints=tuple(reversed(members(endpoint_slice))),
        ports=tuple(reversed(endpoint_slice.ports or ())),
    )
    assert plan(item, [jumbled]).is_empty


def test_one_changed_address_of_a_thousand_writes_only_its_slice() -> None:
    before = make_endpoints(subset(*addresses(1000), ports=(HTTP,)), *TWO[1:])
    slices = slices_for(before)
    changed = make_endpoints(subset(*addresses(999), "10.99.0.1", ports=(HTTP,)), *TWO[1:])
    made = plan(changed, slices)
    assert requests(made) == (0, 1, 0)
    assert len(members(made.update[0])) == 1000
    assert "10.99.0.1" in ips(made.update[0])
    assert (made.counts.added, made.counts.updated, made.counts.removed) == (1, 0, 1)


def test_a_readiness_change_of_an_address_is_one_update() -> None:
    before = make_endpoints(subset("10.0.0.1", "10.0.0.2"))
    made = plan(make_endpoints(subset("10.0.0.1", not_ready=["10.0.0.2"])), slices_for(before))
    assert requests(made) == (0, 1, 0)
    assert (made.counts.added, made.counts.updated, made.counts.removed) == (0, 1, 0)


def test_a_slice_with_wanted_and_unwanted_addresses_is_updated() -> None:
    """TestReconcile: two subsets, an existing slice with one wanted and one unwanted address."""
    before = make_endpoints(subset("10.0.0.1", "10.0.0.99", ports=(HTTP,)))
    made = plan(make_endpoints(*TWO), slices_for(before))
    assert requests(made) == (1, 1, 0)
    assert (made.counts.added, made.counts.removed) == (4, 1)


def test_a_correct_slice_is_kept_while_another_is_created() -> None:
    """TestReconcile: two subsets, one slice exists and is identical."""
    made = plan(make_endpoints(*TWO), slices_for(make_endpoints(TWO[0])))
    assert requests(made) == (1, 0, 0)
    assert made.counts.slices_actual == 2


def test_an_endpoints_without_addresses_keeps_no_slice() -> None:
    """M-30: there is no placeholder. TestSyncEndpoints: an existing slice but no addresses."""
    slices = slices_for(make_endpoints(*TWO))
    made = plan(make_endpoints(), slices)
    assert requests(made) == (0, 0, 2)
    assert made.counts.removed == 5
    assert made.counts.slices_actual == 0


def test_slices_of_unwanted_ports_are_deleted() -> None:
    """M-30."""
    slices = slices_for(make_endpoints(*TWO))
    made = plan(make_endpoints(TWO[0]), slices)
    assert requests(made) == (0, 0, 1)
    assert [port.port for port in made.delete[0].ports or ()] == [9090]


def test_the_oldest_of_several_slices_of_a_group_is_kept() -> None:
    """M-31: upstream picks randomly."""
    item = make_endpoints(subset("10.0.0.1"))
    (endpoint_slice,) = slices_for(item)
    slices = [
        stored(endpoint_slice, "web-c", created="2026-01-02T00:00:00Z"),
        stored(endpoint_slice, "web-b", created="2026-01-01T00:00:00Z"),
        stored(endpoint_slice, "web-a", created="2026-01-02T00:00:00Z"),
    ]
    made = plan(item, slices)
    assert (made.create, made.update) == ((), ())
    assert [p.metadata.name for p in made.delete] == ["web-a", "web-c"]


def test_slices_of_another_address_type_are_deleted() -> None:
    """M-30: FQDN, say, under our labels."""
    item = make_endpoints(subset("10.0.0.1"))
    (endpoint_slice,) = slices_for(item)
    names = change(
        endpoint_slice, name="web-x", address_type="FQDN", endpoints=(Endpoint(addresses=("example.com",)),)
    )
    made = plan(item, [endpoint_slice, names])
    assert (made.create, made.update) == ((), ())
    assert [p.metadata.name for p in made.delete] == ["web-x"]


# ------------------------------------------------------------------------------------- metadata


def test_changed_labels_and_annotations_are_written_to_every_slice() -> None:
    """M-32; k/k#98116."""
    slices = slices_for(make_endpoints(*TWO, labels={"app": "db"}, annotations={"note": "x"}))
    for changed in (
        make_endpoints(*TWO, labels={"app": "db", "new": "1"}, annotations={"note": "x"}),
        make_endpoints(*TWO, labels={"app": "db"}, annotations={"note": "y"}),
        make_endpoints(*TWO, labels={}, annotations={"note": "x"}),
        make_endpoints(*TWO, labels={"app": "db"}),
    ):
        made = plan(changed, slices)
        assert requests(made) == (0, 2, 0)
        for endpoint_slice in made.update:
            assert {
                k: v for k, v in labels_of(endpoint_slice).items() if k not in (SERVICE_NAME, MANAGED_BY)
            } == (changed.metadata.labels or {})
            assert endpoint_slice.metadata.annotations == changed.metadata.annotations
        assert (made.counts.added, made.counts.updated, made.counts.removed) == (0, 0, 0)


@pytest.mark.parametrize("annotation", [LAST_APPLIED, TRIGGER_TIME])
def test_annotations_that_are_not_mirrored_cause_no_write(annotation: str) -> None:
    """M-32."""
    slices = slices_for(make_endpoints(subset("10.0.0.1")))
    assert plan(make_endpoints(subset("10.0.0.1"), annotations={annotation: "x"}), slices).is_empty


@pytest.mark.parametrize("annotation", [LAST_APPLIED, TRIGGER_TIME, "foreign"])
def test_unwanted_annotations_of_a_slice_are_removed(annotation: str) -> None:
    """M-32; TestReconcile: a slice with an extra annotation, or with last-applied-configuration."""
    item = make_endpoints(subset("10.0.0.1"))
    (endpoint_slice,) = slices_for(item)
    made = plan(item, [change(endpoint_slice, annotations={annotation: "x"})])
    assert requests(made) == (0, 1, 0)
    assert made.update[0].metadata.annotations is None


def test_endpoints_with_reserved_slice_labels_are_not_rewritten_repeatedly() -> None:
    """M-32: upstream rewrites it at every sync."""
    item = make_endpoints(subset("10.0.0.1"), labels={SERVICE_NAME: "other", MANAGED_BY: "other"})
    (endpoint_slice,) = slices_for(item)
    assert labels_of(endpoint_slice) == {SERVICE_NAME: "web", MANAGED_BY: OURS}
    assert plan(item, [endpoint_slice]).is_empty


def test_a_slice_of_an_earlier_endpoints_with_the_same_name_is_adopted() -> None:
    """M-32; k/k#125359. TestReconcile: identical but another owner uid."""
    slices = slices_for(make_endpoints(*TWO, uid="e-1"))
    made = plan(make_endpoints(*TWO, uid="e-2"), slices)
    assert requests(made) == (0, 2, 0)
    assert {owner.uid for p in made.update for owner in p.metadata.owner_references or ()} == {"e-2"}


Edit = Callable[[EndpointSlice], EndpointSlice]
EXTERNAL_EDITS: dict[str, Edit] = {
    "a missing endpoint": lambda p: change(p, endpoints=members(p)[1:]),
    "a duplicate endpoint": lambda p: change(p, endpoints=(*members(p), members(p)[0])),
    "no endpoints": lambda p: change(p, endpoints=None),
    "a changed address": lambda p: change(p, endpoints=(Endpoint(addresses=("10.66.6.6",)), *members(p)[1:])),
    "hints": lambda p: change(
        p,
        endpoints=tuple(
            msgspec.structs.replace(e, hints=EndpointHints(for_zones=(ForZone("a"),))) for e in members(p)
        ),
    ),
    "a zone": lambda p: change(p, endpoints=tuple(msgspec.structs.replace(e, zone="a") for e in members(p))),
    "an extra label": lambda p: change(p, labels={**labels_of(p), "edited": "yes"}),
    "an annotation": lambda p: change(p, annotations={"edited": "yes"}),
    "no owner": lambda p: change(p, owner_references=None),
    "another owner": lambda p: change(
        p, owner_references=(OwnerReference(api_version="v1", kind="Endpoints", name="web", uid="gone"),)
    ),
}


@pytest.mark.parametrize("edit", EXTERNAL_EDITS.values(), ids=EXTERNAL_EDITS)
def test_an_external_edit_of_a_slice_is_repaired_in_one_write(edit: Edit) -> None:
    """M-32, M-33; upstream leaves hints and owners as they are."""
    item = make_endpoints(subset("10.0.0.1", "10.0.0.2"), labels={"app": "db"})
    (endpoint_slice,) = slices_for(item)
    made = plan(item, [edit(endpoint_slice)])
    assert requests(made) == (0, 1, 0)
    (update,) = made.update
    assert plan(item, [stored(update, "web-0")]).is_empty


def test_an_update_carries_the_observed_version_and_keeps_finalizers() -> None:
    """M-33; upstream overwrites any object and removes finalizers."""
    item = make_endpoints(subset("10.0.0.1", "10.0.0.2"))
    (endpoint_slice,) = slices_for(make_endpoints(subset("10.0.0.1")))
    endpoint_slice = change(
        endpoint_slice, finalizers=("example.com/hold",), annotations={"a": "b"}, resource_version="77"
    )
    (update,) = plan(item, [endpoint_slice]).update
    assert update.metadata == msgspec.structs.replace(
        new_slice(item, mirror(item, 1000).groups[0]).metadata,
        generate_name=None,
        name="web-0",
        uid="web-0-uid",
        resource_version="77",
        finalizers=("example.com/hold",),
    )


def test_a_terminating_slice_is_not_written_and_is_replaced() -> None:
    """M-11 keeps writing to it, and its key counts as stale if it must be deleted; k/k#108267."""
    item = make_endpoints(*TWO)
    slices = [
        change(p, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("x/y",)) for p in slices_for(item)
    ]
    made = plan(item, slices)
    assert requests(made) == (2, 0, 0)
    assert made.counts.slices_actual == 2
    assert plan(make_endpoints(), slices).is_empty
    assert plan_clean_up(slices) == ()


# ------------------------------------------------------------------------------------- recycling


def recycled(creates: str, deletes: str) -> MirrorPlan:
    """Plan with pending creates and deletes of families: ``446`` is two of IPv4 and one of IPv6."""
    ip = {"4": "10.0.0.{}", "6": "fd00::{}"}
    item = make_endpoints(
        *(
            subset(ip[family].format(number + 1), ports=(msgspec.structs.replace(HTTP, port=100 + number),))
            for number, family in enumerate(creates)
        )
    )
    slices = [
        EndpointSlice(
            metadata=ObjectMeta(
                name=f"old-{number}", namespace="default", uid=f"u{number}", resource_version="3"
            ),
            address_type=f"IPv{family}",
            endpoints=(Endpoint(addresses=(ip[family].format(99),)),),
        )
        for number, family in enumerate(deletes)
    ]
    return plan(item, slices)


@pytest.mark.parametrize(
    ("creates", "deletes", "expected"),
    [
        ("", "", (0, 0, 0)),
        ("4", "4", (0, 1, 0)),
        ("44", "4", (1, 1, 0)),
        ("4", "44", (0, 1, 1)),
        ("46", "46", (0, 2, 0)),
        ("4", "6", (1, 0, 1)),
        ("46", "6", (1, 1, 0)),
        ("64", "6", (1, 1, 0)),
        ("4466", "64", (2, 2, 0)),
    ],
)
def test_obsolete_slices_are_recycled_for_creates_of_the_same_family(
    creates: str, deletes: str, expected: tuple[int, int, int]
) -> None:
    """M-40; TestRecycleSlices."""
    made = recycled(creates, deletes)
    assert requests(made) == expected
    for endpoint_slice in made.update:
        assert endpoint_slice.metadata.name == f"old-{deletes.index(endpoint_slice.address_type[-1])}"
        assert endpoint_slice.metadata.generate_name == "web-"
        assert endpoint_slice.metadata.resource_version == "3"


def test_recycling_removes_the_matching_create_and_no_other() -> None:
    """M-40: upstream takes off the first create without a name, and so loses that of the other family."""
    made = recycled("46", "6")
    assert [p.address_type for p in made.create] == ["IPv4"]
    assert [p.address_type for p in made.update] == ["IPv6"]
    assert all(not p.metadata.name and p.metadata.generate_name == "web-" for p in made.create)
    names = [p.metadata.name for p in (*made.update, *made.delete)]
    assert len(set(names)) == len(names)


def test_the_slice_with_the_most_common_addresses_is_recycled() -> None:
    """7c, I3: where ports are swapped, no address is missing between two of the writes."""
    before = make_endpoints(subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.2", ports=(ADMIN,)))
    others = [msgspec.structs.replace(HTTP, port=number) for number in (1, 2)]
    for ports in (others, others[::-1]):
        now = make_endpoints(subset("10.0.0.1", ports=(ports[0],)), subset("10.0.0.2", ports=(ports[1],)))
        slices = slices_for(before)
        names = {ips(endpoint_slice)[0]: endpoint_slice.metadata.name for endpoint_slice in slices}
        made = plan(now, slices)
        assert requests(made) == (0, 2, 0)
        assert {
            ips(endpoint_slice)[0]: endpoint_slice.metadata.name for endpoint_slice in made.update
        } == names


def test_the_oldest_slice_is_recycled_if_none_has_common_addresses() -> None:
    (endpoint_slice,) = slices_for(make_endpoints(subset("10.0.0.9", ports=(ADMIN,))))
    slices = [
        stored(endpoint_slice, "web-a", created="2026-01-02T00:00:00Z"),
        stored(endpoint_slice, "web-b", created="2026-01-01T00:00:00Z"),
    ]
    made = plan(make_endpoints(subset("10.0.0.1")), slices)
    assert [p.metadata.name for p in (*made.update, *made.delete)] == ["web-b", "web-a"]


def test_terminating_endpoints_get_updates_and_deletes_but_no_creates() -> None:
    """M-41. TestReconcile: pending deletion."""
    gone = "2026-01-01T00:00:00Z"
    assert plan(make_endpoints(*TWO, deletion_timestamp=gone)).is_empty
    slices = slices_for(make_endpoints(subset("10.0.0.1", ports=(HTTP,)), subset("fd00::9", ports=(ADMIN,))))
    made = plan(make_endpoints(*TWO, deletion_timestamp=gone), slices)
    assert requests(made) == (0, 1, 1)
    assert made.counts.slices_actual == 1


# ------------------------------------------------------------------------------------- changes by the server


def test_a_slice_modified_by_the_server_is_not_rewritten_repeatedly() -> None:
    """For example a webhook that adds a label: the slice then counts as sent."""
    item = make_endpoints(subset("10.0.0.1"))
    (sent,) = plan(item).create
    answer = stored(change(sent, labels={**labels_of(sent), "webhook": "was-here"}), "web-0")

    def planned(wanted: Endpoints) -> MirrorPlan:
        return plan_mirror(wanted, mirror(wanted, 1000), [answer], {"web-0": sent})

    assert planned(item).is_empty
    assert requests(planned(make_endpoints(subset("10.0.0.2")))) == (0, 1, 0)
    assert requests(plan(item, [answer])) == (0, 1, 0)


def test_ports_defaulted_by_the_server_do_not_change_the_group() -> None:
    item = make_endpoints(subset("10.0.0.1", ports=(msgspec.structs.replace(HTTP, protocol=None),)))
    (sent,) = plan(item).create
    answer = stored(
        change(sent, ports=tuple(msgspec.structs.replace(p, protocol="TCP") for p in sent.ports or ())),
        "web-0",
    )
    assert plan_mirror(item, mirror(item, 1000), [answer], {"web-0": sent}).is_empty
    assert not plan_mirror(item, mirror(item, 1000), [answer]).is_empty


# ------------------------------------------------------------------------------------- Events and clean-up


def test_unmirrored_addresses_are_reported() -> None:
    """M-25."""

    def told(item: Endpoints, most: int = 1000) -> list[tuple[str, str]]:
        return [(p.reason, p.message) for p in problems_of(item, mirror(item, most), most)]

    def too_many(most: int, skipped: int) -> tuple[str, str]:
        return (
            "TooManyAddressesToMirror",
            (
                f"A max of {most} addresses can be mirrored to EndpointSlices per Endpoints subset."
                f" {skipped} addresses were skipped"
            ),
        )

    assert told(make_endpoints(subset("10.0.0.1"))) == []
    invalid = (
        "InvalidIPAddress",
        "Skipped 2 invalid IP addresses when mirroring to EndpointSlices",
    )
    assert told(make_endpoints(subset("10.0.0.1", "x", "y"))) == [invalid]
    assert told(make_endpoints(subset(*addresses(1001)))) == [too_many(1000, 1)]
    both = make_endpoints(subset("0-x", "0-y", "10.0.0.1", "10.0.0.2", "10.0.0.3"))
    assert told(both, 2) == [
        invalid,
        too_many(2, 3),
    ]


def test_a_clean_up_deletes_all_slices_regardless_of_owner() -> None:
    """M-10."""
    slices = slices_for(make_endpoints(*TWO, uid="another"))
    assert list(plan_clean_up(slices)) == slices


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_an_executed_plan_leaves_nothing_to_do(limit: int) -> None:
    item = make_endpoints(*TWO, subset("fd00::1", "fd00::2", not_ready=["10.0.0.9"]))
    jumble = slices_for(make_endpoints(subset("10.0.0.1", "10.7.7.7"), subset("fd00::3", ports=(ADMIN,))))
    made = plan(item, jumble, max=limit)
    again = plan(item, after(made, jumble), max=limit)
    assert again.is_empty
    assert again.counts.slices_actual == again.counts.slices_desired


def wide(subsets: int, **annotations: str) -> Endpoints:
    """Return an Endpoints that is mirrored to one slice for each subset."""
    return make_endpoints(
        *(
            subset(*addresses(1, start=number), ports=(EndpointPort(name=f"p{number}", port=1000 + number),))
            for number in range(subsets)
        ),
        annotations=annotations or None,
    )


def copied_bytes(made: MirrorPlan) -> int:
    return sum(
        len(name) + len(value)
        for one in made.create
        for texts in (one.metadata.labels, one.metadata.annotations)
        for name, value in (texts or {}).items()
    )


def test_copied_metadata_is_limited_in_total() -> None:
    item = wide(200, small="1", large="x" * 250_000)
    made = plan(item)
    assert len(made.create) == 200
    assert copied_bytes(made) <= COPIED_METADATA_BYTES
    assert all(one.metadata.annotations == {"small": "1"} for one in made.create)
    (problem,) = problems_of(item, mirror(item, 1000), 1000)
    assert problem.reason == "TooMuchMetadataToMirror"
    written = [stored(one, f"web-{number:03}") for number, one in enumerate(made.create)]
    assert plan(item, written).is_empty


def test_copied_labels_are_limited_and_reserved_ones_always_kept() -> None:
    item = wide(200)
    item = change(item, labels={f"label-{number}": "x" * 60 for number in range(2_000)})
    made = plan(item)
    assert copied_bytes(made) <= COPIED_METADATA_BYTES
    for one in made.create:
        labels = one.metadata.labels or {}
        assert labels[SERVICE_NAME] == item.metadata.name
        assert labels[MANAGED_BY] == OURS


def test_the_largest_annotations_are_copied_to_four_slices() -> None:
    item = wide(4, large="x" * 250_000)
    assert {one.metadata.annotations["large"] for one in plan(item).create if one.metadata.annotations} == {
        "x" * 250_000
    }
    assert not problems_of(item, mirror(item, 1000), 1000)


def test_replacing_all_ports_of_many_subsets_compares_each_slice_with_a_bounded_number() -> None:
    compared: Counter[str] = Counter()

    class CountingSet(set[tuple[str, ...]]):
        def __and__(self, other: object) -> set[tuple[str, ...]]:
            compared["slices"] += 1
            return set()

    def comparisons(subsets: int) -> int:
        old = wide(subsets)
        written = [stored(one, f"web-{number:04}") for number, one in enumerate(plan(old).create)]
        item = make_endpoints(
            *(
                subset(*addresses(1, start=number), ports=(EndpointPort(name=f"q{number}", port=9000),))
                for number in range(subsets)
            )
        )
        compared.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                plan_module, "_addresses", lambda one: CountingSet(e.addresses for e in one.endpoints or ())
            )
            made = plan(item, written)
        assert (len(made.create), len(made.update), len(made.delete)) == (0, subsets, 0)
        return compared["slices"]

    assert comparisons(800) <= 2.5 * comparisons(400)
