"""The published endpoint of a pod and the metadata of slices (behaviour 2.4, 2.5, 2.8)."""

import itertools

import msgspec
import pytest

from aiokube.api.core import NamedPort, Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointPort,
)
from aiokube.api.endpoints import HEADLESS_LABEL
from aiokube.api.meta import ObjectKey, ObjectReference, OwnerReference
from aiokube.testing.builders import (
    edited,
    make_endpoint,
    make_owner,
    make_pod,
    make_service,
    make_service_port,
    make_slice,
)
from endpointd.controllers.endpointslice.desired import (
    NO_PORTS,
    PodTranslator,
    address_types,
    is_owned_by,
    make_port_set,
    new_slice,
    same_content,
    same_identity,
    service_of,
    slice_labels,
)

ZONES = {"node-1": "zone-a", "node-2": "zone-b", "zoneless": ""}
OURS = "endpointslice-controller.k8s.io"


def endpoints_of(service: Service, pod: Pod) -> tuple[Endpoint | None, ...]:
    """Return the desired endpoints of a pod, by address type."""
    outcome = PodTranslator(service, ZONES.get).outcome(pod)
    return tuple(wanted.endpoint if wanted is not None else None for wanted in outcome.endpoints)


def endpoint_of(service: Service, pod: Pod) -> Endpoint:
    (endpoint,) = endpoints_of(service, pod)
    assert endpoint is not None
    return endpoint


def ports_of(service: Service, pod: Pod) -> list[EndpointPort]:
    ports = PodTranslator(service, ZONES.get).outcome(pod).ports
    assert ports is not None
    return list(ports.ports)


# ---------------------------------------------------------------------------------------- address types


@pytest.mark.parametrize(
    ("families", "cluster_ip", "expected"),
    [
        (("IPv4",), "10.0.0.1", ("IPv4",)),
        (("IPv4",), "None", ("IPv4",)),
        (("IPv6",), "fd00::1", ("IPv6",)),
        (("IPv6",), "", ("IPv6",)),
        (("IPv4", "IPv6"), "10.0.0.1", ("IPv4", "IPv6")),
        (("IPv6", "IPv4"), "None", ("IPv4", "IPv6")),
        ((), "10.0.0.1", ("IPv4",)),
        ((), "fd00::1", ("IPv6",)),
        ((), "None", ("IPv4", "IPv6")),
        ((), "", ("IPv4", "IPv6")),
        ((), "nonsense", ()),
        (("IPv4", "IPv4"), "10.0.0.1", ("IPv4",)),
    ],
)
def test_address_types_follow_families_then_cluster_ip_and_headless_has_both(
    families: tuple[str, ...], cluster_ip: str, expected: tuple[str, ...]
) -> None:
    """S-20."""
    assert address_types(make_service(ip_families=families, cluster_ip=cluster_ip)) == expected


# ------------------------------------------------------------------------------------------- endpoints


@pytest.mark.parametrize(
    ("ready", "terminating", "publish", "expected"),
    [
        (True, False, False, (True, True, False)),
        (True, False, True, (True, True, False)),
        (False, False, False, (False, False, False)),
        (False, False, True, (True, False, False)),
        (True, True, False, (False, True, True)),
        (True, True, True, (True, True, True)),
        (False, True, False, (False, False, True)),
        (False, True, True, (True, False, True)),
    ],
)
def test_all_of_ready_serving_and_terminating_are_set(
    ready: bool, terminating: bool, publish: bool, expected: tuple[bool, bool, bool]
) -> None:
    """S-32."""
    service = make_service(publish_not_ready_addresses=publish)
    conditions = endpoint_of(service, make_pod(ready=ready, terminating=terminating)).conditions
    assert (conditions.ready, conditions.serving, conditions.terminating) == expected


def test_an_endpoint_names_its_node_and_pod() -> None:
    """S-32."""
    endpoint = endpoint_of(make_service(), make_pod("a"))
    assert endpoint == Endpoint(
        addresses=("10.0.0.1",),
        conditions=EndpointConditions(ready=True, serving=True, terminating=False),
        target_ref=ObjectReference(kind="Pod", namespace="default", name="a", uid="a-uid"),
        node_name="node-1",
        zone="zone-a",
    )
    encoded = msgspec.to_builtins(endpoint)
    assert not {"hints", "deprecatedTopology", "hostname"} & set(encoded)


