"""What ``make up`` says when it cannot start, and how it shows what is published."""

import os
import subprocess
import sys

import msgspec

from endpointd.api.core import SERVICES
from endpointd.api.discovery import ENDPOINT_SLICES
from endpointd.api.endpoints import ENDPOINTS
from endpointd.testing.normalise import Snapshot
from endpointd.testing.up import example, table


def test_without_programs_it_says_what_it_needs_and_exits_with_2() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    command = [sys.executable, "-m", "endpointd.testing.up"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert not done.stdout
    assert "KUBEBUILDER_ASSETS is not set" in done.stderr
    assert "setup-envtest" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_shows_each_service_with_its_addresses_and_slices() -> None:
    meta = {"name": "web", "namespace": "shop"}
    service = {"metadata": meta, "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4", "IPv6"]}}
    alias = {"metadata": {"name": "alias", "namespace": "shop"}, "spec": {"type": "ExternalName"}}
    subset = {
        "addresses": [{"ip": f"10.1.0.{i}"} for i in range(5)],
        "notReadyAddresses": [{"ip": "10.1.0.9"}],
    }
    labels = {"kubernetes.io/service-name": "web"}
    slice_ = {"metadata": {"name": "web-x", "namespace": "shop", "labels": labels}, "addressType": "IPv4"}
    snapshot = Snapshot(
        endpoints=(ENDPOINTS.decode(msgspec.json.encode({"metadata": meta, "subsets": [subset]})),),
        slices=(
            ENDPOINT_SLICES.decode(
                msgspec.json.encode(slice_ | {"endpoints": [{"addresses": ["10.1.0.1"]}]})
            ),
        ),
        services=tuple(SERVICES.decode(msgspec.json.encode(item)) for item in (service, alias)),
        pods=(),
    )
    assert table(snapshot) == [
        "SERVICE  TYPE             READY                             NOT READY  SLICES",
        "alias    ExternalName     -                                 -          -",
        "web      ClusterIP v4/v6  10.1.0.0, 10.1.0.1, 10.1.0.2, +2  10.1.0.9   web-x (IPv4, 1)",
    ]


def test_the_example_has_every_sort_of_service() -> None:
    bodies = " ".join(operation.body for operation in example() if operation.resource == "services")
    assert all(
        word in bodies for word in ('"clusterIP":"None"', "RequireDualStack", "ExternalName", '"grpc"')
    )
