"""Watch output: batches as chunks, few system calls for many watches, shared bytes."""

from tests.unit.server.verbs.world import World, a_world, config_map

from tinykube.server.http.frames import Framer, chunk, plain_line
from tinykube.server.http.negotiation import Form
from tinykube.server.http.streams import pace_seconds
from tinykube.server.objects import JsonObject
from tinykube.server.verbs.watch import Bookmark, Event, Watch


def test_writes_are_immediate_for_few_watchers_and_paced_for_many() -> None:
    assert pace_seconds(1) == pace_seconds(19) == 0.0
    assert 0.0 < pace_seconds(100) < pace_seconds(300) < 0.05
    assert pace_seconds(10_000) == 0.05


def test_chunks_have_http_chunked_framing() -> None:
    assert chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"


async def changed(world: World) -> list[Event]:
    watch = await world.watch(resource_version=str(world.backend.storage.revision))
    assert isinstance(watch, Watch)
    await world.create(config_map("a"))
    return [item for item in await watch.next_batch() if isinstance(item, Event)]


async def test_an_event_is_encoded_once_for_all_watchers() -> None:
    async with a_world() as world:
        (event,) = await changed(world)
        again = Event(event.type, event.stored, event.change)
        assert plain_line(event) is plain_line(again)
        assert plain_line(event) == b'{"type":"ADDED","object":' + event.stored.encoded + b"}\n"


async def test_initial_objects_are_sent_as_stored() -> None:
    async with a_world() as world:
        await world.create(config_map("a"))
        (stored,) = (await world.list()).items
        assert plain_line(Event("ADDED", stored)) == b'{"type":"ADDED","object":' + stored.encoded + b"}\n"


async def test_a_batch_is_framed_in_order_and_bookmarks_have_the_kind() -> None:
    async with a_world() as world:
        (event,) = await changed(world)
        framer = Framer(world.definition("configmaps"), Form(), world.clock.wall)
        lines = framer.frame((event, Bookmark(7, False))).splitlines()
        assert lines[0] == plain_line(event).rstrip()
        assert lines[1] == (
            b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}'
        )


async def test_watches_support_tables_partial_metadata_and_yaml() -> None:
    async with a_world() as world:
        (event,) = await changed(world)
        shown: JsonObject = {}
        import msgspec

        for transform in ("Table", "PartialObjectMetadata"):
            framer = Framer(world.definition("configmaps"), Form(transform=transform), world.clock.wall)
            shown[transform] = msgspec.json.decode(framer.frame((event,)))["object"]
        assert shown["Table"]["rows"][0]["cells"][0] == "a"
        assert set(shown["PartialObjectMetadata"]) == {"kind", "apiVersion", "metadata"}
        yaml_framer = Framer(world.definition("configmaps"), Form(is_yaml=True), world.clock.wall)
        assert yaml_framer.frame((event,)).startswith(b"---\nobject:\n")