def test_an_endpoint_on_a_node_without_a_zone_has_no_zone() -> None:
    """S-32."""
    assert endpoint_of(make_service(), make_pod(node_name="zoneless")).zone is None


def test_pod_addresses_of_each_family_are_canonical_and_in_order() -> None:
    """S-31.5."""
    pod = make_pod("a", "10.0.0.1", "fd00:0::1", "10.0.0.2")
    both = make_service(ip_families=("IPv6", "IPv4"))
    first, second = endpoints_of(both, pod)
    assert first is not None
    assert second is not None
    assert first.addresses == ("10.0.0.1", "10.0.0.2")
    assert second.addresses == ("fd00::1",)
    assert endpoints_of(make_service(ip_families=("IPv6",)), make_pod()) == (None,)


def test_a_hostname_is_set_if_the_pods_subdomain_is_the_service() -> None:
    """S-32, 0.4."""
    pod = make_pod(hostname="a", subdomain="web")
    assert endpoint_of(make_service(), pod).hostname == "a"
    assert endpoint_of(make_service("other"), pod).hostname is None


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_has_neither_endpoints_nor_ports(phase: str) -> None:
    outcome = PodTranslator(make_service(), ZONES.get).outcome(make_pod(phase=phase))
    assert (outcome.ports, outcome.endpoints, outcome.missing_node) == (None, (None,), None)


@pytest.mark.parametrize("node", ["gone", ""])
def test_a_pod_on_an_unknown_node_is_omitted_but_its_ports_count(node: str) -> None:
    """S-31.3, S-31.4: the lookup includes an empty name."""
    outcome = PodTranslator(make_service(), ZONES.get).outcome(make_pod(node_name=node))
    assert outcome.endpoints == (None,)
    assert outcome.missing_node == node
    assert outcome.ports is not None
    assert outcome.ports.key != NO_PORTS.key


def test_with_not_ready_addresses_an_unknown_node_only_removes_the_zone() -> None:
    """S-31.4."""
    service = make_service(publish_not_ready_addresses=True)
    outcome = PodTranslator(service, ZONES.get).outcome(make_pod(node_name="gone"))
    assert outcome.missing_node is None
    endpoint = endpoint_of(service, make_pod(node_name="gone"))
    assert (endpoint.node_name, endpoint.zone) == ("gone", None)
    assert endpoint_of(service, make_pod(node_name="")).node_name is None


# ------------------------------------------------------------------------------------------------ ports


def test_ports_are_sorted_by_hash() -> None:
    """S-31.2."""
    service = make_service(
        ports=(
            make_service_port(80, name="tcp-example", protocol="TCP", target_port=80),
            make_service_port(161, name="udp-example", protocol="UDP", target_port=161),
            make_service_port(3456, name="sctp-example", protocol="SCTP", target_port=3456),
        )
    )
    assert [port.name for port in ports_of(service, make_pod())] == [
        "udp-example",
        "tcp-example",
        "sctp-example",
    ]


def test_a_port_carries_name_number_protocol_and_application_protocol() -> None:
    """S-31.2: the name is set even if empty."""
    service = make_service(ports=(make_service_port(80, 8080, app_protocol="h2c"),))
    (port,) = ports_of(service, make_pod())
    assert msgspec.to_builtins(port) == {"name": "", "protocol": "TCP", "port": 8080, "appProtocol": "h2c"}


def test_an_unresolved_port_is_omitted_and_a_pod_without_ports_is_published() -> None:
    """S-31.1."""
    service = make_service(
        ports=(make_service_port(80, "http", name="a"), make_service_port(81, 81, name="b"))
    )
    assert [port.name for port in ports_of(service, make_pod())] == ["b"]
    named = make_pod(named_ports=(NamedPort("http", "TCP", 8080),))
    assert sorted(port.port or 0 for port in ports_of(service, named)) == [81, 8080]
    nothing = make_service(ports=(make_service_port(80, "http"),))
    assert ports_of(nothing, make_pod()) == []
    assert endpoint_of(nothing, make_pod()).addresses == ("10.0.0.1",)


