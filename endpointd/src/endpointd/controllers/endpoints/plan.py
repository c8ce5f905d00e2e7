"""Plan the write for one service: a pure function of desired and observed state (E-10 to E-24)."""

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
    """The desired subsets of a service in canonical order, truncated to the limit, and whether they were truncated."""

    subsets: Subsets = ()
    over_capacity: bool = False


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """No write is needed."""


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create the Endpoints of the service (E-21)."""

    key: ObjectKey
    body: Endpoints


class Update(msgspec.Struct, frozen=True, gc=False):
    """Replace the Endpoints of the service at the observed version (E-21)."""

    key: ObjectKey
    body: Endpoints


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete these Endpoints if unchanged since observed: their service is deleted (E-10)."""

    key: ObjectKey
    uid: str
    resource_version: str


Plan = Nothing | Create | Update | Delete

NOTHING = Nothing()


def is_published(service: Service) -> bool:
    """Return whether the controller manages a service's Endpoints: not ExternalName (E-11), with a selector (E-12).

    Endpoints of other services are never touched, even if the controller once wrote them.
    """
    return not service.is_external_name and bool(service.selector)


def is_election_record(endpoints: Endpoints) -> bool:
    """Return whether an Endpoints is a leader election record, which must not be deleted (E-5)."""
    return LEADER_ANNOTATION in (endpoints.metadata.annotations or {})


def plan_without_service(observed: Endpoints | None) -> Plan:
    """Plan for Endpoints whose service is deleted, whichever client wrote them (E-10).

    They are deleted, except leader election records and objects that are already being deleted.
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
    """Plan the write that brings the observed Endpoints up to date, if one is needed (E-18 to E-21).

    A write is needed if and only if the stored object would change: its endpoints (ignoring order, the
    division into subsets and reference versions, E-19a), its labels, or the over-capacity mark. A different
    trigger time alone is no reason (E-19). ``is_canonical`` means that the observed subsets are known to be
    in canonical form, as written by us, so the comparison is fast.
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
        and _publishes(observed.subsets or (), wanted.subsets, is_canonical)  # E-19a
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
    """Return the labels of a service's Endpoints: the service's labels, overridden by ours (E-20)."""
    labels = {key: value for key, value in service.labels.items() if key != HEADLESS_LABEL}
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    labels[MANAGED_BY_LABEL] = MANAGED_BY_US
    return labels


def _annotations(present: dict[str, str], wanted: Wanted, trigger_time: str | None) -> dict[str, str] | None:
    """Return the annotations to write; those of other clients are kept (E-20)."""
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


def _publishes(stored: Subsets, wanted: Subsets, is_canonical: bool) -> bool:
    """Return whether stored subsets publish the desired ones, directly or in canonical form (E-19a)."""
    if stored == wanted:
        return True
    if is_canonical:
        return False
    stored = without_versions(stored)
    return stored == wanted or repack(stored) == wanted
