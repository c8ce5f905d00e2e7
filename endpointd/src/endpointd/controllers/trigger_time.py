"""When the oldest change happened that the next write publishes (behaviour 0.6), kept as changes arrive.

Upstream compares all pods of a service at every sync; here each change is looked at once, so the cost of one
does not grow with the service, and a pod that flips twice between two syncs keeps its first time.
"""


class TriggerTimes:
    """The times of one service that one controller has not published yet.

    Times are RFC 3339 in UTC with whole seconds, as the API server writes them; they compare as text.
    """

    __slots__ = ("_earliest", "_first", "_service_time")

    def __init__(self, service_time: str | None) -> None:
        self._service_time = service_time
        self._earliest = service_time
        self._first = True

    def pod_changed(self, before: str | None, after: str | None) -> None:
        """Note the Ready transition of a pod, before (None: the pod is new to the service) and after a change.

        Until the first :meth:`take` the service's own creation is the answer, whatever the pods say.
        """
        if self._first or after is None or (before is not None and after <= before):
            return
        if self._earliest is None or after < self._earliest:
            self._earliest = after

    def service_changed(self, service_time: str | None) -> None:
        """Note the creation time of the service as it is now; only a later one than known counts."""
        if service_time is None or (self._service_time is not None and service_time <= self._service_time):
            return
        self._service_time = service_time
        if self._earliest is None or service_time < self._earliest:
            self._earliest = service_time

    def take(self) -> str | None:
        """Return the time of the oldest unpublished change, None where there is none, and forget it."""
        earliest, self._earliest = self._earliest, None
        self._first = False
        return earliest

    def put_back(self, taken: str | None) -> None:
        """Give back what was taken for a write that failed, so that the next one still tells it."""
        if taken is not None and (self._earliest is None or taken < self._earliest):
            self._earliest = taken
