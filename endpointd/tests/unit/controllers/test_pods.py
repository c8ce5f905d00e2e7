"""Behaviour 0.4: which pods can be published, and with which addresses, ports and names."""

import pytest

from aiokube.api.core import PODS, NamedPort, Pod
from aiokube.testing.builders import make_pod, make_service, make_service_port
from endpointd.controllers.pods import (
    addresses_of_family,
    hostname_of,
    is_eligible,
    reference_to,
    rejected_addresses,
    rejection_of,
    resolve_target_port,
)

HTTP = NamedPort("http", "TCP", 8080)


@pytest.mark.parametrize(
    ("pod", "alive", "dying_too"),
    [
        (make_pod(), True, True),
        (make_pod(phase="Pending"), True, True),
        (make_pod(phase="Unknown"), True, True),
        (make_pod(ready=False), True, True),
        (make_pod("pod", "10.0.0.1", "fd00::1"), True, True),
        (make_pod(phase="Failed"), False, False),
        (make_pod(phase="Succeeded"), False, False),
        (make_pod("pod", ""), False, False),
        (make_pod(terminating=True), False, True),
        (make_pod(terminating=True, phase="Failed"), False, False),
        (make_pod("pod", "", terminating=True), False, False),
    ],
)
def test_a_pod_counts_while_it_has_an_address_and_has_not_finished(
    pod: Pod, alive: bool, dying_too: bool
) -> None:
    """0.4; k/k#109414: a failed pod is removed immediately, regardless of its conditions."""
    assert is_eligible(pod, include_terminating=False) is alive
    assert is_eligible(pod, include_terminating=True) is dying_too


def test_addresses_of_one_family_are_canonical_and_in_pod_order() -> None:
    pod = make_pod(
        "pod", "fd08::5678:0000:0000:9abc:def0", "01.2.3.4", "::ffff:1.2.3.5", "fd00::1", "nonsense"
    )
    assert addresses_of_family(pod, "IPv4") == ("1.2.3.4", "1.2.3.5")
    assert addresses_of_family(pod, "IPv6") == ("fd08::5678:0:0:9abc:def0", "fd00::1")


def test_an_address_only_in_pod_ip_is_never_used() -> None:
    pod = PODS.decode(b'{"metadata": {"name": "a"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}')
    assert is_eligible(pod, include_terminating=False)
    assert addresses_of_family(pod, "IPv4") == ()


@pytest.mark.parametrize(
    ("target", "protocol", "named_ports", "expected"),
    [
        (3000, "TCP", (), 3000),
        (3000, "TCP", (HTTP,), 3000),
        ("http", "TCP", (), None),
        ("http", "TCP", (HTTP,), 8080),
        ("http", "TCP", (NamedPort("dns", "UDP", 53), HTTP), 8080),
        ("http", "TCP", (HTTP, NamedPort("http", "TCP", 9090)), 8080),
        ("http", "UDP", (HTTP,), None),
        ("http", "UDP", (HTTP, NamedPort("http", "UDP", 5353)), 5353),
        ("http", "TCP", (NamedPort("http", "TCP", -1),), -1),
        ("Http", "TCP", (HTTP,), None),
    ],
)
def test_a_named_target_port_is_the_first_port_with_that_name_and_protocol(
    target: int | str, protocol: str, named_ports: tuple[NamedPort, ...], expected: int | None
) -> None:
    port = make_service_port(80, target, protocol=protocol)
    assert resolve_target_port(make_pod(named_ports=named_ports), port) == expected


def test_sidecar_ports_are_searched_after_container_ports_and_other_init_containers_never() -> None:
    pod = PODS.decode(
        b"""{"metadata": {"name": "a"}, "spec": {
        "initContainers": [
          {"restartPolicy": "Always", "ports": [{"name": "both", "containerPort": 1}, {"name": "side", "containerPort": 2, "hostPort": 9}]},
          {"ports": [{"name": "init", "containerPort": 3}]}],
        "containers": [{"ports": [{"containerPort": 7}, {"name": "both", "containerPort": 4}]}]}}"""
    )
    targets = {
        name: resolve_target_port(pod, make_service_port(80, name)) for name in ("both", "side", "init")
    }
    assert targets == {"both": 4, "side": 2, "init": None}


@pytest.mark.parametrize(
    ("hostname", "subdomain", "namespace", "expected"),
    [
        ("a", "web", "default", "a"),
        ("", "web", "default", None),
        ("a", "", "default", None),
        ("a", "other", "default", None),
        ("a", "web", "elsewhere", None),
    ],
)
def test_a_pod_has_a_hostname_under_the_service_named_by_its_subdomain(
    hostname: str, subdomain: str, namespace: str, expected: str | None
) -> None:
    pod = make_pod(hostname=hostname, subdomain=subdomain, namespace=namespace)
    assert hostname_of(pod, make_service("web")) == expected


def test_a_pod_reference_has_no_version_and_changes_only_with_the_pod() -> None:
    reference = reference_to(make_pod("a", resource_version="7"))
    assert (reference.kind, reference.namespace, reference.name, reference.uid) == (
        "Pod",
        "default",
        "a",
        "a-uid",
    )
    assert (reference.api_version, reference.resource_version, reference.field_path) == (None, None, None)


def test_addresses_that_the_server_rejects_are_omitted_and_named() -> None:
    pod = make_pod("pod", "169.254.1.1", "fe80::1", "10.0.0.1", "fd00::1")
    assert addresses_of_family(pod, "IPv4") == ("10.0.0.1",)
    assert addresses_of_family(pod, "IPv6") == ("fd00::1",)
    assert rejected_addresses(pod) == (("169.254.1.1", "link-local"), ("fe80::1", "link-local"))
    assert rejection_of(pod, include_terminating=False) == (
        "address 169.254.1.1 is link-local, address fe80::1 is link-local"
    )


def test_an_unpublished_pod_is_not_reported_as_rejected() -> None:
    assert rejection_of(make_pod("pod", "127.0.0.1", phase="Failed"), include_terminating=True) is None
    assert rejection_of(make_pod("pod", "127.0.0.1", terminating=True), include_terminating=False) is None
    assert rejection_of(make_pod("pod", "127.0.0.1", terminating=True), include_terminating=True) is not None


@pytest.mark.parametrize("address", ["0127.0.0.1", "00.0.0.0", "::ffff:127.0.0.1", "FE80::1", "0:0::1"])
def test_an_address_is_rejected_in_any_spelling(address: str) -> None:
    assert rejection_of(make_pod("pod", address), include_terminating=True) is not None
    assert addresses_of_family(make_pod("pod", address), "IPv4") == ()
    assert addresses_of_family(make_pod("pod", address), "IPv6") == ()
