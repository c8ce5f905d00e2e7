"""The decisions of the garbage collector about dependents and waiting owners. Pure."""

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
    """The state of an owner reference's target."""

    PRESENT = "present"
    GONE = "gone"
    """No such object, another uid, or another namespace: such references do not count."""
    WAITING = "waiting"
    """It is being deleted, and waits for the deletion of its dependents."""
    UNKNOWN = "unknown"
    """Its kind is unknown (a custom resource whose definition is not loaded yet): no decision is possible."""
    MISPLACED = "misplaced"
    """A namespaced owner of a cluster-scoped object: such a reference is invalid and ignored."""


class DropOwners(msgspec.Struct, frozen=True):
    """Remove owner references from an object."""

    key: StorageKey
    uids: tuple[str, ...]


class DeleteOwned(msgspec.Struct, frozen=True):
    """Delete an object whose owners no longer exist or are being deleted."""

    key: StorageKey
    uid: str
    policy: PropagationPolicy


class Unblock(msgspec.Struct, frozen=True):
    """Clear blockOwnerDeletion on an object's references: owner and dependent wait for each other."""

    key: StorageKey


class DropFinalizer(msgspec.Struct, frozen=True):
    """Remove a finalizer from an object: there is nothing left to wait for."""

    key: StorageKey
    uid: str
    name: str


Step = DropOwners | DeleteOwned | Unblock | DropFinalizer

Locate = Callable[[StorageKey, OwnerReference], OwnerState]
"""Returns the state of an owner reference's target."""


def plan_garbage(
    subject: OwnershipInfo, dependents: Sequence[OwnershipInfo], locate: Locate
) -> tuple[Step, ...]:
    """Return the steps for one object, in order. ``dependents``: those whose references resolve to it.

    An existing owner keeps an object (and references to missing ones are removed). Without any, it is
    deleted. An owner in foreground deletion waits for dependents with blockOwnerDeletion.
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
            # It may be part of a cycle of waiting objects.
            steps.append(Unblock(subject.key))
        return (*steps, DeleteOwned(subject.key, subject.uid, "Foreground"))
    return (DeleteOwned(subject.key, subject.uid, _policy(subject)),)


def _blocks(dependent: OwnershipInfo, uid: str) -> bool:
    return any(owner.uid == uid and owner.block_owner_deletion for owner in dependent.owners)


def _policy(subject: OwnershipInfo) -> PropagationPolicy:
    """Return the policy that the object's finalizers already request."""
    if ORPHAN_FINALIZER in subject.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND_FINALIZER in subject.finalizers else "Background"
