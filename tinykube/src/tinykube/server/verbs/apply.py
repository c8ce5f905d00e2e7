"""Server-side apply: a patch that says what its manager wants of an object, and creates it where there is none."""

from collections.abc import Sequence
from typing import Any

from tinykube.server.errors import StatusError, bad_request, conflict
from tinykube.server.fields import managed_fields as tracking
from tinykube.server.objects import JsonObject
from tinykube.server.patch.errors import go_type_of
from tinykube.server.registry.definition import Request
from tinykube.server.verbs import metadata as meta
from tinykube.server.verbs.context import Backend, Result, Target, copied
from tinykube.server.verbs.create import create_decided
from tinykube.server.verbs.field_manager import as_given, tracked, writer
from tinykube.server.verbs.fields import conform
from tinykube.server.verbs.namespaces import check_namespace_accepts
from tinykube.server.verbs.offload import decide
from tinykube.server.verbs.options import WriteOptions
from tinykube.server.verbs.update import modify

_ATTEMPTS = 100
_NO_OBJECT = "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal"


async def apply(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    body: Any,
    problems: Sequence[str] = (),
) -> Result:
    """Apply what a manager wants of an object; code 200, 201 where this creates it.

    Fields that others own and that would change are refused with 409, a cause for each, unless the options force it. A
    resource version or uid in the body is a condition. ``problems``: what strict decoding has found. Raises 400, 404 (a
    subresource of a missing object), 409, 422, and 500 for fields that the type does not have, as a real server does.
    """
    wanted = applied_document(body)
    about, who = tracked(target), writer(target, request, options)

    def make(live: JsonObject | None) -> JsonObject:
        made, entries = tracking.apply(about, who, live, wanted, force=bool(options.force))
        report_twice(request, options, problems)
        document = copied(made)  # it shares parts with the body and with what is stored
        group, version, kind = about.group, about.version, about.kind
        try:
            if about.others is None:
                conform(backend.schema, request, options, group, version, kind, document)
            else:
                # A real server judges what has been applied to a custom resource before anything of it is dropped.
                backend.schema.conform(group, version, kind, {"metadata": document.get("metadata")})
                backend.schema.apply_defaults(group, version, kind, document)
        except StatusError as error:
            why = error.message.partition(f" cannot be handled as a {kind}: ")[2] or error.message
            raise tracking.not_converted(about, made, why) from None
        metadata = meta.ensure_metadata(document)
        if live is None:
            metadata.pop("resourceVersion", None)  # a condition on nothing holds
        if live is None and metadata.get("uid"):
            raise _no_such_uid(target, metadata["uid"])
        meta.check_namespace(metadata, target.namespace)
        meta.check_names_object(metadata, target.name)
        if entries:
            metadata["managedFields"] = entries
        else:
            metadata.pop("managedFields", None)
        return document

    for _ in range(_ATTEMPTS):
        try:
            if target.subresource is None and backend.storage.head(target.key()) is None:
                document = await decide(backend, target, request.body_bytes, lambda: make(None))
                check_namespace_accepts(backend.storage, target, target.name)
                return await create_decided(backend, target, request, document, as_given)
            return await modify(backend, target, request, make, as_given)
        except StatusError as error:
            # It came or went meanwhile: what was to be an update is a creation, or the other way round.
            if target.subresource is not None or error.reason not in ("AlreadyExists", "NotFound"):
                raise
            is_there = backend.storage.head(target.key()) is not None
            if is_there != (error.reason == "AlreadyExists"):
                raise
    raise conflict(target.resource, target.name, "the object comes and goes too often to be applied to")


def applied_document(body: Any) -> JsonObject:
    """Return what is applied, as a document. Raises 400 for what is none."""
    if not isinstance(body, dict | None):
        raise bad_request(f"{_NO_OBJECT} {go_type_of(body)} into Go value of type map[string]interface {{}}")
    return body or {}


def report_twice(request: Request, options: WriteOptions, problems: Sequence[str]) -> None:
    """Tell of keys that are there twice, the way the client has asked for."""
    if not problems or options.field_validation == "Ignore":
        return
    found = "; ".join(problems)
    if not found.startswith("yaml: "):
        found = f"yaml: unmarshal errors:\n  {found}"
    text = f"error converting YAML to JSON: {found}"
    if options.field_validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    request.warn(text.replace("\n", " "))


def _no_such_uid(target: Target, uid: str) -> StatusError:
    return conflict(
        target.resource,
        target.name,
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
    )
