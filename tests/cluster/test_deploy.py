"""The manifests of deploy/ on a real API server: accepted unchanged, with sufficient and minimal roles."""

import asyncio
import copy
import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiokube.api.discovery import ENDPOINT_SLICES, SERVICE_NAME_LABEL
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.rest import MERGE_PATCH, Client
from tests.cluster.full_audit import Asked, FullAudit, audited_plane, config_of
from tests.cluster.leader_support import CLOCK, until
from tests.cluster.shop import Shop
from tests.deploy.rendered import CASES, documents
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess, ProcessError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

DEPLOY = Path(__file__).parents[2] / "deploy"
USER = "system:serviceaccount:endpointd:endpointd"
LEASE_TIMES = ("15s", "2s", "0.3s")  # short enough to observe a renewal and an update of the lease
# Required by OpenShift (endpoints with addresses of pods or services), unknown to Kubernetes.
UNSEEN = {("create", "", "endpoints/restricted")}
# Checked by an admission plugin for owner references with blockOwnerDeletion; not a separate request.
OF_ADMISSION = {("update", "", "services/finalizers"), ("update", "", "endpoints/finalizers")}
SERVICE_MONITORS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A separate control plane: the kind defined here would affect other tests."""
    with ControlPlane() as plane:
        yield plane


def apply(plane: ControlPlane, items: list[dict[str, Any]], *flags: str) -> str:
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    return plane.kubectl("apply", "--validate=strict", *flags, "-f", "-", document=json.dumps(listed))


def in_namespace(items: list[dict[str, Any]], old: str, new: str) -> list[dict[str, Any]]:
    """Return a release's objects moved to another namespace, including the subjects of bindings."""
    moved = copy.deepcopy(items)
    for item in moved:
        for holder in (item["metadata"], *item.get("subjects", ())):
            if holder.get("namespace") == old:
                holder["namespace"] = new
    return moved


@pytest.mark.parametrize(("release", "namespace"), [case[:2] for case in CASES])
def test_the_server_stores_the_chart_output_unchanged(
    control_plane: ControlPlane, release: str, namespace: str
) -> None:
    where = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": f"chart-{release}",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    apply(control_plane, [SERVICE_MONITORS, where])
    control_plane.kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com")
    items = in_namespace(documents(release), namespace, f"chart-{release}")
    dry = apply(control_plane, items, "--dry-run=server")
    assert dry.count("(server dry run)") == len(items)
    assert "Warning" not in dry
    first, second = (json.loads(apply(control_plane, items, "-o=json"))["items"] for _ in range(2))
    assert len(first) == len(items)
    assert [item["metadata"] for item in first] == [item["metadata"] for item in second]
    selector = f"--selector=app.kubernetes.io/instance={release}"
    control_plane.kubectl("delete", "clusterroles,clusterrolebindings", selector)
    control_plane.kubectl("delete", "namespace", f"chart-{release}", "--wait=false")


def test_pods_of_the_deployment_are_admitted_under_the_restricted_standard(
    control_plane: ControlPlane,
) -> None:
    """The Deployment would be accepted in any case, with a warning; its pods would not."""
    (deployment,) = (item for item in documents("endpointd") if item["kind"] == "Deployment")
    (namespace,) = yaml.safe_load_all((DEPLOY / "manifests" / "namespace.yaml").read_text())
    namespace["metadata"]["name"] = "pods-of-it"
    template = deployment["spec"]["template"]
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "pods-of-it"}}
    apply(control_plane, [namespace])
    apply(control_plane, [{**item, "spec": template["spec"]}])
    template["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    item["metadata"] = {"name": "two", "namespace": "pods-of-it"}
    with pytest.raises(ProcessError, match="violates PodSecurity"):
        apply(control_plane, [{**item, "spec": template["spec"]}])
    control_plane.kubectl("delete", "namespace", "pods-of-it", "--wait=false")


def granted(plane: ControlPlane) -> set[tuple[str, str, str]]:
    """Return verb, group and resource of every permission granted by the roles on the cluster."""
    found = plane.kubectl("get", "clusterrole/endpointd", "-o", "json")
    rules = json.loads(found)["rules"]
    found = plane.kubectl("-n", "endpointd", "get", "role/endpointd", "-o", "json")
    rules += json.loads(found)["rules"]
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def used(asked: list[Asked]) -> set[tuple[str, str, str]]:
    return {(each.verb, each.group, each.resource) for each in asked}


class Replicas:
    """Replicas as started by the Deployment: its arguments, configuration and service account."""

    def __init__(self, plane: ControlPlane, command: tuple[str, ...], folder: Path) -> None:
        self._plane = plane
        self._command = command
        self._config = config_of(plane, folder, "endpointd", "endpointd")
        self._kubeconfig = plane.kubeconfig_for(USER)

    def start(self, name: str) -> ChildProcess:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        lease, renew, retry = LEASE_TIMES
        command = [
            *self._command,
            f"--config={self._config}",
            f"--kubeconfig={self._kubeconfig}",
            f"--metrics-bind-address=127.0.0.1:{port}",
            "--healthz-bind-address=",  # two replicas on one host
            f"--leader-elect-lease-duration={lease}",
            f"--leader-elect-renew-deadline={renew}",
            f"--leader-elect-retry-period={retry}",
        ]
        return self._plane.start_child(name, command)


@pytest.fixture(scope="module")
def installed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ControlPlane, FullAudit, Path]]:
    """The plain manifests on a server without WatchList that enforces owner reference permissions."""
    folder = tmp_path_factory.mktemp("deploy")
    flags = (
        "--feature-gates=WatchList=false",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    )
    with audited_plane(folder, *flags) as (plane, audit):
        plane.kubectl("apply", "--validate=strict", "-k", str(DEPLOY / "manifests"))
        yield plane, audit, folder


