"""The state that two clusters must have in common: raw Endpoints and EndpointSlices without explicitly listed noise.

Objects are compared as raw JSON: every field counts, known or not. Excluded are only the fields named in this module:
names of generated slices, times, versions and managed fields (:data:`NOISE_IN_METADATA`), and fields that depend on the
Kubernetes version (:class:`Snapshot`). A uid is reduced to whether it belongs to the object that has the name now. The
endpoints of several slices with the same ports are compared together, with the sizes of the slices if those are
determined. Order is ignored where it may depend on a uid (behaviour 6); :mod:`tests.differential.invariants` checks the
order within each cluster.
"""

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    MANAGED_BY_MIRRORING_CONTROLLER,
    SERVICE_NAME_LABEL,
    EndpointSlice,
)
from aiokube.api.endpoints import ENDPOINTS, LAST_CHANGE_TRIGGER_TIME_ANNOTATION, Endpoints
from aiokube.api.endpoints import MANAGED_BY_LABEL as ENDPOINTS_MANAGED_BY_LABEL
from aiokube.api.meta import ObjectKey, key_of

Json = dict[str, Any]

NormalState = Mapping[str, tuple[str, ...]]
"""The compared state: lines of text, keyed by the Endpoints or the group of slices that they describe."""

NOISE_IN_METADATA = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",  # counts writes; upstream often needs more of them
        "deletionGracePeriodSeconds",  # set together with deletionTimestamp, of which only the presence is compared
    }
)
"""Metadata fields that differ between two clusters with equal contents."""

HAND_MADE = "foreign-"
"""Name prefix of the slices that a workload creates; comparisons keep these names."""

_BARE_WORD = re.compile(r"[A-Za-z0-9_./:-]+")


@dataclass(frozen=True)
class Snapshot:
    """Raw objects read from the namespaces of a workload in one cluster."""

    raw_endpoints: tuple[Json, ...] = ()
    raw_slices: tuple[Json, ...] = ()
    services: tuple[Service, ...] = ()
    pods: tuple[Pod, ...] = ()
    is_old: bool = False
    """Whether upstream is older than 1.33: it sets no managed-by label on Endpoints and orders ports by another hash (as do
    1.33 and 1.34, which are never compared). The comparison ignores both.
    """
    replaces_portless_slices: bool = False
    """Whether upstream is older than 1.36: it replaces slices without ports at each sync, so it keeps no placeholder beside
    slices with endpoints, and loses foreign annotations. The comparison ignores both.
    """

    @classmethod
    def of(
        cls,
        *,
        endpoints: Iterable[Endpoints] = (),
        slices: Iterable[EndpointSlice] = (),
        services: Iterable[Service] = (),
        pods: Iterable[Pod] = (),
    ) -> "Snapshot":
        """Return a snapshot of locally built objects."""
        return cls(
            tuple(msgspec.json.decode(ENDPOINTS.encode(item)) for item in endpoints),
            tuple(msgspec.json.decode(ENDPOINT_SLICES.encode(item)) for item in slices),
            tuple(services),
            tuple(pods),
        )

    @cached_property
    def endpoints(self) -> tuple[Endpoints, ...]:
        """The Endpoints, decoded."""
        return tuple(ENDPOINTS.decode(msgspec.json.encode(raw)) for raw in self.raw_endpoints)

    @cached_property
    def slices(self) -> tuple[EndpointSlice, ...]:
        """The slices, decoded."""
        return tuple(ENDPOINT_SLICES.decode(msgspec.json.encode(raw)) for raw in self.raw_slices)


def normalise(snapshot: Snapshot, *, sizes_are_determined: bool = True) -> NormalState:
    """Return the state that two clusters must have in common.

    ``sizes_are_determined`` means that no service ever had more endpoints than fit into one slice: otherwise their
    distribution over slices is random. Slices created by a workload keep their names, unless the controller owns them now
    and may use any of its names for any content (S-70).
    """
    uids = Uids(snapshot)
    state: dict[str, tuple[str, ...]] = {}
    for item in snapshot.raw_endpoints:
        if snapshot.is_old:
            item = _old_endpoints(item)
        state[f"endpoints {raw_key_of(item)}"] = tuple(_endpoints_lines(item, uids))
    groups: dict[str, list[Json]] = defaultdict(list)
    for slice_ in _compared_slices(snapshot):
        if snapshot.is_old:
            slice_ = {**slice_, "ports": _sorted(slice_.get("ports"))}
        groups[_group_of(slice_)].append(slice_)
    for name, slices in groups.items():
        state[name] = tuple(_group_lines(slices, uids, sizes_are_determined=sizes_are_determined))
    return dict(sorted(state.items()))


