"""What becomes of fields that nobody knows: dropped in silence, with a warning, or refused."""

from collections.abc import Sequence

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Request
from tinykube.server.schema.service import Schema
from tinykube.server.verbs.options import WriteOptions


def conform(
    schema: Schema,
    request: Request,
    options: WriteOptions,
    group: str,
    version: str,
    kind: str,
    obj: JsonObject,
    problems: Sequence[str] = (),
) -> None:
    """Check a body's types, take out what is unknown, and fill in the fixed defaults, all in place.

    ``problems``: what decoding the body has found wrong already. Raises 400 for a wrong type, and for unknown fields where the client wants it strict.
    """
    unknown = schema.conform(group, version, kind, obj)
    report(request, options, version, kind, (*problems, *unknown))
    schema.apply_defaults(group, version, kind, obj)


def report(request: Request, options: WriteOptions, version: str, kind: str, problems: Sequence[str]) -> None:
    """Tell the client of unknown and duplicate fields the way it has asked for."""
    if not problems or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        raise strict_error(version, kind, problems)
    for problem in problems:
        request.warn(problem)


def strict_error(version: str, kind: str, problems: Sequence[str]) -> StatusError:
    """400: strict decoding was asked for, and there is something unknown, or twice."""
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(problems)}'
    )
