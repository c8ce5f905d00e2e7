"""Endpoints that are left out because the API server rejects them: told in Events, counted in a metric."""

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
    """The pods of one controller's services that are left out, in whole or in part, and why.

    One Event on the Service tells of each when it begins, and when its reason changes.
    """

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._problems: dict[ObjectKey, dict[str, str]] = {}

    def __len__(self) -> int:
        """Return how many pods are left out, once for each of their services."""
        return sum(map(len, self._problems.values()))

    def note(self, service: Service, pod: str, problem: str | None) -> None:
        """Take note of why a pod of a service is left out now: None where it is not."""
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
            f"Pod {key.namespace}/{pod} is left out, as the API server rejects its endpoint: {problem}",
        )

    def leave_out(
        self, service: Service, rejected: Iterable[tuple[T, str]], reject: Callable[[T, str], str | None]
    ) -> bool:
        """Have the endpoints that a write named as rejected left out, and report them; return whether any was.

        ``reject`` takes an endpoint out of a service's state and returns its pod, None if the state does not hold it.
        """
        left_out = False
        for endpoint, problem in rejected:
            pod = reject(endpoint, problem)
            if pod is not None:
                self.note(service, pod, problem)
                left_out = True
        return left_out

    def retain(self, service: Service, is_member: Callable[[str], bool]) -> None:
        """Drop the pods of a service that are no members any more: O(pods left out)."""
        for pod in tuple(self._problems.get(key_of(service), ())):
            if not is_member(pod):
                self.note(service, pod, None)

    def forget(self, service: ObjectKey) -> None:
        """Forget a service that is not looked after any more."""
        self._problems.pop(service, None)


def invalid_fields(error: ClientError, field: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """Return the fields that a refusal (422) names as invalid, as matches of ``field``, each with the problem."""
    details = error.status.details if isinstance(error, InvalidError) else None
    for cause in (details.causes if details is not None else None) or ():
        match = field.match(cause.field or "")
        if match is not None:
            yield match, " ".join((cause.message or "invalid").split())


def single_faults(rejected: Mapping[T, str], count: int) -> tuple[tuple[T, str], ...]:
    """Return the rejected endpoints of an object of so many, if it may be written without them.

    Where most of them are rejected it is no fault of single endpoints, and to leave them out would withdraw the
    service: then there are none to return.
    """
    return tuple(rejected.items()) if len(rejected) == 1 or 2 * len(rejected) <= count else ()


def rejection_families(rejections: Iterable[tuple[str, Rejections]]) -> list[Family]:
    """Return how many endpoints are left out, controller by controller."""
    return [
        Family(
            "endpointd_rejected_endpoints",
            "gauge",
            "Pods that are left out of a service because the API server rejects their endpoint.",
            tuple(Sample(len(found), (("controller", name),)) for name, found in rejections),
        )
    ]
