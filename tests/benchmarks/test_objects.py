"""The objects that a benchmark creates on a cluster."""

import json

import pytest

from aiokube.api.core import PODS, SERVICES
from aiokube.api.meta import ObjectKey
from aiokube.api.selectors import matches
from benchmarks.objects import (
    NODES,
    Template,
    Workload,
    address_of,
    node_documents,
    service_body,
    status_body,
)
from benchmarks.sizes import Size


def test_a_size_is_parsed_from_its_printed_form() -> None:
    assert Size.parse(" 1000x5 ") == Size(1000, 5)
    assert str(Size.parse("1x20000")) == "1x20000"
    assert Size(1000, 5).pods == 5000


@pytest.mark.parametrize("text", ["", "5000", "0x5", "5x0", "1X5", "1x5x2", "-1x5"])
def test_an_invalid_size_is_rejected_with_the_expected_format(text: str) -> None:
    with pytest.raises(ValueError, match="SERVICESxPODS"):
        Size.parse(text)


def test_every_service_has_its_pods_with_unique_names_and_addresses() -> None:
    workload = Workload(Size(3, 40))
    assert len({pod.key for pod in workload.pods}) == len({pod.address for pod in workload.pods}) == 120
    for service in workload.services:
        assert sum(pod.service == service for pod in workload.pods) == 40
    assert len({pod.node for pod in workload.pods}) == NODES
    assert workload.namespaces == ("bench-0",)


def test_services_are_spread_over_the_requested_number_of_namespaces() -> None:
    workload = Workload(Size(5, 2), services_per_namespace=2)
    assert workload.namespaces == ("bench-0", "bench-1", "bench-2")
    assert [service.namespace for service in workload.services] == [
        "bench-0",
        "bench-0",
        "bench-1",
        "bench-1",
        "bench-2",
    ]
    assert all(pod.key.namespace == pod.service.namespace for pod in workload.pods)


def test_the_documents_of_a_pod_yield_the_expected_endpoint_of_its_service() -> None:
    workload = Workload(Size(2, 2))
    benchmark_pod = workload.pods[3]
    document = json.loads(workload.pod_body(benchmark_pod))
    document["status"] = json.loads(status_body(benchmark_pod))["status"]
    pod = PODS.decode(json.dumps(document).encode())
    service = SERVICES.decode(service_body(benchmark_pod.service))
    assert pod.metadata.name == benchmark_pod.key.name
    assert pod.pod_ips == (benchmark_pod.address,)
    assert pod.ready
    assert pod.node_name == benchmark_pod.node
    assert service.selector is not None
    assert matches(service.selector, pod.labels)
    assert {port.target_port for port in service.ports} == {8080, "metrics"}
    assert "metrics" in {port.name for port in pod.named_ports}


def test_a_template_fills_every_placeholder_and_keeps_the_rest() -> None:
    template = Template({"a": "\x00one", "b": ["\x00two", 'three \\ "', "\x00one"]})
    filled = json.loads(template.fill({"\x00one": "1", "\x00two": "2"}))
    assert filled == {"a": "1", "b": ["2", 'three \\ "', "1"]}
    with pytest.raises(KeyError):
        template.fill({"\x00one": "1"})


def test_addresses_of_twenty_thousand_pods_are_distinct() -> None:
    assert len({address_of(number) for number in range(1, 20_001)}) == 20_000


def test_nodes_are_spread_over_zones_and_ready() -> None:
    zones = set()
    for name, body, status in node_documents():
        document = json.loads(body)
        assert document["metadata"]["name"] == name
        zones.add(document["metadata"]["labels"]["topology.kubernetes.io/zone"])
        assert json.loads(status)["status"]["conditions"][0]["status"] == "True"
    assert len(zones) == 3


def test_the_service_names_of_a_workload_are_unique() -> None:
    assert len(set(Workload(Size(50, 1)).services)) == 50
    assert Workload(Size(1, 1)).services == (ObjectKey("bench-0", "service-0"),)
