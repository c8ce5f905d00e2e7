"""The memory of one mirrored Endpoints between syncs: rejected endpoints and reported problems."""

from endpointd.controllers.mirroring.desired import Identity
from endpointd.controllers.mirroring.plan import Problem


class MirrorState:
    """State of one Endpoints, mirrored or not.

    It does not affect the desired slices, except for rejected endpoints.
    """

    __slots__ = ("_rejected_in", "_reported", "_reported_uid", "abandoned", "rejected")

    def __init__(self) -> None:
        self.rejected: set[Identity] = set()
        """Endpoints that the API server has rejected; they are tried again after the Endpoints changes."""
        self._rejected_in = ""
        self.abandoned = False
        """Whether writes stopped because the namespace is terminating."""
        self._reported: tuple[Problem, ...] = ()
        self._reported_uid = ""

    def set_version(self, resource_version: str) -> None:
        """Set the mirrored version of the Endpoints; a new version clears the rejections."""
        if self._rejected_in != resource_version:
            self._rejected_in = resource_version
            self.rejected.clear()

    def new_problems(self, uid: str, problems: tuple[Problem, ...]) -> list[Problem]:
        """Return the problems that were not reported last time for the Endpoints with this uid."""
        before = self._reported if self._reported_uid == uid else ()
        self._reported, self._reported_uid = problems, uid
        return [problem for problem in problems if problem not in before]
