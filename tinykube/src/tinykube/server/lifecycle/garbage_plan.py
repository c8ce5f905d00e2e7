"""What becomes of an owned object, and of one that waits for those it owns: facts in, steps out."""

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec

from tinykube.server.lifecycle.interfaces import PropagationPolicy
from tinykube.server.lifecycle.ownership import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    OwnerReference,
    OwnershipInfo,
)
from tinykube.server.objects import StorageKey


class OwnerState(Enum):
    """What an owner reference leads to."""

    PRESENT = "present"
    GONE = "gone"
    """Nothing of that name, or another object (another uid), or one in another namespace: these never count."""
    WAITING = "waiting"
    """It is being deleted, and waits for its dependents to be deleted first."""
    UNKNOWN = "unknown"
    """Its kind is not known (a custom resource whose definition is still to come): nothing can be said."""
    MISPLACED = "misplaced"
    """A namespaced owner of an object that is in no namespace: such a reference leads nowhere and decides nothing."""


class DropOwners(msgspec.Struct, frozen=True):
    """Take owner references out of an object."""

    key: StorageKey
    uids: tuple[str, ...]


class DeleteOwned(msgspec.Struct, frozen=True):
    """Delete an object whose owners are gone, or going."""

    key: StorageKey
    uid: str
    policy: PropagationPolicy


class Unblock(msgspec.Struct, frozen=True):
    """Let an object's owners go without it: they wait for each other."""

    key: StorageKey


class DropFinalizer(msgspec.Struct, frozen=True):
    """Take a finalizer out of an object: there is nothing left to wait for."""

    key: StorageKey
    uid: str
    name: str


Step = DropOwners | DeleteOwned | Unblock | DropFinalizer

Locate = Callable[[StorageKey, OwnerReference], OwnerState]
"""Tells what an object's owner reference leads to."""


def plan_garbage(
    subject: OwnershipInfo, dependents: Sequence[OwnershipInfo], locate: Locate
) -> tuple[Step, ...]:
    """Return the steps for one object, in their order. ``dependents``: those whose reference really leads to it.

    One owner that is there keeps an object (and the references to the others go). None left: it is deleted. An owner
    that is deleted in the foreground waits for those dependents that say they block it.
    """
    if subject.orphans_dependents:
        released = tuple(DropOwners(dependent.key, (subject.uid,)) for dependent in dependents)
        return (*released, DropFinalizer(subject.key, subject.uid, ORPHAN_FINALIZER))
    if subject.deletes_dependents:
        if any(_blocks(dependent, subject.uid) for dependent in dependents):
            return ()
        return (DropFinalizer(subject.key, subject.uid, FOREGROUND_FINALIZER),)
    if subject.is_deleting or not subject.owners:
        return ()
    states = {owner.uid: locate(subject.key, owner) for owner in subject.owners}
    if OwnerState.UNKNOWN in states.values() or OwnerState.MISPLACED in states.values():
        return ()
    leaving = tuple(uid for uid, state in states.items() if state is not OwnerState.PRESENT)
    if len(leaving) < len(states):
        return (DropOwners(subject.key, leaving),) if leaving else ()
    if OwnerState.WAITING in states.values() and dependents:
        steps: list[Step] = []
        if any(dependent.deletes_dependents for dependent in dependents):
            # It may be one of a circle that all wait for each other.
            steps.append(Unblock(subject.key))
        return (*steps, DeleteOwned(subject.key, subject.uid, "Foreground"))
    return (DeleteOwned(subject.key, subject.uid, _policy(subject)),)


def _blocks(dependent: OwnershipInfo, uid: str) -> bool:
    return any(owner.uid == uid and owner.block_owner_deletion for owner in dependent.owners)


def _policy(subject: OwnershipInfo) -> PropagationPolicy:
    """Return the policy that the object's own finalizers ask for already."""
    if ORPHAN_FINALIZER in subject.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND_FINALIZER in subject.finalizers else "Background"
