"""A seeded workload of manual Endpoints is reproducible, and valid for an API server."""

from typing import Any

import msgspec
import pytest

from aiokube.api.discovery import Endpoint, EndpointPort, EndpointSlice
from aiokube.api.endpoints import EndpointAddress, Endpoints, EndpointSubset
from aiokube.api.endpoints import EndpointPort as CorePort
from aiokube.api.meta import ObjectKey, ObjectMeta, OwnerReference
from aiokube.testing.builders import make_service
from tests.differential.mirroring_sides import broken_mirrors, held_keys, mirrored_state, slice_names_in_order
from tests.differential.mirroring_workload import HELD, MANAGED_BY, OURS, SERVICE_NAME, generate
from tests.differential.mirroring_world import MirroringOptions
from tests.differential.normalise import Snapshot
from tests.differential.operations import Operation, SliceOf, count

SEEDS = range(20)


def operations(seed: int, number: int = 300, **options: Any) -> list[Operation]:
    batches = generate(seed, number, MirroringOptions(**options))
    return [operation for batch in batches for operation in batch.operations]


def test_the_same_seed_gives_the_same_workload() -> None:
    assert generate(7, 200) == generate(7, 200)
    assert generate(7, 200) != generate(8, 200)


def test_a_longer_workload_starts_like_a_shorter_one() -> None:
    short, long = generate(3, 50), generate(3, 200)
    assert long[: len(short)] == short


@pytest.mark.parametrize("seed", SEEDS)
def test_a_workload_has_about_the_requested_length(seed: int) -> None:
    assert 300 <= count(generate(seed, 300)) < 330


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_create_missing_objects_and_change_or_delete_existing_ones(seed: int) -> None:
    there: set[tuple[str, str, object]] = set()
    for operation in operations(seed):
        if isinstance(operation.name, SliceOf) or operation.name.startswith("posing-"):
            continue
        what = (operation.resource, operation.namespace, operation.name)
        if operation.verb == "create":
            assert what not in there, operation
            there.add(what)
            continue
        assert what in there, operation
        if operation.verb == "delete":
            there.discard(what)
            if operation.resource == "services":  # the API server deletes its Endpoints with it
                there.discard(("endpoints", *what[1:]))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_subset_has_an_address_and_at_most_one_has_app_protocols(seed: int) -> None:
    """E-30.3, behaviour 0.9."""
    for operation in operations(seed):
        if operation.resource != "endpoints" or not operation.body:
            continue
        subsets = msgspec.json.decode(operation.body).get("subsets") or []
        with_protocols = 0
        for subset in subsets:
            assert subset.get("addresses") or subset.get("notReadyAddresses"), operation
            with_protocols += any("appProtocol" in port for port in subset["ports"])
        assert with_protocols <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_external_edits_come_first_in_a_batch_and_only_once_per_endpoints(seed: int) -> None:
    """The clusters must agree on the slice, and the result must not depend on repair speed."""
    for batch in generate(seed, 300):
        kinds = [isinstance(op.name, SliceOf) for op in batch.operations]
        others = [op.resource != "endpointslices" for op in batch.operations]
        assert True not in kinds[others.index(True) :] if True in others else True
        edits: dict[tuple[str, str], set[str]] = {}
        for op in batch.operations:
            if isinstance(op.name, SliceOf):
                edits.setdefault((op.namespace, op.name.service), set()).add(f"{op.rule} {op.name.index}")
        assert all(len(ways) == 1 for ways in edits.values())


def test_every_kind_of_operation_occurs() -> None:
    seen = {
        (operation.verb, operation.resource, operation.rule)
        for seed in SEEDS
        for operation in operations(seed)
    }
    assert {rule for _, _, rule in seen} == {"", "M-4", "M-11", "M-32", "M-42"}
    for resource in ("services", "endpoints", "endpointslices"):
        assert {verb for verb, what, _ in seen if what == resource} == {"create", "patch", "delete"}
    crowds = [op for seed in SEEDS for op in operations(seed) if op.body.count('"ip"') > 1000]
    assert crowds


def test_a_workload_without_external_edits_does_not_change_slices() -> None:
    assert not [op for op in operations(1, external_edits=False) if op.resource == "endpointslices"]
    rules = {op.rule for seed in SEEDS for op in operations(seed, stuck_cases=False)}
    assert rules <= {"", "M-4", "M-32"}


# ------------------------------------------------------------------------------------- comparison

