"""Lease (coordination.k8s.io/v1), complete: it is written."""

import msgspec

from aiokube.api.meta import ObjectMeta
from aiokube.api.resource import Resource


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Who holds the lease, and since when. Times are RFC 3339 texts with exactly six digits of the second.

    ``None`` and an absent field are the same; ``""`` as the holder is written, and means nobody.
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
        """The holder's identity, ``""`` where nobody holds it."""
        return self.holder_identity or ""


class Lease(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A right that one at a time has, as long as it is renewed."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    kind: str | None = "Lease"
    api_version: str | None = "coordination.k8s.io/v1"


LEASES: Resource[Lease] = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", wire=Lease, complete=True
)
