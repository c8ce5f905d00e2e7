"""What mirroring remembers of one Endpoints between two syncs: rejected endpoints, and reported problems."""

from endpointd.controllers.mirroring.desired import Identity
from endpointd.controllers.mirroring.plan import Problem


class MirrorState:
    """What is remembered of one Endpoints, mirrored or not. None of it decides what its slices should hold."""

    __slots__ = ("_rejected_in", "_told", "_told_of_uid", "abandoned", "rejected")

    def __init__(self) -> None:
        self.rejected: set[Identity] = set()
        """Endpoints that the API server has rejected; they are tried again when the Endpoints has changed."""
        self._rejected_in = ""
        self.abandoned = False
        """Whether nothing more is written, as the namespace is going away."""
        self._told: tuple[Problem, ...] = ()
        self._told_of_uid = ""

    def begin(self, resource_version: str) -> None:
        """Take note of the version of the Endpoints that is mirrored now."""
        if self._rejected_in != resource_version:
            self._rejected_in = resource_version
            self.rejected.clear()

    def news(self, uid: str, problems: tuple[Problem, ...]) -> list[Problem]:
        """Return those problems of the Endpoints of this uid that were not among them the last time."""
        before = self._told if self._told_of_uid == uid else ()
        self._told, self._told_of_uid = problems, uid
        return [problem for problem in problems if problem not in before]