@pytest.mark.parametrize("cluster_ip", ["None", "10.0.0.1"])
def test_a_service_without_ports_has_slices_without_ports(cluster_ip: str) -> None:
    """S-31.1: headless or not."""
    service = make_service(cluster_ip=cluster_ip, ports=())
    assert ports_of(service, make_pod()) == []
    assert endpoint_of(service, make_pod()).addresses == ("10.0.0.1",)


def test_pods_with_equal_resolved_ports_share_their_port_list() -> None:
    service = make_service(ports=(make_service_port(80, "http"),))
    translator = PodTranslator(service, ZONES.get)
    one = translator.outcome(
        make_pod("a", named_ports=(NamedPort("http", "TCP", 1), NamedPort("x", "TCP", 2)))
    )
    two = translator.outcome(make_pod("b", named_ports=(NamedPort("http", "TCP", 1),)))
    three = translator.outcome(make_pod("c", named_ports=(NamedPort("http", "TCP", 2),)))
    assert one.ports == two.ports != three.ports


def test_an_empty_port_list_equals_no_ports() -> None:
    """S-30; k/k#133474: slices of portless headless services were written again and again."""
    assert make_port_set(()).key == NO_PORTS.key
    assert NO_PORTS.ports == ()


# -------------------------------------------------------------------------------- identity and content

POD = make_pod("a", "10.0.0.1", "10.0.0.2")
WANTED = make_endpoint(POD)


def with_target(endpoint: Endpoint, **fields: object) -> Endpoint:
    assert endpoint.target_ref is not None
    return msgspec.structs.replace(
        endpoint, target_ref=msgspec.structs.replace(endpoint.target_ref, **fields)
    )


def replaced(**fields: object) -> Endpoint:
    return msgspec.structs.replace(WANTED, **fields)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (WANTED, True),
        (replaced(addresses=("10.0.0.2", "10.0.0.1")), True),
        (with_target(WANTED, uid="another"), True),
        (with_target(WANTED, resource_version="7"), True),
        (with_target(WANTED, kind="Node"), True),
        (replaced(hostname=""), True),
        (replaced(zone="zone-b", node_name="x", conditions=EndpointConditions()), True),
        (replaced(addresses=("10.0.0.1",)), False),
        (replaced(addresses=("10.0.0.1", "10.0.0.3")), False),
        (replaced(hostname="a"), False),
        (with_target(WANTED, name="b"), False),
        (with_target(WANTED, namespace="other"), False),
        (replaced(target_ref=None), False),
    ],
)
def test_an_endpoint_is_identified_by_addresses_hostname_and_pod(observed: Endpoint, expected: bool) -> None:
    """S-33."""
    assert same_identity(observed, WANTED) is expected


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (WANTED, True),
        (replaced(addresses=("10.0.0.2", "10.0.0.1")), True),
        (with_target(WANTED, resource_version="7"), True),
        (replaced(deprecated_topology={"a": "b"}), True),
        (replaced(hostname=""), True),
        (replaced(node_name="other"), False),
        (replaced(node_name=None), False),
        (replaced(zone="zone-b"), False),
        (replaced(zone=None), False),
        (with_target(WANTED, uid="another"), False),
        (with_target(WANTED, api_version="v1"), False),
    ],
)
def test_an_endpoint_needs_no_rewrite_while_node_pod_and_conditions_are_equal(
    observed: Endpoint, expected: bool
) -> None:
    """S-33: hints are compared separately."""
    assert same_content(observed, WANTED) is expected


@pytest.mark.parametrize("condition", ["ready", "serving", "terminating"])
def test_an_unknown_condition_is_not_false(condition: str) -> None:
    """S-33."""
    for mine, theirs in itertools.permutations([True, False, None], 2):
        conditions = EndpointConditions(ready=True, serving=True, terminating=False)
        one = replaced(conditions=msgspec.structs.replace(conditions, **{condition: mine}))
        two = replaced(conditions=msgspec.structs.replace(conditions, **{condition: theirs}))
        assert not same_content(one, two)


