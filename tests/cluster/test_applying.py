"""Applying manifests to a real API server: the whole example shop, and errors reported before any write."""

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from aiokube.client.errors import NotFoundError
from aiokube.client.load_config import load_config
from aiokube.client.manifests import Manifest, parse_manifests, read_manifests
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from tinykube.cli.apply import RefusedError, apply_manifests
from tinykube.testing.control_plane import ControlPlane

SHOP = Path(__file__).parents[2] / "examples" / "shop"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: the objects applied here would affect other tests."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    config = load_config(plane.kubeconfig_path, clock=clock)
    async with Client.from_config(config, clock=clock) as client:
        yield client


def manifests(text: str) -> list[Manifest]:
    return parse_manifests(text.encode(), "f.yaml")


def config_map(name: str, data: str, namespace: str = "default") -> str:
    return f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {data}\n"


async def test_a_real_api_server_accepts_the_example_shop(client: Client) -> None:
    shop = read_manifests([str(SHOP)])
    # This API server allocates addresses of one family; the example requests two.
    for manifest in shop:
        if manifest.document.get("spec", {}).get("ipFamilyPolicy") == "RequireDualStack":
            manifest.document["spec"]["ipFamilyPolicy"] = "PreferDualStack"
    applied = await apply_manifests(client, shop)
    assert {done.outcome for done in applied} == {"created"}
    assert applied[0].manifest.kind == "Namespace"
    assert len(applied) == len(shop)
    again = await apply_manifests(client, shop)
    assert {done.outcome for done in again} == {"configured"}


async def test_existing_objects_keep_fields_that_the_manifest_does_not_name(client: Client) -> None:
    await apply_manifests(client, manifests(config_map("kept", "{a: '1', b: '1'}")))
    await apply_manifests(client, manifests(config_map("kept", "{b: '2'}")))
    stored = msgspec.json.decode(await client.request("GET", "/api/v1/namespaces/default/configmaps/kept"))
    assert stored["data"] == {"a": "1", "b": "2"}


async def test_all_mistakes_are_reported_together_and_nothing_is_applied(client: Client) -> None:
    text = config_map("good", "{a: '1'}") + config_map("Bad_Name", "{a: '1'}")
    text += config_map("typo", "{a: '1'}\ndatas: {}") + config_map("lost", "{}", "no-such-namespace")
    with pytest.raises(RefusedError) as caught:
        await apply_manifests(client, manifests(text))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["7", "12", "18"]
    assert 'metadata.name: Invalid value: "Bad_Name"' in lines[0]
    assert 'unknown field "datas"' in lines[1]
    assert 'namespaces "no-such-namespace" not found' in lines[2]
    assert not caught.value.applied
    with pytest.raises(NotFoundError):
        await client.request("GET", "/api/v1/namespaces/default/configmaps/good")


async def test_an_unknown_kind_is_reported_with_the_nearest_match(client: Client) -> None:
    text = "apiVersion: v1\nkind: configmap\nmetadata: {name: a}\n---\napiVersion: example.com/v1\nkind: X\nmetadata: {name: b}\n"
    with pytest.raises(RefusedError) as caught:
        await apply_manifests(client, manifests(text))
    one, other = str(caught.value).splitlines()
    assert one.endswith("the server knows no kind configmap in v1; did you mean ConfigMap?")
    assert other.endswith("the server does not know apiVersion example.com/v1")


async def test_a_namespace_in_the_manifests_is_created_first_wherever_it_appears(client: Client) -> None:
    name = f"late-{random.Random().randrange(10**6)}"
    text = (
        config_map("early", "{}", name)
        + f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"
    )
    applied = await apply_manifests(client, manifests(text))
    assert [done.manifest.kind for done in applied] == ["Namespace", "ConfigMap"]


async def test_a_rejection_after_the_dry_run_is_reported_with_applied_and_unapplied_objects(
    client: Client,
) -> None:
    name = f"half-{random.Random().randrange(10**6)}"
    text = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"
    text += (
        config_map("fine", "{}", name) + config_map("Not_Fine", "{}", name) + config_map("never", "{}", name)
    )
    with pytest.raises(RefusedError) as caught:
        await apply_manifests(client, manifests(text))
    assert [done.manifest.name for done in caught.value.applied] == [name, "fine"]
    assert [left.name for left in caught.value.left] == ["never"]
