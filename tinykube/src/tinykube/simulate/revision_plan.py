"""The template history of a StatefulSet or DaemonSet, for ``kubectl rollout``. Pure."""

from collections.abc import Container, Sequence
from typing import Any

import msgspec

from aiokube.api.apps import ControllerRevision, Template
from aiokube.api.meta import ObjectMeta
from tinykube.simulate.seeded_random import template_hash

HASH_LABEL = "controller.kubernetes.io/hash"
"""Of the revisions of StatefulSets; those of DaemonSets have the label of their pods."""
_MAX_NAME = 223


class RevisionPlan(msgspec.Struct, frozen=True):
    """The writes, and the name and hash of the current template's revision."""

    name: str
    hash: str
    create: dict[str, Any] | None = None
    renumber: tuple[ControllerRevision, int] | None = None
    """The revision of a template that was rolled back to, and its new number: the highest."""
    deletes: tuple[ControllerRevision, ...] = ()


def plan_revisions(
    owner: ObjectMeta,
    reference: dict[str, object],
    template: Template,
    revisions: Sequence[ControllerRevision],
    *,
    limit: int,
    in_use: Container[str],
    collisions: int = 0,
    label: str = HASH_LABEL,
) -> RevisionPlan:
    """Return the changes of an owner's template history.

    ``in_use`` holds revision names and hashes that pods refer to; ``label`` is the label with a revision's hash.
    """
    ordered = sorted(revisions, key=lambda each: (each.revision, each.metadata.name))
    newest = ordered[-1].revision if ordered else 0
    found = next((each for each in reversed(ordered) if template_of(each) == template), None)
    if found is not None:
        hashed = hash_of(found, label)
        renumber = (found, newest + 1) if found.revision < newest else None
        spare = [each for each in ordered if each is not found and not _is_used(each, in_use, label)]
        excess = len(spare) - limit
        return RevisionPlan(
            found.metadata.name,
            hashed,
            renumber=renumber,
            deletes=tuple(spare[:excess]) if excess > 0 else (),
        )
    hashed = template_hash(template, collisions)
    name = f"{owner.name[: _MAX_NAME - len(hashed)]}-{hashed}"
    labels = {**((template.get("metadata") or {}).get("labels") or {}), label: hashed}
    document = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": labels,
            "ownerReferences": [reference],
        },
        "revision": newest + 1,
        "data": {"spec": {"template": _sorted({"$patch": "replace", **template})}},
    }
    return RevisionPlan(name, hashed, create=document)


def template_of(revision: ControllerRevision) -> Template:
    """Return the template of a revision."""
    spec = (revision.data or {}).get("spec") or {}
    return {key: value for key, value in (spec.get("template") or {}).items() if key != "$patch"}


def hash_of(revision: ControllerRevision, label: str = HASH_LABEL) -> str:
    """Return the hash label of a revision."""
    return (revision.metadata.labels or {}).get(label, "")


def _is_used(revision: ControllerRevision, in_use: Container[str], label: str) -> bool:
    return revision.metadata.name in in_use or hash_of(revision, label) in in_use


def _sorted(value: Any) -> Any:
    """Return JSON with keys sorted at all levels: clients compare revisions byte by byte."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