SERVICE = make_service(selector=None)
ITEM = Endpoints(
    metadata=ObjectMeta(name="web", namespace="default", uid="e-1"),
    subsets=(EndpointSubset(addresses=(EndpointAddress("10.0.0.1"),), ports=(CorePort("http", 80, "TCP"),)),),
)


def endpoint_slice(name: str = "web-1", **changes: Any) -> EndpointSlice:
    labels = changes.pop("labels", {SERVICE_NAME: "web", MANAGED_BY: OURS})
    uid = changes.pop("owner_uid", "e-1")
    deletion_timestamp = changes.pop("deletion_timestamp", None)
    base = EndpointSlice(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            labels=labels,
            owner_references=(OwnerReference("v1", "Endpoints", "web", uid, True, True),),
            deletion_timestamp=deletion_timestamp,
        ),
        address_type="IPv4",
        endpoints=(Endpoint(("10.0.0.1",)),),
        ports=(EndpointPort("http", "TCP", 80),),
    )
    return msgspec.structs.replace(base, **changes)


def snapshot(*slices: EndpointSlice, endpoints: tuple[Endpoints, ...] = (ITEM,)) -> Snapshot:
    return Snapshot.of(endpoints=endpoints, slices=slices, services=(SERVICE,))


def test_names_versions_and_the_order_of_endpoints_are_not_compared() -> None:
    two = (Endpoint(("10.0.0.1",)), Endpoint(("10.0.0.2",)))
    one = mirrored_state(snapshot(endpoint_slice("web-a", endpoints=two)))
    other = mirrored_state(snapshot(endpoint_slice("web-b", endpoints=two[::-1])))
    assert one == other
    assert list(one) == [f"default/web IPv4 [{{name=http, port=80, protocol=TCP}}] by {OURS}"]


@pytest.mark.parametrize(
    "changed",
    [
        endpoint_slice(endpoints=None),
        endpoint_slice(ports=None),
        endpoint_slice(address_type="IPv6"),
        endpoint_slice(owner_uid="e-0"),
        endpoint_slice(labels={SERVICE_NAME: "web", MANAGED_BY: OURS, "x": "y"}),
        endpoint_slice("stranger-1", labels={SERVICE_NAME: "web"}),
    ],
)
def test_all_other_changes_are_differences(changed: EndpointSlice) -> None:
    assert mirrored_state(snapshot(changed)) != mirrored_state(snapshot(endpoint_slice()))


def test_a_terminating_slice_is_recorded_but_not_part_of_the_state() -> None:
    held = endpoint_slice(deletion_timestamp="2026-01-01T00:00:00Z")
    assert mirrored_state(snapshot(held)) == {}
    assert held_keys(snapshot(held, endpoint_slice("web-2"))) == {"default/web"}
    web = ObjectKey("default", "web")
    assert slice_names_in_order(snapshot(held), web) == []
    assert slice_names_in_order(snapshot(held), web, are_held=True) == ["web-1"]
    assert HELD == -1


@pytest.mark.parametrize(
    ("slices", "complaint"),
    [
        ((endpoint_slice(),), None),
        ((endpoint_slice(labels={SERVICE_NAME: "other", MANAGED_BY: "somebody"}),), None),
        ((endpoint_slice(), endpoint_slice("web-2")), "M-31"),
        ((endpoint_slice(owner_uid="e-0"),), "M-33"),
        ((endpoint_slice(endpoints=None),), "M-30"),
        ((endpoint_slice(ports=(EndpointPort("http", "TCP", 81),)),), "has a port that is not there"),
        ((endpoint_slice(labels={SERVICE_NAME: "other", MANAGED_BY: OURS}),), "M-10"),
    ],
)
def test_violations_of_rules_are_reported(slices: tuple[EndpointSlice, ...], complaint: str | None) -> None:
    broken = broken_mirrors(snapshot(*slices))
    assert len(broken) == (complaint is not None)
    assert complaint is None or complaint in broken[0]


def test_a_slice_of_a_skipped_endpoints_is_a_violation() -> None:
    skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    skipped = msgspec.structs.replace(ITEM, metadata=msgspec.structs.replace(ITEM.metadata, labels=skip))
    assert "M-10" in broken_mirrors(snapshot(endpoint_slice(), endpoints=(skipped,)))[0]
    assert broken_mirrors(snapshot(endpoints=(skipped,))) == []