# ------------------------------------------------------------------------------------ labels and owners


@pytest.mark.parametrize(
    ("labels", "cluster_ip", "expected"),
    [
        ({}, "10.0.0.1", {}),
        ({"foo": "bar"}, "10.0.0.1", {"foo": "bar"}),
        ({"foo": "bar"}, "None", {"foo": "bar", HEADLESS_LABEL: ""}),
        ({}, "", {HEADLESS_LABEL: ""}),
        ({HEADLESS_LABEL: "yes"}, "10.0.0.1", {}),
        ({HEADLESS_LABEL: "yes", "foo": "bar"}, "None", {"foo": "bar", HEADLESS_LABEL: ""}),
        ({SERVICE_NAME_LABEL: "bad", MANAGED_BY_LABEL: "actor"}, "10.0.0.1", {}),
        ({SERVICE_NAME_LABEL: "bad", MANAGED_BY_LABEL: "actor", "a": "b"}, "10.0.0.1", {"a": "b"}),
    ],
)
def test_a_slice_has_the_labels_of_its_service_and_the_three_reserved_ones(
    labels: dict[str, str], cluster_ip: str, expected: dict[str, str]
) -> None:
    """S-60: a service cannot take the reserved ones over."""
    service = make_service(labels=labels, cluster_ip=cluster_ip)
    assert slice_labels(service) == {**expected, SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: OURS}


def test_a_new_slice_is_named_after_its_service_and_owned_by_it() -> None:
    """S-61."""
    service = make_service(labels={"a": "b"})
    endpoint = make_endpoint(make_pod())
    endpoint_slice = new_slice(service, "IPv4", make_port_set((EndpointPort(port=1),)), (endpoint,))
    assert (endpoint_slice.metadata.name, endpoint_slice.metadata.generate_name) == ("", "web-")
    assert endpoint_slice.metadata.namespace == "default"
    assert endpoint_slice.metadata.owner_references == (
        OwnerReference(
            api_version="v1",
            kind="Service",
            name="web",
            uid="web-uid",
            controller=True,
            block_owner_deletion=True,
        ),
    )
    assert endpoint_slice.metadata.labels == slice_labels(service)
    assert endpoint_slice.metadata.annotations is None
    assert (endpoint_slice.address_type, endpoint_slice.endpoints, endpoint_slice.ports) == (
        "IPv4",
        (endpoint,),
        (EndpointPort(port=1),),
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"name": "other", "controller": None, "block_owner_deletion": None}, True),
        ({"uid": "earlier"}, False),
        ({"kind": "Endpoints"}, False),
        ({"api_version": "v2"}, False),
    ],
)
def test_a_slice_is_owned_by_the_service_whose_uid_it_references(
    change: dict[str, object], expected: bool
) -> None:
    """S-30: not to an earlier one of its name."""
    service = make_service()
    owner = msgspec.structs.replace(make_owner(service), **change)
    endpoint_slice = make_slice(service, owner=owner)
    assert is_owned_by(endpoint_slice, service) is expected
    second = edited(
        endpoint_slice,
        owner_references=(OwnerReference(uid="x"), *(endpoint_slice.metadata.owner_references or ())),
    )
    assert is_owned_by(second, service) is expected
    assert not is_owned_by(edited(endpoint_slice, owner_references=None), service)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({MANAGED_BY_LABEL: OURS, SERVICE_NAME_LABEL: "web"}, ObjectKey("default", "web")),
        ({MANAGED_BY_LABEL: OURS, SERVICE_NAME_LABEL: ""}, None),
        ({MANAGED_BY_LABEL: OURS}, None),
        ({MANAGED_BY_LABEL: "somebody", SERVICE_NAME_LABEL: "web"}, None),
        ({SERVICE_NAME_LABEL: "web"}, None),
        ({}, None),
    ],
)
def test_a_managed_slice_belongs_to_the_service_in_its_label(
    labels: dict[str, str], expected: ObjectKey | None
) -> None:
    """S-3, S-112, TestServiceControllerKey."""
    assert service_of(make_slice(make_service(), labels=labels)) == expected
