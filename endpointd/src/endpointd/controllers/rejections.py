"""Endpoints omitted because the API server rejects them: reported as Events and counted in a metric."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from aiokube.api.core import SERVICES, Service
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import ClientError, InvalidError
from aiokube.runtime.events import EventRecorder, reference
from aiokube.runtime.exposition import Family, Sample

T = TypeVar("T")

REASON = "EndpointRejected"


class Rejections:
    """The pods of one controller's services whose endpoints are omitted, fully or partly, and why.

    One Event on the Service reports each when it starts and when its reason changes.
    """

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._problems: dict[ObjectKey, dict[str, str]] = {}

    def __len__(self) -> int:
        """Return the number of omitted pods, counted once per service."""
        return sum(map(len, self._problems.values()))

    def record(self, service: Service, pod: str, problem: str | None) -> None:
        """Record why a pod of a service is omitted; None if it is not."""
        if problem is None and not self._problems:
            return
        key = key_of(service)
        problems = self._problems.get(key, {})
        if problems.get(pod) == problem:
            return
        if problem is None:
            del problems[pod]
            if not problems:
                del self._problems[key]
            return
        self._problems.setdefault(key, {})[pod] = problem
        self._recorder.event(
            reference(SERVICES, service),
            "Warning",
            REASON,
            f"Pod {key.namespace}/{pod} is omitted because the API server rejects its endpoint: {problem}",
        )

    def omit_rejected(
        self, service: Service, rejected: Iterable[tuple[T, str]], reject: Callable[[T, str], str | None]
    ) -> bool:
        """Omit and report the endpoints that a write named as rejected; return whether any was omitted.

        ``reject`` removes an endpoint from a service's state and returns its pod, or None if it is not in the
        state.
        """
        is_omitted = False
        for endpoint, problem in rejected:
            pod = reject(endpoint, problem)
            if pod is not None:
                self.record(service, pod, problem)
                is_omitted = True
        return is_omitted

    def retain(self, service: Service, is_member: Callable[[str], bool]) -> None:
        """Drop the pods of a service that are no longer members. O(omitted pods)."""
        for pod in tuple(self._problems.get(key_of(service), ())):
            if not is_member(pod):
                self.record(service, pod, None)

    def forget(self, service: ObjectKey) -> None:
        """Forget a service that is no longer managed."""
        self._problems.pop(service, None)


def invalid_fields(error: ClientError, field: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the fields that a 422 response names as invalid, as matches of ``field``, each with the problem."""
    details = error.status.details if isinstance(error, InvalidError) else None
    for cause in (details.causes if details is not None else None) or ():
        match = field.match(cause.field or "")
        if match is not None:
            yield match, " ".join((cause.message or "invalid").split())


def single_faults(rejected: Mapping[T, str], count: int) -> tuple[tuple[T, str], ...]:
    """Return the rejected endpoints of an object with ``count`` endpoints, if it may be written without them.

    If most are rejected, single endpoints are not at fault and omitting them would take the service down;
    then nothing is returned.
    """
    return tuple(rejected.items()) if len(rejected) == 1 or 2 * len(rejected) <= count else ()


def rejection_families(rejections: Iterable[tuple[str, Rejections]]) -> list[Family]:
    """Return the number of omitted endpoints per controller."""
    return [
        Family(
            "endpointd_rejected_endpoints",
            "gauge",
            "Pods omitted from a service because the API server rejects their endpoint.",
            tuple(Sample(len(found), (("controller", name),)) for name, found in rejections),
        )
    ]
