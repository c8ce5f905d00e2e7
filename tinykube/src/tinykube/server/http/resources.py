"""Requests for resources: route method and path to a verb, and encode its result."""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from tinykube.server.errors import StatusError, bad_request, method_not_allowed
from tinykube.server.http import query as parameters
from tinykube.server.http.codec import (
    LARGEST_BODY_BYTES,
    Decoder,
    decode_object,
    encode_json,
    encode_yaml,
    media_type,
)
from tinykube.server.http.faults import Faults, ReplaceWatch, faulty_answer
from tinykube.server.http.frames import Framer
from tinykube.server.http.lists import encode_page, is_plain, plain_texts, typed_list
from tinykube.server.http.negotiation import (
    NO_TRANSFORM,
    OF_A_LIST,
    OF_A_WATCH,
    OF_AN_OBJECT,
    Form,
)
from tinykube.server.http.paths import ResourcePath
from tinykube.server.http.pod_logs import LogSource, serve_log
from tinykube.server.http.request_info import RequestInfo
from tinykube.server.http.responses import AnswerBudget, respond, respond_in_pieces
from tinykube.server.http.streams import Streams
from tinykube.server.http.tables import partial, table
from tinykube.server.objects import JsonObject
from tinykube.server.patch.service import PatchType
from tinykube.server.registry.definition import Definition, Request, Subresource, Verb
from tinykube.server.verbs.context import Backend, Result, Target, answer, new_request, shown
from tinykube.server.verbs.delete import delete, delete_collection
from tinykube.server.verbs.field_validation import report
from tinykube.server.verbs.options import DeleteOptions, ListOptions, WriteOptions
from tinykube.server.verbs.read import get, list_page
from tinykube.server.verbs.selection import parse_selection
from tinykube.server.verbs.subresources import (
    apply_subresource,
    patch_subresource,
    read_subresource,
    write_subresource,
)
from tinykube.server.verbs.watch import Watch, open_watch
from tinykube.server.verbs.write import apply, create, patch, update