def one_by_one(snapshot: Snapshot) -> dict[tuple[str, ObjectKey], tuple[str, ...]]:
    """Return the lines of each Endpoints and EndpointSlice by plural and key, to compare one cluster at two times."""
    uids = Uids(snapshot)
    state = {
        ("endpoints", raw_key_of(item)): tuple(_endpoints_lines(item, uids))
        for item in snapshot.raw_endpoints
    }
    for item in snapshot.raw_slices:
        state["endpointslices", raw_key_of(item)] = (_group_of(item), *_group_lines([item], uids))
    return state


def slice_names_in_order(snapshot: Snapshot, service: ObjectKey, managed_by: str) -> list[str]:
    """Return the names of a service's slices of one manager, ordered by content."""
    uids = Uids(snapshot)
    chosen = [
        slice_
        for slice_ in _compared_slices(snapshot)
        if service_key_of(slice_) == service
        and manager_of(slice_) == managed_by
        and not is_being_deleted(slice_)
    ]
    chosen.sort(key=lambda item: (_group_of(item), *_group_lines([item], uids)))
    return [raw_key_of(slice_).name for slice_ in chosen]


def different_keys(one: NormalState, other: NormalState) -> list[str]:
    """Return the keys under which two states differ."""
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def readable_difference(
    one: NormalState, other: NormalState, names: tuple[str, str], keys: Sequence[str] | None = None
) -> str:
    """Return a unified diff of two states."""
    lines: list[str] = []
    for key in different_keys(one, other) if keys is None else keys:
        left = [key, *(f"  {line}" for line in one[key])] if key in one else []
        right = [key, *(f"  {line}" for line in other[key])] if key in other else []
        lines += difflib.unified_diff(left, right, *names, n=20, lineterm="")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------- raw objects


