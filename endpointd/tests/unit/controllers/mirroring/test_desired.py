"""The mirrored part of an Endpoints and the content of its slices (behaviour 3.1, 3.4, 3.5)."""

import msgspec
import pytest
from tests.unit.controllers.mirroring.world import (
    ADMIN,
    HTTP,
    MANAGED_BY,
    OURS,
    SERVICE_NAME,
    address,
    addresses,
    make_endpoints,
    make_plain_service,
    subset,
)

from aiokube.api import discovery
from aiokube.api.discovery import Endpoint, EndpointConditions, EndpointHints, EndpointSlice, ForZone
from aiokube.api.endpoints import EndpointPort, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta, ObjectReference
from aiokube.testing.builders import make_service
from endpointd.controllers.mirroring.desired import (
    Group,
    Mirrored,
    group_key_of,
    identity_of,
    is_mirrorable,
    is_same_endpoint,
    mirror,
    mirrored_key,
    new_slice,
    oldest_first,
    slice_annotations,
    slice_labels,
    wants_mirroring,
)

LEADER = "control-plane.alpha.kubernetes.io/leader"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
POD = ObjectReference(
    kind="Pod", namespace="default", name="pod-1", uid="u-1", api_version="v1", resource_version="7"
)


def ips(group: Group) -> list[str]:
    return [endpoint.addresses[0] for endpoint in group.endpoints]


def ports_of(group: Group) -> list[int | None]:
    return [port.port for port in group.ports]


# ------------------------------------------------------------------------------------- mirrorable Endpoints


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (make_endpoints(), True),
        (make_endpoints(labels={SKIP: "true"}), False),
        (make_endpoints(labels={SKIP: "false"}), True),
        (make_endpoints(labels={SKIP: "invalid"}), True),
        (make_endpoints(labels={SKIP: "True"}), True),
        (make_endpoints(annotations={LEADER: ""}), False),
        (make_endpoints(annotations={LEADER: '{"holderIdentity":"x"}'}), False),
        (make_endpoints(labels={"endpoints.kubernetes.io/managed-by": "endpoint-controller"}), True),
    ],
)
def test_all_endpoints_are_mirrorable_except_skipped_ones_and_leader_locks(
    item: Endpoints, expected: bool
) -> None:
    """M-1."""
    assert is_mirrorable(item) is expected


def test_every_service_without_a_selector_is_mirrored() -> None:
    """M-1."""
    assert wants_mirroring(make_plain_service())
    assert wants_mirroring(make_plain_service(service_type="ExternalName", cluster_ip="", ip_families=()))
    assert wants_mirroring(make_plain_service(cluster_ip="None"))
    assert not wants_mirroring(make_service())
    assert not wants_mirroring(make_service(service_type="ExternalName"))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({SERVICE_NAME: "web", MANAGED_BY: OURS}, ObjectKey("default", "web")),
        ({SERVICE_NAME: "other", MANAGED_BY: OURS}, ObjectKey("default", "other")),
        ({SERVICE_NAME: "web", MANAGED_BY: "endpointslice-controller.k8s.io"}, None),
        ({SERVICE_NAME: "web"}, None),
        ({MANAGED_BY: OURS}, None),
        ({SERVICE_NAME: "", MANAGED_BY: OURS}, None),
        (None, None),
    ],
)
def test_only_slices_with_our_label_and_the_name_of_an_endpoints_are_ours(
    labels: dict[str, str] | None, expected: ObjectKey | None
) -> None:
    """M-4, S-112."""
    endpoint_slice = EndpointSlice(metadata=ObjectMeta(name="x", namespace="default", labels=labels))
    assert mirrored_key(endpoint_slice) == expected


# ------------------------------------------------------------------------------------- groups


def test_an_endpoints_without_addresses_has_no_groups() -> None:
    """M-30."""
    assert mirror(make_endpoints(), 1000) == Mirrored()
    assert mirror(make_endpoints(subset(), subset(ports=())), 1000) == Mirrored()


def test_one_address_with_one_port_is_one_group() -> None:
    (group,) = mirror(make_endpoints(subset("10.0.0.1")), 1000).groups
    assert group.key.address_type == "IPv4"
    assert group.ports == (discovery.EndpointPort(name="http", protocol="TCP", port=80),)
    assert ips(group) == ["10.0.0.1"]


def test_the_same_ports_in_two_subsets_are_one_group() -> None:
    """M-20; k/k#114155: one address in two subsets."""
    (group,) = mirror(make_endpoints(subset("10.0.0.1"), subset("10.0.0.2")), 1000).groups
    assert ips(group) == ["10.0.0.1", "10.0.0.2"]


