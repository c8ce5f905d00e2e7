"""Expiry of events, and of pods whose grace period has ended without a kubelet."""

from typing import Any

from tests.unit.server.lifecycle.world import World, play

from tinykube.server.lifecycle.graceful import GracefulDeletion


async def event(world: World, name: str, *, last: str = "") -> None:
    body: dict[str, Any] = {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started",
        "message": "m",
        "type": "Normal",
        "source": {"component": "test"},
    }
    if last:
        body["lastTimestamp"] = last
    await world.create("events", name, **body)


def test_events_expire_an_hour_after_their_last_write() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        async with world.running():
            await event(world, "first")
            await world.settle(1_800)
            await event(world, "second")
            key = next(iter(world.storage.heads_in(world.definition("events").resource))).key

            def again(obj: dict[str, object]) -> dict[str, object]:
                obj["count"] = 2
                return obj

            await world.settle(1_700)
            assert world.names("events") == ["first", "second"]
            await world.settle(200)
            assert world.names("events") == ["second"]
            await world.loopback_client.update(key._replace(name="second"), again)
            await world.settle(3_500)
            assert world.names("events") == ["second"]
            await world.settle(200)
            assert world.names("events") == []

    play(scene())


def test_events_found_at_startup_have_the_age_of_their_timestamps() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await event(world, "forgotten")
        await event(world, "repeated", last="2026-01-01T00:50:00Z")
        await world.settle(3_000)  # the server was down; it is 00:50
        async with world.running():
            assert world.names("events") == ["forgotten", "repeated"]
            await world.settle(700)
            assert world.names("events") == ["repeated"]
            await world.settle(3_000)
            assert world.names("events") == []

    play(scene())


def test_a_deleted_pod_of_a_missing_node_is_removed_after_its_grace_period() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await world.create("nodes", "there")
        await world.pod("lost", "missing")
        await world.pod("cared-for", "there")
        await world.pod("not-deleted", "missing")
        async with world.running():
            await world.delete("pods", "lost")
            await world.delete("pods", "cared-for")
            await world.settle(28)
            assert world.names("pods") == ["cared-for", "lost", "not-deleted"]
            await world.settle(4)
            assert world.names("pods") == ["cared-for", "not-deleted"]
            await world.delete("nodes", "there")
            await world.settle()
            assert world.names("pods") == ["not-deleted"]

    play(scene())


def test_without_any_kubelet_all_deleted_pods_are_removed_after_their_grace_period() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await world.create("nodes", "there")
        await world.pod("p", "there", grace_seconds=600)
        async with world.running(finish_graceful_deletions=True):
            await world.delete("pods", "p")
            await world.settle(300)
            assert world.names("pods") == ["p"]
            await world.delete("pods", "p", grace_seconds=301)  # hastened: nearly now
            await world.settle(3)
            assert world.names("pods") == []

    play(scene())


def test_a_recreated_pod_is_not_mistaken_for_its_predecessor() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await world.pod("p", "missing")
        async with world.running():
            await world.delete("pods", "p")
            await world.settle(10)
            await world.delete("pods", "p", grace_seconds=0)
            uid = await world.pod("p", "missing")
            await world.settle(100)
            pod = world.get("pods", "p")
            assert pod is not None
            assert pod["metadata"]["uid"] == uid

    play(scene())


def test_a_missed_recreation_does_not_delete_the_new_pod() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await world.pod("p", "missing")
        ending = GracefulDeletion(world.storage, world.clock, world.loopback_client.delete, finish_all=True)
        pods = world.definition("pods").resource
        await world.delete("pods", "p")
        ending.replaced(pods, list(world.storage.snapshot(pods).after("", "")))
        await world.delete("pods", "p", grace_seconds=0)
        await world.pod("p", "missing")
        key = next(iter(world.storage.heads_in(pods))).key
        await ending.look(key)  # the old pod's timer fires before the event of the new pod
        assert world.names("pods") == ["p"]
        ending.replaced(pods, list(world.storage.snapshot(pods).after("", "")))
        await ending.look(key)
        assert world.names("pods") == ["p"]
        assert not ending._node_of, "the old pod is never forgotten"

    play(scene())
