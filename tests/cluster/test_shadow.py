"""endpointd --shadow beside kube-controller-manager: it writes nothing, agrees under churn, and reports planted errors."""

import json
from pathlib import Path

import pytest

from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from tests.cluster.full_audit import audited_plane, config_of
from tests.cluster.leader_support import until
from tests.cluster.shadow_figures import Figures
from tests.cluster.shop import Shop
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

CLOCK = SystemClock()
MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests" / "shadow"
NAME = "endpointd-shadow"
USER = f"system:serviceaccount:endpointd:{NAME}"
THREE = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
READS = {
    (verb, group, resource)
    for verb in ("list", "watch")
    for group, resource in (
        ("", "services"),
        ("", "pods"),
        ("", "nodes"),
        ("", "endpoints"),
        ("discovery.k8s.io", "endpointslices"),
    )
}


def label(plane: ControlPlane, namespace: str, value: str) -> None:
    """Set the headless label of the slice of ``still``."""
    those = "--selector=kubernetes.io/service-name=still"
    plane.kubectl(
        "-n",
        namespace,
        "label",
        "--overwrite",
        "endpointslice",
        those,
        f"service.kubernetes.io/headless={value}",
    )


def plant(plane: ControlPlane, namespace: str) -> None:
    """Plant five errors that no controller repairs."""
    here = ("-n", namespace)
    slices = json.loads(plane.kubectl(*here, "get", "endpointslices", "-o", "json"))["items"]
    names = {
        (item["metadata"]["labels"]["kubernetes.io/service-name"], item["addressType"]): item
        for item in slices
    }
    web = names["web", "IPv4"]
    copied = {**web, "metadata": {"name": "planted", "labels": web["metadata"]["labels"]}}
    plane.kubectl(*here, "create", "-f", "-", document=json.dumps(copied))
    plane.kubectl(*here, "delete", "endpointslice", names["still", "IPv6"]["metadata"]["name"])
    label(plane, namespace, "no")
    patch = '[{"op": "replace", "path": "/endpoints/0/addresses/0", "value": "192.0.2.99"}]'
    mirrored = names["hand", "IPv4"]["metadata"]["name"]
    plane.kubectl(*here, "patch", "endpointslice", mirrored, "--type=json", f"-p={patch}")
    plane.kubectl(
        *here, "patch", "endpoints", "web", "--type=json", '-p=[{"op": "remove", "path": "/subsets"}]'
    )


async def test_shadow_mode_only_reads_agrees_under_churn_and_reports_planted_faults_until_fixed(
    endpointd_command: tuple[str, ...], tmp_path: Path
) -> None:
    figures = Figures()
    with audited_plane(tmp_path) as (plane, audit):
        plane.kubectl("apply", "-k", str(MANIFESTS))
        upstream = plane.start_controller_manager(THREE)
        async with Client.from_config(plane.client_config(), clock=CLOCK, user_agent="shop") as client:
            shop = Shop(plane, client, "shadowed")
            await shop.open()
            await shop.published()
            shadow = plane.start_child(
                "shadow",
                [
                    *endpointd_command,
                    f"--config={config_of(plane, tmp_path, 'endpointd', NAME)}",
                    f"--kubeconfig={plane.kubeconfig_for(USER)}",
                    "--shadow-grace-period=2s",
                    f"--metrics-bind-address=127.0.0.1:{figures.port}",
                    "--metrics-allow-remote=false",
                ],
            )
            await until(lambda: figures.now().get("services", 0) >= 4, within=30, what="first check")
            looked = figures.now()["services_checked_total"]

            async with shop.churning():
                for _ in range(8):
                    await shop.flips_more(20)
                    assert figures.standing() == {}
            await shop.published()
            await until(lambda: figures.now()["services_checked_total"] > looked + 4, within=20, what="busy")
            assert {each.code for each in audit.of(USER)} == {200}, (
                "nothing is asked for that its role does not grant"
            )

            # Watches that break and resume at different moments do not cause false reports.
            plane.kill_apiserver()
            plane.start_apiserver()
            await shop.published(within=40)
            async with shop.churning():
                await shop.flips_more(150)
            await shop.published(within=40)
            looked = figures.now()["services_checked_total"]
            await until(lambda: figures.now()["services_checked_total"] > looked, within=40, what="back")
            assert figures.now()["differences_begun_total"] == 0
            assert figures.now()["agreement_ratio"] == 1
            assert "difference" not in shadow.log()

            upstream.stop()
            plant(plane, "shadowed")
            planted = {
                "endpointslice create": 1.0,  # the deleted slice of still
                "endpointslice update": 1.0,  # the label of still
                "endpointslice delete": 1.0,  # the copy
                "endpoints update": 1.0,
                "mirroring update": 1.0,
            }
            await until(
                lambda: figures.standing() == planted, within=20, what="the report of the planted errors"
            )
            services = figures.now()["services"]
            assert figures.now()["agreement_ratio"] == 1 - 3 / services
            assert shadow.log().count('"difference found"') == 5

            plane.start_controller_manager(THREE, name="upstream-again")
            known = {"endpointslice update": 1.0}  # upstream never repairs this label
            await until(
                lambda: figures.standing() == known, within=30, what="the report that the rest is resolved"
            )
            label(plane, "shadowed", "")
            await until(lambda: figures.standing() == {}, within=20, what="the report that all is resolved")
            assert figures.now()["agreement_ratio"] == 1
            assert shadow.log().count('"difference resolved"') == 5
            assert shadow.log().count('"difference found"') == 5
            assert shadow.stop(20) == 0

        kinds = {(each.verb, each.group, each.resource) for each in audit.of(USER)}
        assert {read for read in READS if read[0] == "watch"} <= kinds <= READS
