"""Minimal objects for a cache."""

from typing import Literal

import msgspec

from aiokube.api.meta import ObjectKey, ObjectMeta, key_of
from aiokube.api.resource import WatchEvent
from aiokube.runtime.store import Store


class Thing(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    value: str = ""


def thing(
    name: str,
    version: int | str,
    value: str = "",
    *,
    namespace: str = "ns",
    uid: str | None = None,
    terminating: bool = False,
) -> Thing:
    return Thing(
        ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid if uid is not None else f"uid-{name}",
            resource_version=str(version),
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
            finalizers=("example.com/hold",) if terminating else None,
        ),
        value,
    )


def added(item: Thing) -> WatchEvent[Thing]:
    return WatchEvent("ADDED", item)


def modified(item: Thing) -> WatchEvent[Thing]:
    return WatchEvent("MODIFIED", item)


def deleted(item: Thing) -> WatchEvent[Thing]:
    return WatchEvent("DELETED", item)


def event(kind: Literal["ADDED", "MODIFIED", "DELETED"], item: Thing) -> WatchEvent[Thing]:
    return WatchEvent(kind, item)


def key(name: str, namespace: str = "ns") -> ObjectKey:
    return ObjectKey(namespace, name)


def version_of(item: Thing | None) -> str | None:
    return item.metadata.resource_version if item is not None else None


class Recorder:
    """A handler that records changes, in words and as a mirror of the store."""

    def __init__(self, store: Store[Thing] | None = None) -> None:
        self.told: list[str] = []
        self.mirror: dict[ObjectKey, Thing] = {}
        if store is not None:
            store.subscribe(self)

    def __call__(self, old: Thing | None, new: Thing | None) -> None:
        if old is None:
            assert new is not None, "told of nothing"
            assert key_of(new) not in self.mirror, "told twice that it came"
            self.told.append(f"+{new.metadata.name}@{version_of(new)}")
        else:
            assert self.mirror[key_of(old)] is old, "received an old state that was not the last"
            if new is None:
                self.told.append(f"-{old.metadata.name}@{version_of(old)}")
            else:
                assert old.metadata.uid == new.metadata.uid, "another uid is another object"
                self.told.append(f"{new.metadata.name}@{version_of(old)}->{version_of(new)}")
        if new is not None:
            self.mirror[key_of(new)] = new
        elif old is not None:
            del self.mirror[key_of(old)]

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told


def contents(store: Store[Thing]) -> dict[ObjectKey, Thing]:
    return {key_of(item): item for item in store.values()}