def raw_key_of(item: Json) -> ObjectKey:
    """Return namespace and name."""
    return ObjectKey(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def service_key_of(slice_: Json) -> ObjectKey:
    """Return the service of a slice by its label; the name is "(none)" without the label."""
    return ObjectKey(
        slice_["metadata"].get("namespace", ""), _labels(slice_).get(SERVICE_NAME_LABEL, "(none)")
    )


def manager_of(slice_: Json) -> str:
    """Return the manager of a slice by its label; "(none)" without the label."""
    return _labels(slice_).get(MANAGED_BY_LABEL, "(none)")


def is_being_deleted(item: Json) -> bool:
    """Return whether the object is terminating."""
    return item["metadata"].get("deletionTimestamp") is not None


def _labels(item: Json) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


# ------------------------------------------------------------------------------------- versions of Kubernetes


def _compared_slices(snapshot: Snapshot) -> Iterable[Json]:
    """Return the slices; for upstream before 1.36, without the state that its replacement of portless slices loses.

    While a service selects a pod without any of its ports and without an address of a family, upstream 1.36 keeps the placeholder
    slice of that family (S-50) when other pods get endpoints; it is deleted with the pod. Before 1.36, a port list read from
    the server and a computed empty one had different hashes, so the placeholder became the first of the new slices.
    """
    if not snapshot.replaces_portless_slices:
        yield from snapshot.raw_slices
        return
    full = {_family_of(slice_) for slice_ in snapshot.raw_slices if slice_.get("endpoints")}
    for slice_ in snapshot.raw_slices:
        if slice_.get("ports") or manager_of(slice_) != MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
            yield slice_
        elif slice_.get("endpoints") or _family_of(slice_) not in full:
            yield {**slice_, "metadata": _without(slice_["metadata"], "annotations")}


def _family_of(slice_: Json) -> tuple[ObjectKey, str, str]:
    return service_key_of(slice_), manager_of(slice_), slice_.get("addressType", "")


def _old_endpoints(item: Json) -> Json:
    metadata = {**item["metadata"], "labels": _without(_labels(item), ENDPOINTS_MANAGED_BY_LABEL)}
    subsets = [{**subset, "ports": _sorted(subset.get("ports"))} for subset in item.get("subsets") or ()]
    return {**item, "metadata": metadata, "subsets": subsets}


def _sorted(ports: list[Json] | None) -> list[Json]:
    return sorted(ports or (), key=text_of)


# ------------------------------------------------------------------------------------- lines


class Uids:
    """Resolves uids to the objects that currently have a name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods: dict[ObjectKey, str | None] = {key_of(pod): pod.metadata.uid for pod in snapshot.pods}
        self._owners: dict[tuple[str, ObjectKey], str | None] = {
            **{("Service", key_of(service)): service.metadata.uid for service in snapshot.services},
            **{("Endpoints", raw_key_of(e)): e["metadata"].get("uid") for e in snapshot.raw_endpoints},
        }

    def without_uid_of_pod(self, address: Json) -> Json:
        """Return an endpoint or address with the target's uid reduced to whether it is the current pod's."""
        target = address.get("targetRef")
        if target is None:
            return address
        key = ObjectKey(target.get("namespace", ""), target.get("name", ""))
        known, current = key in self._pods, self._pods.get(key)
        return {**address, "targetRef": _with_relative_uid(target, known=known, current=current)}

    def owner_lines(self, metadata: Json) -> Iterable[str]:
        """Return a line for each owner reference."""
        for owner in metadata.get("ownerReferences") or ():
            key = owner.get("kind", ""), ObjectKey(metadata.get("namespace", ""), owner.get("name", ""))
            known, current = key in self._owners, self._owners.get(key)
            yield f"owner {text_of(_with_relative_uid(owner, known=known, current=current))}"


def _with_relative_uid(reference: Json, *, known: bool, current: str | None) -> Json:
    if not known:
        return {**reference, "uid": "(gone)"}
    return {**reference, "uid": "(current)" if reference.get("uid") == current else "(another)"}


def text_of(value: Any) -> str:
    """Return a JSON value as short text; different values have different texts, except for the order of keys."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text_of(key)}={text_of(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, str):
        is_bare = _BARE_WORD.fullmatch(value) and value not in ("true", "false", "null")
        return value if is_bare and not value.isdecimal() else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def metadata_lines(item: Json, uids: Uids) -> Iterable[str]:
    """Return the metadata of an object without noise, as lines; its name is part of the state's key."""
    metadata = _without(item["metadata"], *NOISE_IN_METADATA, "name", "namespace")
    is_mirror = manager_of(item) == MANAGED_BY_MIRRORING_CONTROLLER
    yield f"labels {text_of(metadata.pop('labels', None) or {})}"
    annotations = metadata.pop("annotations", None) or {}
    if is_mirror:
        metadata.pop(
            "generateName", None
        )  # each of upstream's updates removes it, and upstream sends more updates (M-32)
    else:
        annotations = _without(annotations, LAST_CHANGE_TRIGGER_TIME_ANNOTATION)  # mirroring copies it
    if annotations:
        yield f"annotations {text_of(annotations)}"
    yield from uids.owner_lines(item["metadata"])
    metadata.pop("ownerReferences", None)
    if metadata.pop("deletionTimestamp", None) is not None:
        yield "being deleted"
    for name in sorted(metadata):
        yield f"{name} {text_of(metadata[name])}"


def field_lines(item: Json, *known: str) -> Iterable[str]:
    """Return a line for each field of an object except metadata and ``known``."""
    rest = _without(item, "metadata", *known)
    return [f"{name} {text_of(rest[name])}" for name in sorted(rest)]


def endpoint_lines(slice_: Json, uids: Uids) -> list[str]:
    """Return a line for each endpoint of a slice, ordered by content."""
    return sorted(text_of(uids.without_uid_of_pod(item)) for item in slice_.get("endpoints") or ())


def _endpoints_lines(item: Json, uids: Uids) -> Iterable[str]:
    yield from metadata_lines(item, uids)
    yield from field_lines(item, "subsets")
    yield from sorted(_subset_text(subset, uids) for subset in item.get("subsets") or ())


def _subset_text(subset: Json, uids: Uids) -> str:
    lines = [
        f"subset {text_of(subset.get('ports') or [])}",
        *field_lines(subset, "ports", "addresses", "notReadyAddresses"),
    ]
    for words, addresses in (("ready", "addresses"), ("not ready", "notReadyAddresses")):
        texts = [text_of(uids.without_uid_of_pod(address)) for address in subset.get(addresses) or ()]
        lines += [f"{words:9} {text}" for text in sorted(texts)]  # equal IPs are ordered by uid
    return "\n    ".join(lines)


def _group_of(slice_: Json) -> str:
    name, manager = raw_key_of(slice_).name, manager_of(slice_)
    theirs = name.startswith(HAND_MADE) and manager != MANAGED_BY_ENDPOINTSLICE_CONTROLLER
    by_hand = f" named {name}" if theirs else ""
    return f"slices {service_key_of(slice_)} {type_and_ports_of(slice_)} by {manager}{by_hand}"


def type_and_ports_of(slice_: Json) -> str:
    """Return the address type and ports of a slice: slices that share both are compared together."""
    return f"{slice_.get('addressType')} {text_of(slice_.get('ports') or [])}"


def _group_lines(slices: Sequence[Json], uids: Uids, *, sizes_are_determined: bool = True) -> Iterable[str]:
    if sizes_are_determined:
        yield f"sizes {sorted(len(item.get('endpoints') or ()) for item in slices)}"
    headers = sorted("\n    ".join(slice_header_lines(item, uids)) for item in slices)
    yield from headers if sizes_are_determined else sorted(set(headers))
    yield from sorted(line for item in slices for line in endpoint_lines(item, uids))


def slice_header_lines(slice_: Json, uids: Uids) -> list[str]:
    """Return the fields of a slice other than address type, ports and endpoints, as lines."""
    return [*metadata_lines(slice_, uids), *field_lines(slice_, "addressType", "ports", "endpoints")]


def _without(fields: Mapping[str, Any], *names: str) -> Json:
    return {name: value for name, value in fields.items() if name not in names}
