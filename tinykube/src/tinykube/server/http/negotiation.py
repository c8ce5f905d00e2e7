"""Content negotiation: JSON or YAML, plain, as a table, or only metadata. Pure."""

from functools import lru_cache
from typing import Literal

import msgspec

from tinykube.server.errors import StatusError

Transform = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_ANY = frozenset({"*/*", "application/*", "application/json"})
_YAML = "application/yaml"
_META_VERSIONS = frozenset({"v1", "v1beta1"})
_BROWSERS = ("curl", "Wget", "Mozilla/5.0")


class Form(msgspec.Struct, frozen=True):
    """The negotiated form of a response."""

    is_yaml: bool = False
    transform: Transform = ""
    version: str = "v1"
    """The version of meta.k8s.io, for a transform."""
    is_pretty: bool = False

    @property
    def content_type(self) -> str:
        """The Content-Type header."""
        return _YAML if self.is_yaml else "application/json"


JSON = Form()


class Clause(msgspec.Struct, frozen=True):
    """One clause of an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float


@lru_cache(maxsize=512)
def parse_accept(header: str) -> tuple[Clause, ...]:
    """Parse the clauses, preferred ones first; those of equal weight keep their order."""
    clauses = []
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        if not media:
            continue
        parameters = {}
        for piece in rest:
            name, _, value = piece.partition("=")
            parameters[name.strip().lower()] = value.strip().strip('"')
        clauses.append(Clause(media.lower(), parameters, _quality(parameters.pop("q", "1"))))
    return tuple(
        sorted((clause for clause in clauses if clause.quality > 0), key=lambda clause: -clause.quality)
    )


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@lru_cache(maxsize=512)
def negotiate(accept: str, transforms: frozenset[Transform]) -> Form:
    """Return the form for an Accept header; ``transforms`` are those that the response supports.

    The first acceptable clause decides: clauses with unknown forms, or protobuf, are skipped. Raises 406 if
    none is acceptable. Without a header, the form is JSON.
    """
    clauses = parse_accept(accept)
    if not clauses and not accept.strip():
        return JSON
    for clause in clauses:
        form = _form(clause, transforms)
        if form is not None:
            return form
    raise StatusError(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
        details={},
    )


def _form(clause: Clause, transforms: frozenset[Transform]) -> Form | None:
    if clause.media not in _ANY and clause.media != _YAML:
        return None
    is_yaml = clause.media == _YAML
    wanted = clause.parameters.get("as", "")
    if not wanted:
        return Form(is_yaml)
    version = clause.parameters.get("v", "v1")
    if clause.parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or version not in _META_VERSIONS:
        return None
    for transform in transforms:
        if transform == wanted:
            return Form(is_yaml, transform, version)
    return None


OF_AN_OBJECT: frozenset[Transform] = frozenset({"Table", "PartialObjectMetadata"})
OF_A_LIST: frozenset[Transform] = frozenset({"Table", "PartialObjectMetadataList"})
OF_A_WATCH: frozenset[Transform] = frozenset({"Table", "PartialObjectMetadata"})
NO_TRANSFORM: frozenset[Transform] = frozenset()


def is_pretty(parameter: bool | None, user_agent: str) -> bool:
    """Return whether JSON is indented: on request, and for terminals and browsers."""
    return user_agent.startswith(_BROWSERS) if parameter is None else parameter
