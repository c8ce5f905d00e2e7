"""What to write for one service: a pure function of what should be and what is (E-10 to E-24)."""

import msgspec

from aiokube.api.core import Service
from aiokube.api.endpoints import (
    HEADLESS_LABEL,
    LAST_CHANGE_TRIGGER_TIME_ANNOTATION,
    LEADER_ANNOTATION,
    MANAGED_BY_LABEL,
    MANAGED_BY_US,
    OVER_CAPACITY_ANNOTATION,
    Endpoints,
    EndpointSubset,
)
from aiokube.api.meta import ObjectKey, ObjectMeta
from endpointd.controllers.endpoints.subsets import without_versions
from endpointd.controllers.repack import repack

Subsets = tuple[EndpointSubset, ...]

TRUNCATED = "truncated"


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """The subsets a service should have, in canonical order and cut to size; and whether something was cut."""

    subsets: Subsets = ()
    over_capacity: bool = False


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """There is nothing to write."""


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create the Endpoints of the service (E-21)."""

    key: ObjectKey
    body: Endpoints


class Update(msgspec.Struct, frozen=True, gc=False):
    """Replace the Endpoints of the service, at the version that was observed (E-21)."""

    key: ObjectKey
    body: Endpoints


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete these Endpoints, if they are still what was observed: their service is gone (E-10)."""

    key: ObjectKey
    uid: str
    resource_version: str


Plan = Nothing | Create | Update | Delete

NOTHING = Nothing()


def is_published(service: Service) -> bool:
    """Tell whether a service has Endpoints from us: no alias (E-11), and with a selector (E-12).

    Of any other service nothing is touched, not even what we made when it was one of ours.
    """
    return not service.is_external_name and bool(service.selector)


def is_election_record(endpoints: Endpoints) -> bool:
    """Tell whether an Endpoints is used to elect a leader: it is not ours to delete (E-5)."""
    return LEADER_ANNOTATION in (endpoints.metadata.annotations or {})


def plan_without_service(observed: Endpoints | None) -> Plan:
    """Return what becomes of the Endpoints whose service is gone, whoever made them (E-10).

    They are deleted, but for what elects a leader, and what is being deleted already.
    """
    if observed is None or is_election_record(observed) or observed.metadata.deletion_timestamp is not None:
        return NOTHING
    metadata = observed.metadata
    return Delete(metadata.key, metadata.uid, metadata.resource_version)


def plan_for_service(
    service: Service,
    wanted: Wanted,
    observed: Endpoints | None,
    trigger_time: str | None,
    *,
    is_canonical: bool = False,
) -> Plan:
    """Return the write that makes the observed Endpoints what the service wants, if one is needed (E-18 to E-21).

    One is needed exactly where the stored object would differ afterwards: in its endpoints (another order, other
    divisions into subsets and versions of references aside, E-19a), its labels, or the mark of being over
    capacity. Where the time of the trigger alone differs, it is not (E-19). ``is_canonical`` says that what is
    observed is known to be in canonical form, as we write it: then comparing is quick.
    """
    if not is_published(service):
        return NOTHING
    if observed is None:
        return Create(
            service.metadata.key,
            Endpoints(
                metadata=ObjectMeta(
                    name=service.metadata.name,
                    labels=wanted_labels(service),
                    annotations=_annotations({}, wanted, trigger_time),
                ),
                subsets=wanted.subsets or None,
                kind="Endpoints",
                api_version="v1",
            ),
        )
    metadata = observed.metadata
    labels = wanted_labels(service)
    annotations = metadata.annotations or {}
    mark = TRUNCATED if wanted.over_capacity else None
    if (
        annotations.get(OVER_CAPACITY_ANNOTATION) == mark  # E-19c, E-43
        and (metadata.labels or {}) == labels  # E-19b
        and _shows(observed.subsets or (), wanted.subsets, is_canonical)  # E-19a
    ):
        return NOTHING
    return Update(
        service.metadata.key,
        msgspec.structs.replace(
            observed,
            metadata=msgspec.structs.replace(
                metadata, labels=labels, annotations=_annotations(annotations, wanted, trigger_time)
            ),
            subsets=wanted.subsets or None,
            kind="Endpoints",
            api_version="v1",
        ),
    )


def wanted_labels(service: Service) -> dict[str, str]:
    """Return the labels of a service's Endpoints: those of the service, and ours, which win (E-20)."""
    labels = {key: value for key, value in service.labels.items() if key != HEADLESS_LABEL}
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    labels[MANAGED_BY_LABEL] = MANAGED_BY_US
    return labels


def _annotations(present: dict[str, str], wanted: Wanted, trigger_time: str | None) -> dict[str, str] | None:
    """Return the annotations to write: what others put there stays (E-20)."""
    annotations = dict(present)
    for name, value in (
        (LAST_CHANGE_TRIGGER_TIME_ANNOTATION, trigger_time),
        (OVER_CAPACITY_ANNOTATION, TRUNCATED if wanted.over_capacity else None),
    ):
        if value is None:
            annotations.pop(name, None)
        else:
            annotations[name] = value
    return annotations or None


def _shows(stored: Subsets, wanted: Subsets, is_canonical: bool) -> bool:
    """Tell whether stored subsets publish what is wanted, as they stand or in canonical form (E-19a)."""
    if stored == wanted:
        return True
    if is_canonical:
        return False
    stored = without_versions(stored)
    return stored == wanted or repack(stored) == wanted
