"""``@simulated`` finds and reports a race in a controller; a controller without races passes."""

import pytest

from aiokube import CONFIG_MAPS, NAMESPACES, ConfigMap, Context, Namespace, ObjectKey, ObjectMeta, controller
from aiokube.client.errors import ApiError
from tinykube.testing.simulated import SimulatedCluster, simulated

REGISTER = ObjectKey("default", "register")


@controller(NAMESPACES, watches=(), workers=2)
async def racing(ctx: Context, key: ObjectKey) -> None:
    """Add the namespace to a register, which is read before and written as a whole: another's entry may be lost."""
    try:
        found = await ctx.client.get(CONFIG_MAPS, REGISTER)
        entries = dict(found.data or {})
    except ApiError:
        entries = {}
    if key.name not in entries:
        entries[key.name] = "registered"
        register = ConfigMap(ObjectMeta(namespace="default", name="register"), data=entries)
        await ctx.client.apply(CONFIG_MAPS, register, field_manager="register", force=True)


@controller(NAMESPACES, workers=2)
async def careful(ctx: Context, key: ObjectKey) -> None:
    """Register each namespace in a separate object."""
    register = ConfigMap(
        ObjectMeta(namespace="default", name=f"register-{key.name}"), data={key.name: "registered"}
    )
    await ctx.apply(CONFIG_MAPS, register)


async def registered(cluster: SimulatedCluster) -> set[str]:
    return {name for item in await cluster.objects(CONFIG_MAPS) for name in item.data or {}}


async def everyone_is_registered(cluster: SimulatedCluster) -> None:
    for name in ("shop", "bank"):
        await cluster.create(NAMESPACES, Namespace(ObjectMeta(name=name)))
    await cluster.settle()
    assert {"shop", "bank"} <= await registered(cluster), "a namespace is missing in the register"


def test_a_race_is_found_and_reported_as_a_story_without_faults() -> None:
    @simulated(seeds=20)
    async def test(cluster: SimulatedCluster) -> None:
        cluster.start(racing)
        await everyone_is_registered(cluster)

    with pytest.raises(AssertionError) as raised:
        test()
    story = str(raised.value)
    assert "a namespace is missing" in story
    assert "first_seed=" in story
    assert "faults:\n  none" in story
    assert "PATCH default/configmaps/register: 201" in story
    assert len(story.splitlines()) < 60


def test_a_controller_without_races_passes_under_every_fault() -> None:
    @simulated(seeds=30, replicas=2)
    async def test(cluster: SimulatedCluster) -> None:
        cluster.start(careful)
        await everyone_is_registered(cluster)

    test()


def test_an_unknown_fault_is_rejected_by_name() -> None:
    with pytest.raises(ValueError, match="earthquakes"):
        simulated(faults=("earthquakes",))