_PATCH_TYPES: Mapping[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
_APPLY_TYPE = "application/apply-patch+yaml"
_INCLUDES = ("", "None", "Metadata", "Object")
_PLAIN = Form()
_ENCODED_ON_LOOP_ITEMS = 50
_DECODED_ON_LOOP_BYTES = 64 * 1024

_T = TypeVar("_T")


class Resources:
    """Handles requests for resources. Raises StatusErrors, which the caller converts to responses."""

    def __init__(
        self,
        backend: Backend,
        decoder: Decoder,
        streams: Streams,
        pod_logs: LogSource | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._pod_logs = pod_logs
        self._faults = faults or Faults()
        self._answers = AnswerBudget()
        self._backend = backend
        self._decoder = decoder
        self._streams = streams

    async def answer(self, info: RequestInfo, path: ResourcePath) -> web.StreamResponse:
        """Return the response. Raises a StatusError for every error."""
        if self._pod_logs is not None and path.subresource == "log" and info.method == "GET":
            target = self._target(path._replace(subresource=""))
            if target.definition.graceful:  # a pod
                return await serve_log(self._backend, target, info, self._pod_logs)
        target = self._target(path)
        definition = target.definition
        if definition.deprecation:
            info.warnings.append(definition.deprecation)
        verb = self._verb(info, path, target)
        if self._faults.rules and (fault := self._faults.choose(info, verb, target)) is not None:
            perform = functools.partial(self._perform, info, target, verb)
            return await faulty_answer(fault, info, self._backend, perform)
        return await self._perform(info, target, verb, self._backend)

    async def _perform(
        self,
        info: RequestInfo,
        target: Target,
        verb: Verb,
        reads_from: Backend,
        replace_watch: ReplaceWatch | None = None,
    ) -> web.StreamResponse:
        """Run the verb. Injected faults replace the backend and the watch."""
        definition = target.definition
        if target.subresource is not None:
            return await self._answer_subresource(info, target, target.subresource, verb)
        match verb:
            case "get":
                form = info.form(OF_AN_OBJECT)
                stored = await get(reads_from, target, parameters.first(info.query, "resourceVersion"))
                return self._object(info, definition, answer(200, definition, stored), form)
            case "list":
                return await self._list(info, target, reads_from)
            case "watch":
                return await self._watch(info, target, replace_watch)
            case "create":
                return await self._create(info, target)
            case "update":
                return await self._update(info, target)
            case "patch":
                return await self._patch(info, target)
            case "delete":
                return await self._delete(info, target)
            case "deletecollection":
                return await self._delete_collection(info, target)

    # ------------------------------------------------------------------------------------ targets

    def _target(self, path: ResourcePath) -> Target:
        definition = self._backend.registry.get(path.group, path.version, path.plural)
        if definition is None or (path.in_namespace and not definition.namespaced):
            raise no_such_resource()
        if path.name and definition.namespaced and not path.namespace:
            raise no_such_resource()
        subresource = None
        if path.subresource:
            subresource = next((one for one in definition.subresources if one.name == path.subresource), None)
            if subresource is None:
                raise no_such_resource()
        return Target(definition, path.namespace, path.name, subresource)

    def _verb(self, info: RequestInfo, path: ResourcePath, target: Target) -> Verb:
        verb: Verb
        match info.method:
            case "GET":
                if path.watches or (not target.name and parameters.boolean(info.query, "watch")):
                    verb = "watch"
                else:
                    verb = "get" if target.name else "list"
            case "POST" if not target.name or target.subresource is not None:
                verb = "create"
            case "PUT" if target.name:
                verb = "update"
            case "PATCH" if target.name:
                verb = "patch"
            case "DELETE":
                verb = "delete" if target.name else "deletecollection"
            case _:
                raise method_not_allowed(target.resource)
        allowed = target.definition.verbs if target.subresource is None else target.subresource.verbs
        if verb not in allowed:
            raise method_not_allowed(target.resource)
        if verb in ("create", "deletecollection") and target.definition.namespaced and not target.namespace:
            raise method_not_allowed(target.resource)
        return verb

    # ------------------------------------------------------------------------------------ reads

    async def _list(self, info: RequestInfo, target: Target, reads_from: Backend) -> web.StreamResponse:
        form = info.form(OF_A_LIST)
        include = self._include_object(info, form)
        page = await list_page(reads_from, target, parameters.list_options(info.query))
        if is_plain(target.definition, form):
            texts, size = plain_texts(target.definition, page)
            return respond_in_pieces(
                texts, size, form.content_type, audit_id=info.audit_id, warnings=info.warnings
            )
        held = self._answers.reserve(sum(len(stored.encoded) for stored in page.items))
        encode = functools.partial(
            encode_page,
            target.definition,
            page,
            form,
            include_object=include,
            now=self._backend.clock.wall(),
        )
        if target.definition.types is None or len(page.items) <= _ENCODED_ON_LOOP_ITEMS:
            body = encode()
        else:
            body = await asyncio.to_thread(encode)  # its columns and versions cost what its definition says
        return respond(
            200,
            body,
            form.content_type,
            audit_id=info.audit_id,
            warnings=info.warnings,
            reservation=held,
        )

    async def _watch(
        self, info: RequestInfo, target: Target, replace_watch: ReplaceWatch | None
    ) -> web.StreamResponse:
        form = info.form(OF_A_WATCH)
        if form.is_yaml:
            raise StatusError(
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json;stream=watch",
            )
        include = self._include_object(info, form)
        options = parameters.list_options(info.query)
        if target.name:
            options = _for_one(options, target.name)
            target = Target(target.definition, target.namespace)
        opened = await open_watch(self._backend, target, options)
        if replace_watch is not None and isinstance(opened, Watch):
            opened = replace_watch(opened)
        framer = Framer(target.definition, form, self._backend.clock.wall, include_object=include)
        return await self._streams.serve(
            info.request,
            opened,
            framer,
            form.content_type,
            audit_id=info.audit_id,
            warnings=info.warnings,
        )

    def _include_object(self, info: RequestInfo, form: Form) -> str:
        if form.transform != "Table":
            return "Metadata"
        include = parameters.first(info.query, "includeObject")
        if include not in _INCLUDES:
            raise bad_request(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        return include or "Metadata"

    # ------------------------------------------------------------------------------------ writes

    def _new_request(self, info: RequestInfo, *, dry_run: bool) -> Request:
        request = new_request(self._backend, info.caller, dry_run=dry_run)
        request.warnings = info.warnings
        request.body_bytes = info.request.content_length or LARGEST_BODY_BYTES
        return request

    async def _decoded(self, info: RequestInfo, definition: Definition) -> tuple[JsonObject, tuple[str, ...]]:
        body = await info.body()
        return await _off_loop(
            body,
            self._decode,
            body,
            info.content_type,
            definition.group,
            definition.version,
            definition.kind,
        )

    def _decode(
        self, body: bytes, content_type: str, group: str, version: str, kind: str
    ) -> tuple[JsonObject, tuple[str, ...]]:
        return decode_object(self._decoder, body, content_type, group, version, kind)

    async def _create(self, info: RequestInfo, target: Target) -> web.StreamResponse:
        form = info.form(OF_AN_OBJECT if target.definition.answers is None else NO_TRANSFORM)
        options = parameters.write_options(info.query, "CreateOptions")
        options.check()
        request = self._new_request(info, dry_run=options.is_dry_run)
        document, problems = await self._decoded(info, target.definition)
        result = await create(self._backend, target, request, options, document, problems)
        return self._object(info, target.definition, result, form)

    async def _update(self, info: RequestInfo, target: Target) -> web.StreamResponse:
        form = info.form(OF_AN_OBJECT)
        options = parameters.write_options(info.query, "UpdateOptions")
        options.check()
        request = self._new_request(info, dry_run=options.is_dry_run)
        document, problems = await self._decoded(info, target.definition)
        result = await update(self._backend, target, request, options, document, problems)
        return self._object(info, target.definition, result, form)

    async def _patch(self, info: RequestInfo, target: Target) -> web.StreamResponse:
        form = info.form(OF_AN_OBJECT)
        if media_type(info.content_type) == _APPLY_TYPE:
            return await self._apply(info, target, form)
        patch_type = _patch_type(info.content_type)
        options = parameters.write_options(info.query, "PatchOptions")
        options.check()
        request = self._new_request(info, dry_run=options.is_dry_run)
        body = await info.body()
        value, problems = await _off_loop(body, self._decoder.patch, body)
        result = await patch(self._backend, target, request, options, patch_type, value, problems)
        return self._object(info, target.definition, result, form)

    async def _apply(self, info: RequestInfo, target: Target, form: Form) -> web.StreamResponse:
        options = self._apply_options(info)
        request = self._new_request(info, dry_run=options.is_dry_run)
        value, problems = await self._applied(info)
        result = await apply(self._backend, target, request, options, value, problems)
        return self._object(info, target.definition, result, form)

    def _apply_options(self, info: RequestInfo) -> WriteOptions:
        options = parameters.write_options(info.query, "PatchOptions")
        options.check(is_apply=True)
        return options

    async def _applied(self, info: RequestInfo) -> tuple[object, Sequence[str]]:
        body = await info.body()
        try:
            return await _off_loop(body, self._decoder.yaml, body) if body else (None, ())
        except StatusError as error:
            why = error.message.rpartition(" (")[0] or error.message
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: {why}") from None

    async def _delete(self, info: RequestInfo, target: Target) -> web.StreamResponse:
        form = info.form(OF_AN_OBJECT)
        options = await self._delete_options(info)
        request = self._new_request(info, dry_run=options.is_dry_run)
        result = await delete(self._backend, target, request, options)
        return self._object(info, target.definition, result, form)

    async def _delete_options(self, info: RequestInfo) -> DeleteOptions:
        body = await info.body()
        document: JsonObject | None = None
        if body:
            given, _ = await _off_loop(body, self._decode, body, info.content_type, "", "v1", "DeleteOptions")
            document = given
            if document.get("kind", "DeleteOptions") != "DeleteOptions":
                raise bad_request(
                    f'no kind "{document["kind"]}" is registered for version "{document.get("apiVersion", "")}" '
                    'in scheme "pkg/runtime/scheme.go:111"'
                )
            self._backend.schema.conform("", "v1", "DeleteOptions", document)
        return parameters.delete_options(info.query, document)

    async def _delete_collection(self, info: RequestInfo, target: Target) -> web.StreamResponse:
        form = info.form(NO_TRANSFORM)
        definition = target.definition
        wanted = parameters.list_options(info.query)
        selection = parse_selection(definition, wanted.label_selector, wanted.field_selector)
        options = await self._delete_options(info)
        gone = await delete_collection(self._backend, target, info.caller, options, selection)
        revision = str(self._backend.storage.revision)
        document = typed_list(
            definition, [shown(definition, stored.decode()) for stored in gone], {"resourceVersion": revision}
        )
        return self._document(info, 200, document, form)

    # ------------------------------------------------------------------------------------ subresources

    async def _answer_subresource(
        self, info: RequestInfo, target: Target, subresource: Subresource, verb: Verb
    ) -> web.StreamResponse:
        """Handle ``status``, ``scale`` and other subresources."""
        form = info.form(OF_AN_OBJECT)
        backend, definition = self._backend, target.definition
        if verb == "get":
            if subresource.handler is None:
                stored = await get(backend, target)
                return self._object(info, definition, answer(200, definition, stored), form)
            document = read_subresource(backend, target, subresource.handler)
            if form.transform == "Table" and subresource.columns:
                document = self._table(info, subresource, document, form)
            return self._document(info, 200, document, form)
        if subresource.handler is None:
            return await (self._patch if verb == "patch" else self._update)(info, target)
        if verb == "patch" and media_type(info.content_type) == _APPLY_TYPE:
            options = self._apply_options(info)
            request = self._new_request(info, dry_run=options.is_dry_run)
            value, twice = await self._applied(info)
            document = await apply_subresource(backend, target, request, subresource, value, options, twice)
            return self._document(info, 200, document, form)
        kinds = {"create": "CreateOptions", "patch": "PatchOptions"}
        options = parameters.write_options(info.query, kinds.get(verb, "UpdateOptions"))
        options.check()
        request = self._new_request(info, dry_run=options.is_dry_run)
        if verb == "patch":
            patch_type = _patch_type(info.content_type)
            patch_body = await info.body()
            value, _ = await _off_loop(patch_body, self._decoder.patch, patch_body)
            document = await patch_subresource(
                backend, target, request, subresource, patch_type, value, options
            )
            return self._document(info, 200, document, form)
        group, version = subresource.group or definition.group, subresource.version or definition.version
        sent = await info.body()
        body, problems = await _off_loop(
            sent, self._decode, sent, info.content_type, group, version, subresource.kind
        )
        report(request, options, version, subresource.kind, problems)
        document = await write_subresource(backend, target, request, subresource, body, options)
        return self._document(info, 201 if verb == "create" else 200, document, form)

    # ------------------------------------------------------------------------------------ responses

    def _object(
        self, info: RequestInfo, definition: Definition, result: Result, form: Form
    ) -> web.StreamResponse:
        """Respond with an object: its stored bytes unless another form is requested."""
        if result.stored is not None and form == _PLAIN:
            body = result.stored.encoded + b"\n"
            return respond(
                result.code, body, form.content_type, audit_id=info.audit_id, warnings=info.warnings
            )
        document = result.decode()
        if document.get("kind") == "Status":
            form = msgspec.structs.replace(form, transform="")
        if form.transform == "Table":
            document = self._table(info, definition, document, form)
        elif form.transform:
            document = partial(document, form.version)
        return self._document(info, result.code, document, form)

    def _table(
        self, info: RequestInfo, of: Definition | Subresource, document: JsonObject, form: Form
    ) -> JsonObject:
        """Return the table of one object or subresource."""
        return table(
            of,
            [document],
            {"resourceVersion": document.get("metadata", {}).get("resourceVersion", "")},
            now=self._backend.clock.wall(),
            include_object=self._include_object(info, form),
            version=form.version,
        )

    def _document(self, info: RequestInfo, code: int, document: JsonObject, form: Form) -> web.StreamResponse:
        body = encode_yaml(document) if form.is_yaml else encode_json(document, pretty=form.is_pretty)
        return respond(code, body, form.content_type, audit_id=info.audit_id, warnings=info.warnings)


async def _off_loop(body: bytes, decode: Callable[..., _T], *arguments: Any) -> _T:
    """Decode a body; large ones in a thread, so that other requests are not blocked."""
    if len(body) <= _DECODED_ON_LOOP_BYTES:
        return decode(*arguments)
    return await asyncio.to_thread(decode, *arguments)


def no_such_resource() -> StatusError:
    """404: an existing version without a resource of that name."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def _patch_type(content_type: str) -> PatchType:
    patch_type = _PATCH_TYPES.get(media_type(content_type) if content_type else "")
    if patch_type is None:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    return patch_type


def _for_one(options: ListOptions, name: str) -> ListOptions:
    wanted = f"metadata.name={name}"
    if options.field_selector:
        wanted = f"{options.field_selector},{wanted}"
    return msgspec.structs.replace(options, field_selector=wanted)
