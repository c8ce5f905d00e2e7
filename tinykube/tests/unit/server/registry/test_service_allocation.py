"""Allocation of addresses and ports: after any history, exactly those of the existing services are allocated."""

import copy
import random
from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world, refusal

from tinykube.server.errors import StatusError
from tinykube.server.objects import GroupResource, JsonObject
from tinykube.server.registry.builtin import RegistrySettings, builtin_registry
from tinykube.server.verbs.options import WriteOptions

TINY = RegistrySettings(service_cidrs=("10.0.0.0/29", "fd00::/125"), node_port_range=(30_000, 30_005))
SINGLE = RegistrySettings(service_cidrs=("10.0.0.0/29",), node_port_range=(30_000, 30_005))
DRY = WriteOptions(dry_run=("All",))


def service(name: str = "s", **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def created(world: World, body: JsonObject) -> JsonObject:
    spec: JsonObject = (await world.create(body, "services")).decode()["spec"]
    return spec


async def changed(world: World, name: str, **spec: Any) -> JsonObject:
    changed_spec: JsonObject = (await world.patch(name, {"spec": spec}, plural="services")).decode()["spec"]
    return changed_spec


async def test_addresses_are_allocated_until_the_range_is_full() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        drawn = {(await created(world, service(f"s{number}")))["clusterIP"] for number in range(6)}
        assert drawn == {f"10.0.0.{number}" for number in range(1, 7)}
        error = await refusal(world.create(service("more"), "services"))
        assert error.code == 500
        assert "range is full" in error.message


async def test_deleting_a_service_releases_its_addresses_and_ports() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        body = service(
            type="LoadBalancer",
            clusterIP="10.0.0.3",
            externalTrafficPolicy="Local",
            healthCheckNodePort=30_001,
            ports=[{"port": 80, "nodePort": 30_002}],
        )
        await created(world, copy.deepcopy(body))
        await world.delete("s", "services")
        again = await created(world, body)
        assert (again["clusterIP"], again["healthCheckNodePort"]) == ("10.0.0.3", 30_001)


async def test_a_dry_run_returns_an_address_without_allocating_it() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        for number in range(20):
            shown = await world.create(service(f"s{number}", type="NodePort"), "services", DRY)
            assert shown.decode()["spec"]["clusterIP"]
        assert len({(await created(world, service(f"s{number}")))["clusterIP"] for number in range(6)}) == 6


async def test_a_rejected_create_leaves_nothing_allocated() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        for _ in range(20):
            await refusal(world.create(service(type="NodePort", externalIPs=["x"]), "services"))
        assert (await created(world, service(clusterIP="10.0.0.1")))["clusterIP"] == "10.0.0.1"


async def test_creating_a_service_that_exists_allocates_nothing() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        await created(world, service("s", clusterIP="10.0.0.1"))
        for _ in range(20):
            assert (await refusal(world.create(service("s"), "services"))).reason == "AlreadyExists"
        for number in range(5):
            await created(world, service(f"other{number}"))


async def test_a_rejected_update_releases_new_allocations_and_keeps_existing_ones() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        await created(world, service("s", clusterIP="10.0.0.1"))
        for _ in range(20):
            with pytest.raises(StatusError):
                await changed(world, "s", type="NodePort", externalIPs=["x"])
        assert (await refusal(world.create(service("t", clusterIP="10.0.0.1"), "services"))).code == 422
        for number in range(3):
            await created(world, service(f"n{number}", type="NodePort", ports=[{"port": 80}]))


async def test_changing_the_type_releases_node_ports() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        await created(world, service("s", type="NodePort", ports=[{"port": 80, "nodePort": 30_003}]))
        assert "nodePort" not in (await changed(world, "s", type="ClusterIP"))["ports"][0]
        await created(world, service("t", type="NodePort", ports=[{"port": 80, "nodePort": 30_003}]))


async def test_a_second_ip_family_can_be_added_and_removed() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        await created(world, service("s"))
        both = await changed(world, "s", ipFamilyPolicy="RequireDualStack")
        assert both["ipFamilies"] == ["IPv4", "IPv6"]
        second = both["clusterIPs"][1]
        one = await changed(world, "s", ipFamilyPolicy="SingleStack")
        assert one["clusterIPs"] == both["clusterIPs"][:1]
        taken = await created(world, service("t", clusterIP=second))
        assert taken["ipFamilies"] == ["IPv6"]


async def test_changing_to_external_name_releases_the_address() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        await created(world, service("s", clusterIP="10.0.0.1"))
        external = await changed(world, "s", type="ExternalName", externalName="a.b")
        assert "clusterIP" not in external
        await created(world, service("t", clusterIP="10.0.0.1"))
        assert (await changed(world, "s", type="ClusterIP", externalName=None))["clusterIP"] != "10.0.0.1"


async def test_a_single_stack_cluster_rejects_required_dual_stack_and_unknown_families() -> None:
    async with a_world(builtin_registry(SINGLE)) as world:
        error = await refusal(world.create(service(ipFamilyPolicy="RequireDualStack"), "services"))
        assert "this cluster is not configured for dual-stack services" in error.message
        preferred = await created(world, service(ipFamilyPolicy="PreferDualStack"))
        assert preferred["ipFamilies"] == ["IPv4"]
        error = await refusal(world.create(service("t", ipFamilies=["IPv6"]), "services"))
        assert "not configured on this cluster" in error.message


async def test_a_headless_service_without_selector_is_dual_stack_on_a_single_stack_cluster() -> None:
    async with a_world(builtin_registry(SINGLE)) as world:
        spec = await created(world, service(clusterIP="None"))
        assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")
        assert spec["clusterIPs"] == ["None"]


async def test_stored_services_are_allocated_again_after_a_restart() -> None:
    async with a_world(builtin_registry(TINY)) as world:
        await created(world, service("s", type="NodePort", clusterIP="10.0.0.2"))
        stored = await world.get("s", "services")
        fresh = builtin_registry(TINY).get("", "v1", "services")
        assert fresh is not None
        for _ in range(2):  # recorded twice, allocated once
            fresh.strategy.after_create(world.request(), stored)
        with pytest.raises(StatusError, match="provided IP is already allocated"):
            fresh.strategy.prepare_for_create(world.request(), _prepared("t", clusterIP="10.0.0.2"))
        port = stored["spec"]["ports"][0]["nodePort"]
        body = _prepared("t", type="NodePort", ports=[{"port": 80, "nodePort": port}])
        with pytest.raises(StatusError, match="provided port is already allocated"):
            fresh.strategy.prepare_for_create(world.request(), body)


def _prepared(name: str, **spec: Any) -> JsonObject:
    strategy = builtin_registry(TINY).get("", "v1", "services")
    assert strategy is not None
    body = service(name, **spec)
    strategy.strategy.default(body)
    return body


@pytest.mark.parametrize("seed", range(5))
async def test_after_any_history_exactly_the_values_of_stored_services_are_allocated(seed: int) -> None:
    rng = random.Random(seed)
    async with a_world(builtin_registry(TINY)) as world:
        for _ in range(50):
            await _random_step(world, rng)
        held = [
            stored.decode()["spec"]
            for stored in world.backend.storage.heads_in(GroupResource("", "services"))
        ]
        ips = [ip for spec in held for ip in spec.get("clusterIPs", ()) if ip != "None"]
        ports = [port["nodePort"] for spec in held for port in spec["ports"] if "nodePort" in port]
        assert len(ips) == len({*ips}), f"seed {seed}: an address is allocated twice"
        assert len(ports) == len({*ports}), f"seed {seed}: a port is allocated twice"
        # Free values can be allocated; used ones cannot.
        for number in range(1, 7):
            error = await _try(world, clusterIP=f"10.0.0.{number}")
            assert (error is None) == (f"10.0.0.{number}" not in ips), (
                f"seed {seed}: 10.0.0.{number}: {error}"
            )
        for port in range(30_000, 30_006):
            error = await _try(world, type="NodePort", clusterIP=None, ports=[{"port": 80, "nodePort": port}])
            full = error is not None and "range is full" in error.message
            assert full or (error is None) == (port not in ports), f"seed {seed}: {port}: {error}"


async def _try(world: World, **spec: Any) -> StatusError | None:
    given = {name: value for name, value in spec.items() if value is not None}
    try:
        await world.create(service("probe", **given), "services", DRY)
    except StatusError as error:
        return error
    return None


async def _random_step(world: World, rng: random.Random) -> None:
    name = f"s{rng.randrange(5)}"
    spec: JsonObject = {
        "type": rng.choice(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        "ipFamilyPolicy": rng.choice([None, "SingleStack", "PreferDualStack", "RequireDualStack"]),
        "externalName": "a.b",
    }
    if rng.random() < 0.2:
        spec["externalIPs"] = ["broken"]
    options = DRY if rng.random() < 0.2 else None
    try:
        match rng.randrange(3):
            case 0:
                given = {key: value for key, value in spec.items() if value is not None}
                await world.create(service(name, **given), "services", options)
            case 1:
                await world.patch(name, {"spec": spec}, plural="services", options=options)
            case _:
                await world.delete(name, "services")
    except StatusError:
        return  # rejected: nothing may remain allocated
