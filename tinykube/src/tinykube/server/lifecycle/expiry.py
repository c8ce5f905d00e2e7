"""Delete objects with a lifetime (events) when they expire."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from aiokube.api.times import parse_time
from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import StatusError
from tinykube.server.lifecycle.interfaces import Deleter
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.registry.definition import Registry
from tinykube.server.storage.model import Change, Storage, StoredObject


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    creation_timestamp: str | None = None


class _Series(msgspec.Struct, gc=False, rename="camel"):
    last_observed_time: str | None = None


class _Times(msgspec.Struct, gc=False, rename="camel"):
    metadata: _Metadata
    event_time: str | None = None
    last_timestamp: str | None = None
    series: _Series | None = None


_DECODER = msgspec.json.Decoder(_Times)


def last_written(stored: StoredObject, now: datetime) -> datetime:
    """Return the latest timestamp in an object, at most ``now``: an estimate of its last write.

    The log has no write times, so for objects written before a restart only their own timestamps are known.
    """
    try:
        times = _DECODER.decode(stored.encoded)
    except msgspec.ValidationError:
        return now
    series = times.series.last_observed_time if times.series is not None else None
    texts = (times.metadata.creation_timestamp, times.event_time, times.last_timestamp, series)
    moments = [moment for text in texts if text and (moment := parse_time(text)) is not None]
    return min(max(moments), now) if moments else now


class Expiry:
    """Deletes objects of definitions with a lifetime that have not been written for that long.

    At start-up, the age of an object is that of its latest timestamp; a later write restarts its lifetime.
    """

    def __init__(self, storage: Storage, registry: Registry, clock: Clock, delete: Deleter) -> None:
        self._storage = storage
        self._registry = registry
        self._clock = clock
        self._delete = delete
        self._due: dict[StorageKey, float] = {}
        self._queue: WorkQueue[StorageKey] = lifecycle_queue("expiry", clock)

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Replace the state of a collection."""
        lifetime_seconds = self._lifetime_seconds(resource)
        if lifetime_seconds is None:
            return
        now = self._clock.wall()
        known = {key for key in self._due if key.resource == resource}
        for stored in objects:
            known.discard(stored.key)
            age_seconds = (now - last_written(stored, now)).total_seconds()
            self._set(stored.key, lifetime_seconds - age_seconds)
        for key in known:
            self._forget(key)

    def changed(self, changes: Sequence[Change]) -> None:
        """Process changes of one collection."""
        lifetime_seconds = self._lifetime_seconds(changes[0].after.key.resource)
        if lifetime_seconds is None:
            return
        for change in changes:
            if change.type == "DELETED":
                self._forget(change.after.key)
            else:
                self._set(change.after.key, lifetime_seconds)

    def _lifetime_seconds(self, resource: GroupResource) -> float | None:
        definition = self._registry.stored_at(resource)
        return None if definition is None else definition.lifetime_seconds

    def _set(self, key: StorageKey, delay_seconds: float) -> None:
        self._due[key] = self._clock.monotonic() + delay_seconds
        self._queue.add_after(key, delay_seconds)

    def _forget(self, key: StorageKey) -> None:
        self._due.pop(key, None)
        self._queue.forget(key)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_workers(self._queue, self.look)

    async def look(self, key: StorageKey) -> None:
        """Delete an expired object; one that was written since is requeued."""
        due = self._due.get(key)
        stored = self._storage.head(key)
        if due is None or stored is None:
            return
        left_seconds = due - self._clock.monotonic()
        if left_seconds > 0:
            self._queue.add_after(key, left_seconds)
            return
        try:
            await self._delete(key, stored.uid)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
