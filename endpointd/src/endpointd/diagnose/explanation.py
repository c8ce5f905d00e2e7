"""The values of an explanation: a service, its pods, slices and addresses, for text and programs. Pure."""

from typing import Literal

import msgspec

from aiokube.api.meta import ObjectKey
from endpointd.diagnose.reasons import Reason

Verdict = Literal[
    "ready", "not ready", "terminating", "out", "missing", "left over", "unreachable", "unknown"
]
"""How the pod is published; correctly unpublished (``out``); not published but should be (``missing``);
published but should not be (``left over``); published and ready without any port, so that no traffic arrives
(``unreachable``); or unknown from the collections that could be read."""

ServiceVerdict = Literal["works", "degraded", "no traffic", "alias", "unknown"]


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """A published endpoint of a pod."""

    slice: str
    address_type: str
    addresses: tuple[str, ...]
    ports: str
    """``http 8080/TCP``, several separated by commas, or ``none``."""
    zone: str
    for_zones: tuple[str, ...]


class EventLine(msgspec.Struct, frozen=True, rename="camel"):
    """One Event of a pod."""

    type: str
    reason: str
    message: str
    count: int
    last_seen: str


class ContainerLine(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The spec of one container."""

    name: str
    image: str = ""
    readiness_probe: str = ""


class PodExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of one pod for one service."""

    pod: str
    namespace: str
    verdict: Verdict
    is_selected: bool
    places: tuple[Place, ...]
    reasons: tuple[Reason, ...]
    in_endpoints: bool | None
    """Whether Endpoints also contain it; None if they do not exist or could not be read."""
    expected: Verdict | None = None
    """How the pod should be published according to the readable collections; set only if the verdict is
    ``unknown``."""
    node: str = ""
    containers: tuple[ContainerLine, ...] = ()
    events: tuple[EventLine, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """The pod's key."""
        return ObjectKey(self.namespace, self.pod)


class AddressExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """An address that does not belong to a selected pod: hand-written, or written by another controller."""

    address: str
    is_ready: bool
    place: str
    """``Endpoints web``, ``EndpointSlice web-1 (by controller.example.com)``."""
    ports: str
    target: str
    """``Pod web-1``, or ``""`` without a target reference."""


class SliceExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One slice that names the service."""

    name: str
    managed_by: str
    address_type: str
    ports: str
    endpoints: int
    ready: int


class ServiceExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of a service and its pods."""

    namespace: str
    name: str
    type: str
    verdict: ServiceVerdict
    summary: str
    """The verdict in one line."""
    selector: str
    families: tuple[str, ...]
    ports: str
    reasons: tuple[Reason, ...]
    slices: tuple[SliceExplanation, ...] | None
    """None if slices could not be read."""
    pods: tuple[PodExplanation, ...]
    near_misses: int
    """The number of nearly matching pods; the nearest are in ``pods``."""
    addresses: tuple[AddressExplanation, ...] = ()
    assumed: str = ""