async def test_the_roles_are_sufficient_and_contain_no_unused_permission(
    installed: tuple[ControlPlane, FullAudit, Path], endpointd_command: tuple[str, ...]
) -> None:
    plane, audit, folder = installed
    replicas = Replicas(plane, endpointd_command, folder)
    wanted = granted(plane) - UNSEEN - OF_ADMISSION
    async with Client.from_config(plane.client_config(), clock=CLOCK, user_agent="shop") as client:
        shop = Shop(plane, client, "granted")
        here = ("-n", "granted")
        await shop.open()
        plane.kubectl(*here, "create", "-f", "-", document=json.dumps(orphan()))
        first, second = replicas.start("first"), replicas.start("second")
        await shop.published()
        gets = {("get", "", "endpoints"), ("get", "discovery.k8s.io", "endpointslices")}
        async with shop.churning(), asyncio.TaskGroup() as group:
            editing = group.create_task(edit_slices(shop), name="external edits")
            await until(lambda: gets <= used(audit.of(USER)), within=60, what="reading after a conflict")
            editing.cancel()
        # Events: a pod on a missing node, and repeated Events.
        for number in range(2):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"lost-{number}", **labels()}}
            pod["spec"] = {
                "nodeName": "nowhere",
                "containers": [{"name": "c", "image": "registry.invalid/none"}],
            }
            plane.kubectl(*here, "create", "-f", "-", document=json.dumps(pod))
            status = {
                "status": {
                    "phase": "Running",
                    "podIP": f"10.78.0.{number + 1}",
                    "podIPs": [{"ip": f"10.78.0.{number + 1}"}],
                }
            }
            plane.kubectl(
                *here,
                "patch",
                "pod",
                f"lost-{number}",
                "--subresource=status",
                "--type=merge",
                f"-p={json.dumps(status)}",
            )
        # Deletes: mirrored slices of a deleted service.
        plane.kubectl(*here, "delete", "service", "still", "hand")
        await until(lambda: not wanted - used(audit.of(USER)), within=60, what="all used")
        first.stop(20)
        second.stop(20)
    asked = audit.of(USER)
    denied = [each for each in asked if each.code == 403]
    assert denied == []
    assert used(asked) == wanted
    assert first.exit_code == second.exit_code == 0
    assert "is forbidden: User" not in first.log() + second.log()


async def edit_slices(shop: Shop) -> None:
    """Write constantly to the written objects, to provoke conflicts."""
    slices = await shop.client.list_page(
        ENDPOINT_SLICES, namespace=shop.namespace, label_selector=f"{SERVICE_NAME_LABEL}=web"
    )
    for number in itertools.count():
        body = json.dumps({"metadata": {"annotations": {"edited": str(number)}}}).encode()
        await shop.client.patch(ENDPOINTS, ObjectKey(shop.namespace, "web"), body, patch_type=MERGE_PATCH)
        for endpoint_slice in slices.items:
            await shop.client.patch(ENDPOINT_SLICES, key_of(endpoint_slice), body, patch_type=MERGE_PATCH)


def labels() -> dict[str, Any]:
    return {"labels": {"app": "web"}}


def orphan() -> dict[str, Any]:
    """An Endpoints whose service was deleted while no controller ran."""
    mark = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "orphan", "labels": mark}}


async def test_a_server_that_checks_owner_finalizers_rejects_writes_without_that_permission(
    installed: tuple[ControlPlane, FullAudit, Path], endpointd_command: tuple[str, ...]
) -> None:
    plane, audit, folder = installed
    rules = json.loads(plane.kubectl("get", "clusterrole/endpointd", "-o", "json"))["rules"]
    fewer = [rule for rule in rules if "services/finalizers" not in rule["resources"]]
    assert len(fewer) == len(rules) - 1
    plane.kubectl("patch", "clusterrole/endpointd", "--type=merge", f"-p={json.dumps({'rules': fewer})}")
    before = len(audit.of(USER))

    def refused() -> set[tuple[str, str, str]]:
        return used([each for each in audit.of(USER)[before:] if each.code == 403])

    async with Client.from_config(plane.client_config(), clock=CLOCK, user_agent="shop") as client:
        shop = Shop(plane, client, "not-granted")
        replica = Replicas(plane, endpointd_command, folder).start("not-granted")
        await shop.open()
        create = ("create", "discovery.k8s.io", "endpointslices")
        await until(lambda: create in refused(), within=30, what="refused")
        await until(lambda: "cannot set blockOwnerDeletion" in replica.log(), within=20, what="telling so")
        plane.kubectl("patch", "clusterrole/endpointd", "--type=merge", f"-p={json.dumps({'rules': rules})}")
        await shop.published(within=60)
    assert replica.stop(20) == 0
