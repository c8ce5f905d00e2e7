"""Invariants of field ownership in custom resources, for random schemas and objects."""

import contextlib
import copy
import random

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.custom_apply_driver import GROUP, JSON, document, random_kind, reowned
from tinykube.server.errors import StatusError
from tinykube.server.fields.compare import compare
from tinykube.server.fields.kinds import CustomTypes, CustomVersion
from tinykube.server.fields.managed_fields import Entries, Tracked, Writer, after_writing, apply
from tinykube.server.fields.merge import reconciled
from tinykube.server.fields.nodes import field_set
from tinykube.server.fields.sets import difference, union
from tinykube.server.fields.structural import structural_node
from tinykube.server.fields.updater import STRIPPED
from tinykube.server.fields.validate import problems

NOW = "2026-01-01T00:00:00Z"
seeds = st.integers(0, 2**32)


class Thing:
    """A kind with a random schema, for applies and updates."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kind = random_kind(self.rng, "ks", "K")
        properties = {"spec": self.kind.specs["v1"], "status": self.kind.status}
        self.schema = {"type": "object", "properties": properties}
        types = CustomTypes(GROUP, {"v1": CustomVersion(self.schema, False, None)})
        own, others = types.own("", f"{GROUP}/v1"), types.others("", f"{GROUP}/v1")
        self.tracked = Tracked(GROUP, "v1", "K", own, {}, others)
        self.node = own.node

    def fitting(self) -> JSON:
        """Return a random object that fits the schema's types."""
        while True:
            made = document(self.rng, self.kind, "v1", "a")
            if not problems(self.node, made):
                return made

    def applied(self, live: JSON | None, body: JSON, manager: str, *, force: bool = True) -> JSON:
        made, entries = apply(self.tracked, Writer(manager, "", NOW), live, body, force=force)
        return with_entries(made, entries)


def with_entries(document: JSON, entries: Entries | None) -> JSON:
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": {**metadata, "managedFields": entries} if entries else metadata}


@given(seeds)
def test_repeating_an_apply_changes_nothing(seed: int) -> None:
    thing = Thing(seed)
    live = thing.applied(None, thing.fitting(), "m1")
    body = thing.fitting()
    once = thing.applied(live, body, "m2")
    assert thing.applied(once, body, "m2", force=False) == once


@given(seeds)
def test_an_applier_owns_exactly_the_fields_it_names(seed: int) -> None:
    thing = Thing(seed)
    live = thing.applied(None, thing.fitting(), "m1")
    body = thing.fitting()
    after = thing.applied(thing.applied(live, thing.fitting(), "m2"), body, "m2")
    mine = [one for one in after["metadata"].get("managedFields", ()) if one["manager"] == "m2"]
    fields = difference(field_set(thing.node, body), STRIPPED)
    assert [one["fieldsV1"] for one in mine] == ([fields] if fields else [])


@given(seeds)
def test_the_arguments_are_not_modified(seed: int) -> None:
    thing = Thing(seed)
    live, body = thing.applied(None, thing.fitting(), "m1"), thing.fitting()
    before = copy.deepcopy((live, body, thing.schema))
    thing.applied(live, body, "m2")
    with contextlib.suppress(StatusError):
        thing.applied(live, body, "m2", force=False)
    after_writing(thing.tracked, Writer("m3", "", NOW), live, body, None)
    assert (live, body, thing.schema) == before


@given(seeds)
def test_reversing_a_comparison_swaps_added_and_removed(seed: int) -> None:
    thing = Thing(seed)
    one, other = thing.fitting(), thing.fitting()
    there, back = compare(thing.node, one, other), compare(thing.node, other, one)
    assert (there.added, there.removed, there.modified) == (back.removed, back.added, back.modified)


@given(seeds)
def test_the_writer_of_an_update_owns_all_changed_fields(seed: int) -> None:
    thing = Thing(seed)
    live, new = thing.applied(None, thing.fitting(), "m1"), thing.fitting()
    if not live["metadata"].get("managedFields"):
        return  # ownership is not tracked then
    entries = after_writing(thing.tracked, Writer("m2", "", NOW), live, new, None) or []
    changes = compare(thing.node, live, new)
    gained = difference(union(changes.modified, changes.added), STRIPPED)
    mine = [one["fieldsV1"] for one in entries if one["manager"] == "m2"]
    assert mine == ([gained] if gained else [])


@given(seeds)
def test_reconciling_owned_fields_is_idempotent(seed: int) -> None:
    thing = Thing(seed)
    fields = field_set(thing.node, thing.fitting())
    assert reconciled(thing.node, fields) == fields
    other = structural_node(reowned(thing.rng, thing.schema))
    there = reconciled(other, fields)
    assert reconciled(other, there) == there
