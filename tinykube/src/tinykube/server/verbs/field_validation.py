"""Conforming a body to its type: unknown fields are dropped, warned of or refused, as ``fieldValidation`` says."""

from collections.abc import Sequence
from typing import NamedTuple

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.schema.json_text import in_document_order
from tinykube.server.schema.service import Schema
from tinykube.server.verbs.options import WriteOptions


class Kind(NamedTuple):
    """A kind of a version, where it is not that of the definition (the body of a subresource)."""

    group: str
    version: str
    kind: str


def conform(
    schema: Schema,
    request: Request,
    options: WriteOptions,
    of: Definition | Kind,
    obj: JsonObject,
    problems: Sequence[str] = (),
) -> None:
    """Check the types of a body, remove unknown fields and fill in the fixed defaults, all in place.

    ``problems``: what strict decoding found. Raises 400 for a wrong type, and for unknown fields where the client wants it strict.
    """
    unknown = schema.conform(of.group, of.version, of.kind, obj)
    report(request, options, of.version, of.kind, (*problems, *unknown))
    schema.apply_defaults(of.group, of.version, of.kind, obj)


def report(request: Request, options: WriteOptions, version: str, kind: str, problems: Sequence[str]) -> None:
    """Tell the client of unknown and duplicate fields the way it has asked for."""
    if not problems or options.field_validation == "Ignore":
        return
    problems = in_document_order(problems)
    if options.field_validation == "Strict":
        raise strict_error(version, kind, problems)
    for problem in problems:
        request.warn(problem)


def strict_error(version: str, kind: str, problems: Sequence[str]) -> StatusError:
    """400: strict decoding was asked for, and there is something unknown, or twice."""
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(problems)}'
    )


def report_duplicate_keys(request: Request, options: WriteOptions, problems: Sequence[str]) -> None:
    """Warn of duplicate keys in an apply's YAML, or refuse them, as ``fieldValidation`` says."""
    if not problems or options.field_validation == "Ignore":
        return
    found = "; ".join(problems)
    if not found.startswith("yaml: "):
        found = f"yaml: unmarshal errors:\n  {found}"
    text = f"error converting YAML to JSON: {found}"
    if options.field_validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    request.warn(text.replace("\n", " "))
