"""The chart matches the reviewed files, its values are validated, and Helm agrees if it is installed."""

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from endpointd import __version__
from endpointd.cli.config_file import read_config_file
from endpointd.cli.options import BY_KEY
from tests.deploy.json_schema import problems
from tests.deploy.rendered import (
    BOTH,
    CASES,
    CHART,
    DEPLOY,
    DIGEST,
    MANIFESTS,
    OTHERWISE,
    digest,
    documents,
    merged,
    values,
)

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def key_of(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def by_key(items: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    assert len({key_of(item) for item in items}) == len(items)
    return {key_of(item): item for item in items}


def plain(items: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return objects without the labels that only Helm adds."""
    items = copy.deepcopy(items)
    for item in items:
        template = item.get("spec", {}).get("template", {}).get("metadata", {})
        for metadata in (item["metadata"], template):
            for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
                metadata.get("labels", {}).pop(label, None)
        if template.get("annotations", {}).pop("checksum/config", None) and not template["annotations"]:
            del template["annotations"]
    return by_key(items)


def values_in(given: dict[str, Any], path: str = ".Values") -> Iterator[str]:
    for name, value in given.items():
        yield f"{path}.{name}"
        if isinstance(value, dict) and name in (
            "image",
            "serving",
            "networkPolicy",
            "apiServer",
            "serviceMonitor",
            "dashboard",
        ):
            yield from values_in(value, f"{path}.{name}")


def test_features_that_need_other_software_are_off_by_default() -> None:
    assert [values()[name]["enabled"] for name in BOTH] == [False, False]


def test_the_committed_manifests_were_rendered_from_this_chart() -> None:
    """After a change of the chart, render the files again (see rendered.py) and update the digest."""
    assert digest() == DIGEST


def test_the_roles_of_the_chart_match_the_rbac_manifest() -> None:
    rules = {}
    for item in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()):
        if item["kind"].endswith("Role"):
            rules[item["kind"]] = item["rules"]
    made = {item["kind"]: item["rules"] for item in documents("endpointd") if "rules" in item}
    assert made == rules


def test_shadow_mode_has_read_permissions_only() -> None:
    items = documents("endpointd-shadow")
    assert {item["kind"] for item in items if "rules" in item} == {"ClusterRole"}
    (role,) = (item for item in items if item["kind"] == "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    (deployment,) = (item for item in items if item["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 1


def test_the_shadow_and_regular_deployments_share_no_object() -> None:
    real = by_key(documents("endpointd"))
    shadow = by_key(documents("endpointd-shadow"))
    assert not real.keys() & shadow.keys()
    selectors = [
        items["Service", name]["spec"]["selector"]
        for items, name in ((real, "endpointd"), (shadow, "endpointd-shadow"))
    ]
    assert selectors[0] != selectors[1]


@pytest.mark.parametrize(("release", "namespace", "given"), CASES, ids=[case[0] for case in CASES])
def test_endpointd_accepts_the_configuration_of_the_chart(
    release: str, namespace: str, given: dict[str, Any], tmp_path: Path
) -> None:
    items = by_key(documents(release))
    path = tmp_path / "config.yaml"
    path.write_text(items["ConfigMap", release]["data"]["config.yaml"])
    read = read_config_file(path)
    assert read["metrics_bind_address"] == ":10260"
    assert read["healthz_bind_address"] == ":10261"
    assert read["kube_api_qps"] == 200
    assert read["logging_format"] == "json"
    if given.get("shadow"):
        assert read["shadow"] is True
    else:
        (lease,) = (
            rule["resourceNames"] for rule in items["Role", release]["rules"] if "resourceNames" in rule
        )
        assert [read["leader_elect_resource_name"]] == lease
        assert read["leader_elect_resource_namespace"] == items["Role", release]["metadata"]["namespace"]
    if given.get("config"):
        assert read["max_endpoints_per_slice"] == 50


def test_files_named_in_the_configuration_are_in_mounted_volumes(tmp_path: Path) -> None:
    items = by_key(documents("mine"))
    pod = items["Deployment", "mine"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    path = tmp_path / "config.yaml"
    path.write_text(items["ConfigMap", "mine"]["data"]["config.yaml"])
    read = read_config_file(path)
    assert read["tls_cert_file"] == f"{mounts['serving']}/tls.crt"
    assert read["metrics_token_file"] == f"{mounts['serving']}/token"
    assert "metrics_allow_remote" not in read
    assert f"--config={mounts['config']}/config.yaml" in container["args"]
    probes = [container["livenessProbe"], container["readinessProbe"]]
    assert {probe["httpGet"]["port"] for probe in probes} == {"health"}
    assert container["image"] == f"endpointd@sha256:{'0' * 64}"


def test_a_configuration_change_rolls_out_new_pods() -> None:
    template = (CHART / "templates" / "deployment.yaml").read_text()
    assert 'checksum/config: {{ include "endpointd.config" . | sha256sum }}' in template


def test_pods_run_with_minimal_privileges() -> None:
    pod = by_key(documents("endpointd"))["Deployment", "endpointd"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("emptyDir" in volume or "hostPath" in volume for volume in pod["volumes"])
    assert container["ports"] == [
        {"name": "metrics", "containerPort": 10260},
        {"name": "health", "containerPort": 10261},
    ]
    assert "cpu" not in container["resources"]["limits"]


def test_the_network_policy_allows_egress_to_the_api_server_only() -> None:
    for release in ("endpointd", "endpointd-shadow"):
        (policy,) = (item for item in documents(release) if item["kind"] == "NetworkPolicy")
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        ports = [{"port": port, "protocol": "TCP"} for port in (443, 6443)]
        assert policy["spec"]["egress"] == [{"ports": ports}]


def test_a_single_replica_has_no_disruption_budget_that_blocks_node_drains() -> None:
    for release in ("mine", "endpointd-shadow"):
        assert "PodDisruptionBudget" not in {kind for kind, _ in by_key(documents(release))}


# ---------------------------------------------------------------------------------------------- rules of helm lint


def test_the_chart_metadata_matches_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2"
    assert chart["name"] == "endpointd"
    assert chart["type"] == "application"
    assert re.fullmatch(r"\d+\.\d+\.\d+", chart["version"])
    assert chart["appVersion"] == __version__
    images = [
        yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["images"][0]["newTag"]
        for folder in ("", "shadow")
    ]
    assert images == [__version__, __version__]


def test_every_value_is_used_and_every_used_value_exists() -> None:
    templates = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    used = set(re.findall(r"\.Values(?:\.\w+)+", templates))
    there = set(values_in(values()))
    assert used <= there
    parents = {path.rpartition(".")[0] for path in there}
    assert there - used <= parents


def test_the_schema_defines_exactly_the_existing_values() -> None:
    def known(schema: dict[str, Any], path: str = ".Values") -> Iterator[str]:
        for name, item in schema.get("properties", {}).items():
            if name != "global":  # Helm's own
                yield f"{path}.{name}"
                yield from known(item, f"{path}.{name}")

    assert set(known(SCHEMA)) == set(values_in(values()))


@pytest.mark.parametrize("given", [{}, OTHERWISE, {"shadow": True}], ids=["default", "otherwise", "shadow"])
def test_the_schema_accepts_valid_values(given: dict[str, Any]) -> None:
    assert problems(SCHEMA, merged(values(), given)) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"replica": 2}, ".replica: is not known"),
        ({"replicas": "2"}, ".replicas: must be of type integer"),
        ({"replicas": -1}, ".replicas: is out of range"),
        ({"shadow": "yes"}, ".shadow: must be of type boolean"),
        ({"config": {"leaderElectResourceName": "x"}}, ".config.leaderElectResourceName: must not be that"),
        ({"config": {"shadow": True}}, ".config.shadow: must not be that"),
        ({"serving": {"port": 80, "healthPort": 10261}}, ".serving.port: is out of range"),
        ({"image": {"repository": "x", "pullPolicy": "Sometimes"}}, ".image.pullPolicy: must be one of"),
        ({"networkPolicy": {"enabled": True, "from": []}}, ".networkPolicy.from: has too few items"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_the_schema_rejects_invalid_values(given: dict[str, Any], problem: str) -> None:
    (found,) = problems(SCHEMA, {**values(), **given})
    assert found.startswith(problem)


def test_settings_made_by_the_chart_cannot_be_set_again() -> None:
    reserved = set(SCHEMA["properties"]["config"]["propertyNames"]["not"]["enum"])
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    config = helpers.partition('define "endpointd.config"')[2]
    assert set(re.findall(r"^(\w+):", config, re.MULTILINE)) <= reserved
    assert reserved - {"apiVersion", "kind"} <= BY_KEY.keys()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("helm") is None, reason="there is no helm to compare with")
@pytest.mark.parametrize(("release", "namespace", "given"), CASES, ids=[case[0] for case in CASES])
def test_helm_renders_the_same_manifests(
    release: str, namespace: str, given: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "values.json"
    path.write_text(json.dumps(given))
    lint = ["helm", "lint", "--strict", str(CHART), "-f", str(path)]
    subprocess.run(lint, check=True, capture_output=True)
    command = [
        "helm",
        "template",
        "--kube-version=1.36.0",
        release,
        str(CHART),
        "-n",
        namespace,
        "-f",
        str(path),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    theirs = [item for item in yaml.safe_load_all(done.stdout) if item]
    assert plain(documents(release)) == plain(theirs)
