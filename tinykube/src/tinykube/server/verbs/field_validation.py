"""Conform a body to its type: unknown fields are dropped, warned about or rejected, according to ``fieldValidation``."""

from collections.abc import Sequence
from typing import NamedTuple

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.schema.json_text import in_document_order
from tinykube.server.schema.service import Schema
from tinykube.server.verbs.options import WriteOptions


class Kind(NamedTuple):
    """The kind of a subresource's body, if it differs from the definition's."""

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
    """Check the types of a body, remove unknown fields and set static defaults, all in place.

    ``problems``: the findings of strict decoding. Raises 400 for wrong types, and for unknown fields in
    strict mode.
    """
    unknown = schema.conform(of.group, of.version, of.kind, obj)
    report(request, options, of.version, of.kind, (*problems, *unknown))
    schema.apply_defaults(of.group, of.version, of.kind, obj)


def report(request: Request, options: WriteOptions, version: str, kind: str, problems: Sequence[str]) -> None:
    """Report unknown and duplicate fields as the client requested."""
    if not problems or options.field_validation == "Ignore":
        return
    problems = in_document_order(problems)
    if options.field_validation == "Strict":
        raise strict_error(version, kind, problems)
    for problem in problems:
        request.warn(problem)


def strict_error(version: str, kind: str, problems: Sequence[str]) -> StatusError:
    """400: strict decoding found unknown or duplicate fields."""
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(problems)}'
    )


def report_duplicate_keys(request: Request, options: WriteOptions, problems: Sequence[str]) -> None:
    """Report duplicate keys in the YAML of an apply: a warning or an error, according to ``fieldValidation``."""
    if not problems or options.field_validation == "Ignore":
        return
    found = "; ".join(problems)
    if not found.startswith("yaml: "):
        found = f"yaml: unmarshal errors:\n  {found}"
    text = f"error converting YAML to JSON: {found}"
    if options.field_validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    request.warn(text.replace("\n", " "))
