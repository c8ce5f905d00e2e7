"""explain, check and diff under the stock ``view`` ClusterRole and on kubectl exports, on a real API server.

The set-ups and expected results are those of ``make verdicts``; the published objects are edited after endpointd has
stopped.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.unit.diagnose.verdicts import SETUPS, Answers, Setup

from aiokube.client.rest import Client
from endpointd.cli.main import cli
from endpointd.diagnose.snapshot import ClusterIndex
from tests.cluster.setups import Json, at_rest, connected, endpointd_runs, make, make_nodes, post
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PREFIX = "verdict-"
VIEWER = "verdict-viewer"
# A controller of kube-controller-manager, which does not run here, aggregates this role into ``view``.
BINDING: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": VIEWER},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:aggregate-to-view",
    },
    "subjects": [{"kind": "User", "name": VIEWER, "apiGroup": "rbac.authorization.k8s.io"}],
}


class Places(NamedTuple):
    """The flags of every command, for each view."""

    admin: Sequence[str]
    view: Sequence[str]
    export: Sequence[str]


def namespace_of(setup: Setup) -> str:
    return PREFIX + setup.name


async def edit(client: Client, setup: Setup) -> None:
    """Edit the published objects of a set-up, as its unit test does."""
    namespace = namespace_of(setup)
    paths = {
        "Endpoints": f"/api/v1/namespaces/{namespace}/endpoints",
        "EndpointSlice": f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
    }
    items: list[Json] = []
    for kind, path in paths.items():
        answer = msgspec.json.decode(await client.request("GET", path))
        items += [{"apiVersion": answer["apiVersion"], "kind": kind, **one} for one in answer["items"]]
    before = {(one["kind"], one["metadata"]["name"]): json.dumps(one) for one in items}
    assert setup.edit is not None
    setup.edit(items)
    after = {(one["kind"], one["metadata"]["name"]): one for one in items}
    for kind, name in before.keys() - after.keys():
        await client.request("DELETE", f"{paths[kind]}/{name}")
    for (kind, name), item in after.items():
        body = msgspec.json.encode(item)
        if (kind, name) not in before:
            await client.request("POST", paths[kind], body=body)
        elif json.dumps(item) != before[kind, name]:
            await client.request("PUT", f"{paths[kind]}/{name}", body=body)


@pytest.fixture(scope="module")
def places(
    control_plane: ControlPlane, endpointd_command: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Places:
    folder = tmp_path_factory.mktemp("verdicts")

    def is_begun(world: ClusterIndex) -> bool:
        return any(
            endpoint_slice.metadata.namespace == f"{PREFIX}all-well"
            for endpoint_slice in world.slices.values()
        )

    async def build() -> None:
        async with connected(control_plane.kubeconfig_path) as client:
            await make_nodes(client)
            rbac = "/apis/rbac.authorization.k8s.io/v1"
            await post(client, f"{rbac}/clusterrolebindings", BINDING)
            with endpointd_runs(endpointd_command, control_plane.kubeconfig_path, folder):
                for setup in SETUPS:
                    here = [one for one in setup.objects if not one.get("elsewhere")]
                    away = [one for one in setup.objects if one.get("elsewhere")]
                    await make(client, namespace_of(setup), here)
                    if away:
                        plain = [{key: one[key] for key in one if key != "elsewhere"} for one in away]
                        await make(client, f"{PREFIX}elsewhere", plain)
                await at_rest(client, PREFIX, is_begun)
            for setup in SETUPS:
                if setup.edit is not None:
                    await edit(client, setup)

    asyncio.run(build())
    kinds = "services,pods,endpoints,endpointslices"
    path = folder / "export.yaml"
    path.write_text(control_plane.kubectl("get", "-A", "-o", "yaml", kinds))
    return Places(
        (f"--kubeconfig={control_plane.kubeconfig_path}",),
        (f"--kubeconfig={control_plane.kubeconfig_for(VIEWER)}",),
        ("-f", str(path)),
    )


def ask(flags: Sequence[str], *arguments: str) -> Result:
    result = CliRunner().invoke(cli, [*arguments, *flags])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def said(setup: Setup, flags: Sequence[str]) -> Answers:
    namespace = namespace_of(setup)
    report = json.loads(ask(flags, "check", "-n", namespace, "-o", "json").stdout)
    found = frozenset(one["code"] for one in report["findings"] if one["severity"] != "note")
    pod = setup.pod.replace("elsewhere/", f"{PREFIX}elsewhere/")
    asked = ["--pod", pod] if pod else []
    answer = json.loads(ask(flags, "explain", "service", f"{namespace}/web", *asked, "-o", "json").stdout)
    if not pod:
        return Answers(answer["verdict"], "", found)
    (one,) = answer["pods"]
    verdict = one["verdict"] if one["expected"] is None else f"{one['verdict']} ({one['expected']})"
    return Answers(verdict, "", found)


@pytest.mark.parametrize("view", Places._fields)
def test_the_answers_match_the_table(view: str, places: Places) -> None:
    wrong = {}
    for setup in SETUPS:
        right = setup.answers(view)._replace(code="")
        found = said(setup, getattr(places, view))
        if found != right:
            wrong[setup.name] = (found, right)
    assert not wrong


def test_a_viewer_without_node_access_is_told_so_and_gets_no_false_alarm(places: Places) -> None:
    result = ask(places.view, "check", "-n", f"{PREFIX}all-well")
    assert result.exit_code == 0, result.output
    assert "no problems found in the collections that could be read" in result.output
    assert "unknown: nodes: nodes is forbidden" in " ".join(result.output.split())
    result = ask(places.view, "diff", "-n", f"{PREFIX}all-well")
    assert (result.exit_code, "no changes in the collections that could be read" in result.output) == (
        0,
        True,
    )


def test_a_namespace_that_does_not_exist_is_an_error(places: Places) -> None:
    for command in ("check", "diff"):
        result = ask(places.admin, command, "-n", f"{PREFIX}all-wel")
        assert (result.exit_code, f"did you mean {PREFIX}all-well" in result.output) == (2, True), (
            result.output
        )


def test_the_namespace_of_the_context_is_the_default(
    places: Places, control_plane: ControlPlane, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_bytes(control_plane.kubeconfig_path.read_bytes())
    control_plane.kubectl(
        "config", f"--kubeconfig={config}", "set-context", "--current", f"--namespace={PREFIX}all-well"
    )
    result = ask([f"--kubeconfig={config}"], "explain", "svc/web")
    assert result.output.startswith(f"{PREFIX}all-well/web works: 1 of 1 pod is ready\n"), result.output
