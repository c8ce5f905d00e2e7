"""Tracks the time of the oldest change that the next write publishes (behaviour 0.6).

Upstream compares all pods of a service in every sync; here each change is processed once, so its cost does
not grow with the service, and a pod that changes twice between two syncs keeps its first time.
"""


class TriggerTimes:
    """The unpublished trigger times of one service in one controller.

    Times are RFC 3339 in UTC with whole seconds, as written by the API server; they compare as text.
    """

    __slots__ = ("_earliest", "_first", "_service_time")

    def __init__(self, service_time: str | None) -> None:
        self._service_time = service_time
        self._earliest = service_time
        self._first = True

    def pod_changed(self, before: str | None, after: str | None) -> None:
        """Record a pod's Ready transition time before (None: new to the service) and after a change.

        Until the first :meth:`take`, the service's creation time is the result, regardless of pods.
        """
        if self._first or after is None or (before is not None and after <= before):
            return
        if self._earliest is None or after < self._earliest:
            self._earliest = after

    def service_changed(self, service_time: str | None) -> None:
        """Record the service's current creation time; only a later one than known counts."""
        if service_time is None or (self._service_time is not None and service_time <= self._service_time):
            return
        self._service_time = service_time
        if self._earliest is None or service_time < self._earliest:
            self._earliest = service_time

    def take(self) -> str | None:
        """Return and reset the time of the oldest unpublished change, or None."""
        earliest, self._earliest = self._earliest, None
        self._first = False
        return earliest

    def put_back(self, taken: str | None) -> None:
        """Restore the time of a failed write, so that the next write publishes it."""
        if taken is not None and (self._earliest is None or taken < self._earliest):
            self._earliest = taken
