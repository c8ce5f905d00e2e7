"""What mirroring remembers of one Endpoints between two syncs: whose slices are whose, and what was told."""

from endpointd.controllers.mirroring.plan import Problem


class MirrorState:
    """What is remembered of one Endpoints, mirrored or not. None of it decides what its slices should hold."""

    __slots__ = ("_told", "_told_of_uid", "abandoned", "slice_names")

    def __init__(self) -> None:
        self.slice_names: set[str] = set()
        """Names of the slices that carry the name of the Endpoints and our label."""
        self.abandoned = False
        """Whether nothing more is written, as the namespace is going away."""
        self._told: tuple[Problem, ...] = ()
        self._told_of_uid = ""

    def news(self, uid: str, problems: tuple[Problem, ...]) -> list[Problem]:
        """Return those problems of the Endpoints of this uid that were not among them the last time."""
        before = self._told if self._told_of_uid == uid else ()
        self._told, self._told_of_uid = problems, uid
        return [problem for problem in problems if problem not in before]
