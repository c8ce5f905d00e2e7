"""The ownership graph and the garbage collector's plans."""

from itertools import product

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tinykube.server.lifecycle.garbage_plan import (
    DeleteOwned,
    DropFinalizer,
    DropOwners,
    OwnerState,
    Step,
    Unblock,
    plan_garbage,
)
from tinykube.server.lifecycle.owners import OwnerGraph
from tinykube.server.lifecycle.ownership import OwnerReference, OwnershipInfo, ownership_of
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.storage.encoding import encode_stored
from tinykube.server.storage.model import Change, StoredObject

CONFIGMAPS = GroupResource("", "configmaps")
DELETED_AT = "2026-01-01T00:00:00Z"
NAMES = "abcd"


def stored(
    name: str, uid: str, revision: int, owners: tuple[str, ...], finalizers: tuple[str, ...], deleting: bool
) -> StoredObject:
    metadata: dict[str, object] = {"name": name, "uid": uid}
    if owners:
        metadata["ownerReferences"] = [
            {"uid": each, "name": each, "kind": "ConfigMap", "apiVersion": "v1", "blockOwnerDeletion": True}
            for each in owners
        ]
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if deleting:
        metadata["deletionTimestamp"] = DELETED_AT
    key = StorageKey(CONFIGMAPS, "ns", name)
    return encode_stored(
        key, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}, revision, lambda *_: {}
    )


steps = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(("put", "put", "remove", "relist")),
    st.lists(
        st.sampled_from([name + number for name, number in product(NAMES, "01")]), max_size=2, unique=True
    ),
    st.sampled_from(((), ("foregroundDeletion",), ("orphan",))),
    st.booleans(),
)


@given(st.lists(steps, max_size=25))
def test_after_any_history_the_graph_equals_a_freshly_built_one(history: list[tuple[object, ...]]) -> None:
    graph, state = OwnerGraph(), dict[str, StoredObject]()
    for revision, (name, act, owners, finalizers, deleting) in enumerate(history, 1):
        assert isinstance(name, str)
        before = state.get(name)
        uid = before.uid if before is not None else f"{name}{revision % 2}"
        if act == "relist":
            graph.replace(CONFIGMAPS, state.values())
        elif act == "remove":
            if before is not None:
                touched = graph.apply(Change("DELETED", state.pop(name), before))
                # Its dependents are reconciled again.
                assert touched >= {each.key for each in graph.dependents(before.uid)}
        else:
            after = stored(name, uid, revision, tuple(owners), tuple(finalizers), bool(deleting))  # type: ignore[arg-type]
            state[name] = after
            touched = graph.apply(Change("ADDED" if before is None else "MODIFIED", after, before))
            if owners:
                assert after.key in touched
            for owner in ownership_of(after).owners:  # a waiting owner is notified
                for other in state.values():
                    waits = ownership_of(other).deletes_dependents or ownership_of(other).orphans_dependents
                    if other.uid == owner.uid and waits:
                        assert other.key in touched
        rebuilt = OwnerGraph()
        rebuilt.replace(CONFIGMAPS, state.values())
        assert sorted(graph.owned()) == sorted(rebuilt.owned())
        for key in rebuilt.owned():
            assert graph.get(key) == rebuilt.get(key)
        for some_uid in [each + number for each, number in product(NAMES, "01")]:
            assert {each.key for each in graph.dependents(some_uid)} == {
                each.key for each in rebuilt.dependents(some_uid)
            }


def info(
    name: str, *owners: str, finalizers: tuple[str, ...] = (), deleting: bool = False, blocks: bool = True
) -> OwnershipInfo:
    references = tuple(OwnerReference(uid=each, block_owner_deletion=blocks) for each in owners)
    return OwnershipInfo(
        StorageKey(CONFIGMAPS, "ns", name), name, references, finalizers, DELETED_AT if deleting else ""
    )


def planned(subject: OwnershipInfo, *dependents: OwnershipInfo, **states: OwnerState) -> tuple[Step, ...]:
    return plan_garbage(subject, dependents, lambda _, owner: states[owner.uid])


PRESENT, GONE, WAITING = OwnerState.PRESENT, OwnerState.GONE, OwnerState.WAITING


def test_the_state_of_the_owners_determines_the_plan_for_a_dependent() -> None:
    x = info("x", "o", "p")
    assert planned(x, o=PRESENT, p=PRESENT) == ()
    assert planned(x, o=PRESENT, p=GONE) == (DropOwners(x.key, ("p",)),)
    assert planned(x, o=PRESENT, p=WAITING) == (DropOwners(x.key, ("p",)),)
    assert planned(x, o=GONE, p=GONE) == (DeleteOwned(x.key, "x", "Background"),)
    assert planned(x, o=GONE, p=WAITING) == (DeleteOwned(x.key, "x", "Background"),)
    child = info("c", "x")
    assert planned(x, child, o=GONE, p=WAITING) == (DeleteOwned(x.key, "x", "Foreground"),)
    assert planned(x, child, o=GONE, p=GONE) == (DeleteOwned(x.key, "x", "Background"),)
    waiting_child = info("c", "x", finalizers=("foregroundDeletion",), deleting=True)
    assert planned(x, waiting_child, o=WAITING, p=WAITING) == (
        Unblock(x.key),
        DeleteOwned(x.key, "x", "Foreground"),
    )
    for undecided in (OwnerState.UNKNOWN, OwnerState.MISPLACED):
        assert planned(x, o=GONE, p=undecided) == ()
    assert planned(info("x")) == ()
    assert planned(info("x", "o", deleting=True), o=GONE) == ()


def test_finalizers_select_the_deletion_policy() -> None:
    for finalizer, policy in (
        ("orphan", "Orphan"),
        ("foregroundDeletion", "Foreground"),
        ("x/y", "Background"),
    ):
        subject = info("x", "o", finalizers=(finalizer,))
        assert planned(subject, o=GONE) == (DeleteOwned(subject.key, "x", policy),)  # type: ignore[arg-type]


def test_a_deletion_finalizer_is_dropped_once_the_dependents_are_handled() -> None:
    foreground = info("x", finalizers=("foregroundDeletion",), deleting=True)
    assert planned(foreground, info("c", "x")) == ()
    done = (DropFinalizer(foreground.key, "x", "foregroundDeletion"),)
    assert planned(foreground, info("c", "x", blocks=False)) == done
    assert planned(foreground) == done
    orphan = info("x", finalizers=("orphan",), deleting=True)
    child = info("c", "x")
    assert planned(orphan, child) == (DropOwners(child.key, ("x",)), DropFinalizer(orphan.key, "x", "orphan"))


def test_ownership_is_parsed_from_any_document() -> None:
    plain = stored("a", "u", 1, (), ("x/y",), False)
    assert ownership_of(plain) == OwnershipInfo(plain.key, "u"), "finalizers alone are irrelevant here"
    assert ownership_of(stored("a", "u", 1, (), ("x/y",), True)).finalizers == ("x/y",)
    assert ownership_of(stored("a", "u", 1, ("o",), (), False)).owners[0].uid == "o"
    quoted = msgspec.structs.replace(
        plain, encoded=plain.encoded.replace(b'"x/y"', b'"\\"ownerReferences\\""')
    )
    assert ownership_of(quoted).owners == ()
    odd = msgspec.structs.replace(plain, encoded=b'{"metadata":{"ownerReferences":[{"name":"no uid"}]}}')
    assert ownership_of(odd) == OwnershipInfo(plain.key, "u")