def test_one_address_under_two_ports_is_one_group_of_two_ports() -> None:
    """M-20; k/k#114155."""
    item = make_endpoints(subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.1", ports=(ADMIN,)))
    (group,) = mirror(item, 1000).groups
    assert sorted(ports_of(group), key=str) == [80, 9090]
    assert ips(group) == ["10.0.0.1"]


def test_addresses_with_other_ports_are_a_separate_group() -> None:
    item = make_endpoints(subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.2", ports=(ADMIN,)))
    groups = mirror(item, 1000).groups
    assert sorted((ports_of(group), ips(group)) for group in groups) == [
        ([80], ["10.0.0.1"]),
        ([9090], ["10.0.0.2"]),
    ]


def test_each_family_has_a_group_of_its_own() -> None:
    """M-21."""
    item = make_endpoints(subset("10.0.0.1", "fd00::1", "10.0.0.2"))
    four, six = mirror(item, 1000).groups
    assert (four.key.address_type, ips(four)) == ("IPv4", ["10.0.0.1", "10.0.0.2"])
    assert (six.key.address_type, ips(six)) == ("IPv6", ["fd00::1"])
    assert four.ports == six.ports


def test_ports_are_put_in_canonical_order() -> None:
    """M-21, behaviour 0.5."""
    one = mirror(make_endpoints(subset("10.0.0.1", ports=(HTTP, ADMIN))), 1000)
    other = mirror(make_endpoints(subset("10.0.0.1", ports=(ADMIN, HTTP))), 1000)
    assert one == other


def test_ports_are_copied_one_to_one_and_always_have_a_name() -> None:
    """M-21."""
    port = EndpointPort(name=None, port=53, protocol="UDP", app_protocol="kubernetes.io/h2c")
    (group,) = mirror(make_endpoints(subset("10.0.0.1", ports=(port,))), 1000).groups
    assert group.ports == (
        discovery.EndpointPort(name="", protocol="UDP", port=53, app_protocol="kubernetes.io/h2c"),
    )


def test_a_subset_without_ports_is_a_group_without_ports() -> None:
    (group,) = mirror(make_endpoints(subset("10.0.0.1", ports=())), 1000).groups
    assert group.ports == ()


def test_equal_ports_with_an_app_protocol_are_one_group() -> None:
    """M-22, E-30.3: upstream keeps the subsets apart and has them share a slice, which is then written at every sync."""
    port = EndpointPort(name="grpc", port=443, protocol="TCP", app_protocol="kubernetes.io/h2c")
    again = EndpointPort(name="grpc", port=443, protocol="TCP", app_protocol="kubernetes.io/h2c")
    item = make_endpoints(subset("10.0.0.1", ports=(port,)), subset("10.0.0.2", ports=(again,)))
    (group,) = mirror(item, 1000).groups
    assert ips(group) == ["10.0.0.1", "10.0.0.2"]


# ------------------------------------------------------------------------------------- endpoints


def test_mirrored_endpoints_have_only_the_ready_condition() -> None:
    """M-23; TestAddressToEndpoint."""
    given = address("10.0.0.1", hostname="db-0", node_name="node-1", target_ref=POD)
    (group,) = mirror(make_endpoints(subset(given)), 1000).groups
    assert group.endpoints == (
        Endpoint(
            addresses=("10.0.0.1",),
            conditions=EndpointConditions(ready=True),
            hostname="db-0",
            node_name="node-1",
            target_ref=POD,
        ),
    )


def test_an_unready_address_is_mirrored_as_unready() -> None:
    """k/k#102683: mirrored as ready."""
    (group,) = mirror(make_endpoints(subset("10.0.0.1", not_ready=["10.0.0.2"])), 1000).groups
    assert {e.addresses[0]: e.conditions.ready for e in group.endpoints} == {
        "10.0.0.1": True,
        "10.0.0.2": False,
    }


def test_an_address_in_both_lists_is_unready() -> None:
    """M-20, E-30.4."""
    both = subset("10.0.0.1", not_ready=["10.0.0.1"])
    apart = make_endpoints(subset(not_ready=["10.0.0.1"]), subset("10.0.0.1"))
    for item in (make_endpoints(both), apart):
        (group,) = mirror(item, 1000).groups
        assert [e.conditions.ready for e in group.endpoints] == [False]


def test_an_empty_hostname_is_omitted_and_a_node_name_is_copied() -> None:
    """M-23."""
    (group,) = mirror(make_endpoints(subset(address("10.0.0.1", hostname="", node_name=None))), 1000).groups
    assert group.endpoints[0].hostname is None
    assert group.endpoints[0].node_name is None


@pytest.mark.parametrize(
    ("text", "canonical", "address_type"),
    [
        ("010.001.02.3", "10.1.2.3", "IPv4"),
        ("fd08::5678:0000:0000:9abc:def0", "fd08::5678:0:0:9abc:def0", "IPv6"),
        ("FD00::1", "fd00::1", "IPv6"),
        ("::ffff:1.2.3.4", "1.2.3.4", "IPv4"),
    ],
)
def test_addresses_are_parsed_leniently_and_printed_canonically(
    text: str, canonical: str, address_type: str
) -> None:
    """M-22."""
    (group,) = mirror(make_endpoints(subset(text)), 1000).groups
    assert (group.key.address_type, ips(group)) == (address_type, [canonical])


def test_equal_parsed_addresses_are_one_endpoint() -> None:
    """M-24: duplicates collapse, and the last one counts."""
    same_pod = ObjectReference(kind="Pod", namespace="default", name="pod-1", uid="u-2")
    item = make_endpoints(
        subset(address("10.0.0.1", target_ref=POD), address("10.0.0.1", target_ref=same_pod), "10.0.0.01")
    )
    (group,) = mirror(item, 1000).groups
    assert [(e.addresses, e.target_ref) for e in group.endpoints] == [
        (("10.0.0.1",), None),
        (("10.0.0.1",), same_pod),
    ]


def test_one_address_of_two_pods_is_two_endpoints() -> None:
    """M-24."""
    other = ObjectReference(kind="Pod", namespace="default", name="pod-2", uid="u-2")
    item = make_endpoints(subset(address("10.0.0.1", target_ref=POD), address("10.0.0.1", target_ref=other)))
    (group,) = mirror(item, 1000).groups
    assert len(group.endpoints) == 2


# ------------------------------------------------------------------------------------- limits


def test_ready_addresses_are_taken_first_until_the_limit() -> None:
    """M-22."""
    item = make_endpoints(subset("10.0.0.5", "10.0.0.6", not_ready=["10.0.0.1", "10.0.0.2"]))
    mirrored = mirror(item, 3)
    (group,) = mirrored.groups
    assert ips(group) == ["10.0.0.5", "10.0.0.6", "10.0.0.1"]
    assert (mirrored.skipped, mirrored.invalid) == (1, 0)


def test_both_families_share_the_limit() -> None:
    """M-22."""
    mirrored = mirror(make_endpoints(subset("10.0.0.1", "10.0.0.2", "fd00::1")), 2)
    assert [ips(group) for group in mirrored.groups] == [["10.0.0.1", "10.0.0.2"]]
    assert mirrored.skipped == 1


def test_the_limit_applies_to_each_subset() -> None:
    """M-22."""
    item = make_endpoints(
        subset("10.0.0.1", "10.0.0.2", ports=(HTTP,)), subset("10.0.0.3", "10.0.0.4", ports=(ADMIN,))
    )
    mirrored = mirror(item, 2)
    assert sorted(map(ips, mirrored.groups)) == [["10.0.0.1", "10.0.0.2"], ["10.0.0.3", "10.0.0.4"]]
    assert mirrored.skipped == 0


@pytest.mark.parametrize(("count", "taken"), [(1000, 1000), (1001, 1000), (1200, 1000)])
def test_up_to_a_thousand_addresses_of_a_subset_are_mirrored(count: int, taken: int) -> None:
    """TestSyncEndpoints with 1000 and 1001."""
    mirrored = mirror(make_endpoints(subset(*addresses(count))), 1000)
    (group,) = mirrored.groups
    assert len(group.endpoints) == taken
    assert mirrored.skipped == count - taken


def test_invalid_addresses_are_skipped_and_counted_and_use_no_capacity() -> None:
    """M-22."""
    mirrored = mirror(make_endpoints(subset("1.no.address", "10.0.0.1", not_ready=["1.nor", "10.0.0.2"])), 2)
    assert [ips(group) for group in mirrored.groups] == [["10.0.0.1", "10.0.0.2"]]
    assert (mirrored.skipped, mirrored.invalid) == (2, 2)


def test_addresses_beyond_the_limit_are_not_parsed() -> None:
    """M-25: invalid ones among them do not count as invalid."""
    mirrored = mirror(make_endpoints(subset("10.0.0.1", "zzz")), 1)
    assert (mirrored.skipped, mirrored.invalid) == (1, 0)
    mirrored = mirror(make_endpoints(subset("10.0.0.1", "100.not.an.address")), 1)
    assert (mirrored.skipped, mirrored.invalid) == (1, 0)


def test_invalid_addresses_alone_make_no_group() -> None:
    mirrored = mirror(make_endpoints(subset("a", "b", "c", not_ready=["d", "e"])), 1000)
    assert mirrored == Mirrored(groups=(), invalid=5, skipped=5)


# ------------------------------------------------------------------------------------- comparing endpoints


def test_endpoint_comparison_ignores_only_the_version_of_the_target() -> None:
    """M-24, S-33; unlike upstream, hints count, because mirrored endpoints should not have any."""
    one = Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=True), target_ref=POD)
    replace = msgspec.structs.replace
    assert is_same_endpoint(replace(one, target_ref=replace(POD, resource_version="8")), one)
    assert is_same_endpoint(replace(one, target_ref=replace(POD, resource_version=None)), one)
    for changed in (
        replace(one, target_ref=replace(POD, uid="u-2")),
        replace(one, target_ref=None),
        replace(one, conditions=EndpointConditions(ready=False)),
        replace(one, conditions=EndpointConditions(ready=True, serving=True)),
        replace(one, conditions=EndpointConditions(ready=True, terminating=False)),
        replace(one, node_name="node-2"),
        replace(one, zone="zone-a"),
        replace(one, hints=EndpointHints(for_zones=(ForZone("zone-a"),))),
        replace(one, deprecated_topology={"zone": "a"}),
    ):
        assert not is_same_endpoint(changed, one)


