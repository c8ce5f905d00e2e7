"""What mirroring remembers of one Endpoints between two syncs: whose slices are whose, what was told, what was answered."""

from endpointd.api.discovery import EndpointSlice
from endpointd.controllers.mirroring.plan import Answer, Problem


class MirrorState:
    """What is remembered of one Endpoints, mirrored or not. None of it decides what its slices should hold."""

    __slots__ = ("_told", "_told_of_uid", "abandoned", "answers", "slice_names")

    def __init__(self) -> None:
        self.slice_names: set[str] = set()
        """Names of the slices that carry the name of the Endpoints and our label."""
        self.answers: dict[str, Answer] = {}
        """By name: slices that the server has stored otherwise than they were sent."""
        self.abandoned = False
        """Whether nothing more is written, as the namespace is going away."""
        self._told: tuple[Problem, ...] = ()
        self._told_of_uid = ""

    def note_answer(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Take note of how the server has stored a slice."""
        name = answer.metadata.name
        if _content(answer) == _content(sent):
            self.answers.pop(name, None)
        else:
            self.answers[name] = Answer(answer.metadata.resource_version, sent)

    def forget_slice(self, name: str) -> None:
        """Take note that a slice has gone, or is another's."""
        self.slice_names.discard(name)
        self.answers.pop(name, None)

    def news(self, uid: str, problems: tuple[Problem, ...]) -> list[Problem]:
        """Return those problems of the Endpoints of this uid that were not among them the last time."""
        before = self._told if self._told_of_uid == uid else ()
        self._told, self._told_of_uid = problems, uid
        return [problem for problem in problems if problem not in before]


def _content(piece: EndpointSlice) -> tuple[object, ...]:
    """Return what of a slice we decide on."""
    metadata = piece.metadata
    return (
        metadata.labels or None,
        metadata.annotations or None,
        metadata.owner_references,
        piece.address_type,
        piece.endpoints or None,
        piece.ports or None,
    )
