"""Lease (coordination.k8s.io/v1) with all fields, for reading and writing."""

import msgspec

from aiokube.api.meta import ObjectMeta
from aiokube.api.resource import Resource


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The holder of a lease and its timestamps, RFC 3339 with exactly six fractional digits.

    ``None`` and an absent field are equivalent; a holder of ``""`` is written and means that the lease is
    free.
    """

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None

    @property
    def holder(self) -> str:
        """The holder's identity, ``""`` if the lease is free."""
        return self.holder_identity or ""


class Lease(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A lock that one client holds for as long as it renews it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    kind: str | None = "Lease"
    api_version: str | None = "coordination.k8s.io/v1"


LEASES: Resource[Lease] = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", wire=Lease, complete=True
)