def test_an_endpoint_is_identified_by_addresses_hostname_and_target() -> None:
    """M-24, S-33."""
    one = Endpoint(addresses=("10.0.0.2", "10.0.0.1"), hostname="a", target_ref=POD)
    assert identity_of(one) == identity_of(
        Endpoint(
            addresses=("10.0.0.1", "10.0.0.2"),
            hostname="a",
            node_name="elsewhere",
            target_ref=ObjectReference(namespace="default", name="pod-1", uid="another"),
        )
    )
    assert identity_of(Endpoint(addresses=("10.0.0.1",))) != identity_of(
        Endpoint(addresses=("10.0.0.1",), hostname="a")
    )


# ------------------------------------------------------------------------------------- metadata of slices


def test_a_slice_has_the_labels_of_its_endpoints_and_the_reserved_ones() -> None:
    """M-33; k/k#98116: labels were not mirrored. TestNewEndpointSlice."""
    item = make_endpoints(
        labels={
            "app": "db",
            "service.kubernetes.io/headless": "",
            SERVICE_NAME: "somebody-else",
            MANAGED_BY: "somebody",
        }
    )
    assert slice_labels(item) == {
        "app": "db",
        "service.kubernetes.io/headless": "",
        SERVICE_NAME: "web",
        MANAGED_BY: OURS,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({}, None),
        ({"note": "kept"}, {"note": "kept"}),
        ({"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}, None),
        ({"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"}, {"note": "x"}),
        ({"kubectl.kubernetes.io/last-applied-configuration": ""}, None),
        (
            {"endpoints.kubernetes.io/over-capacity": "truncated"},
            {"endpoints.kubernetes.io/over-capacity": "truncated"},
        ),
    ],
)
def test_annotations_are_mirrored_except_those_about_the_endpoints_object(
    given: dict[str, str] | None, expected: dict[str, str] | None
) -> None:
    """M-33; k/k#98116."""
    assert slice_annotations(make_endpoints(annotations=given)) == expected


def test_a_new_slice_is_named_after_its_endpoints_and_owned_by_it() -> None:
    """M-33; TestNewEndpointSlice."""
    item = make_endpoints(subset("10.0.0.1"), uid="e-7", annotations={"note": "x"})
    (group,) = mirror(item, 1000).groups
    endpoint_slice = new_slice(item, group)
    assert endpoint_slice.metadata.name == ""
    assert endpoint_slice.metadata.generate_name == "web-"
    assert endpoint_slice.metadata.namespace == "default"
    (owner,) = endpoint_slice.metadata.owner_references or ()
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("v1", "Endpoints", "web", "e-7")
    assert owner.controller is True
    assert owner.block_owner_deletion is True
    assert endpoint_slice.address_type == "IPv4"
    assert (endpoint_slice.ports, endpoint_slice.endpoints) == (group.ports, group.endpoints)
    assert group_key_of(endpoint_slice) == group.key


def test_slices_are_sorted_by_age_and_name() -> None:
    """M-31."""

    def endpoint_slice(name: str, created: str | None) -> EndpointSlice:
        return EndpointSlice(metadata=ObjectMeta(name=name, creation_timestamp=created))

    endpoint_slices = [
        endpoint_slice("b", "2026-01-02"),
        endpoint_slice("c", "2026-01-01"),
        endpoint_slice("a", "2026-01-02"),
        endpoint_slice("d", None),
    ]
    assert [p.metadata.name for p in oldest_first(endpoint_slices)] == ["d", "c", "a", "b"]
