"""Dispatch all requests: authentication, routing, and non-resource paths. Every error response is a Status."""

import logging
import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiohttp import web

from tinykube.server.errors import StatusError, bad_request, internal, method_not_allowed
from tinykube.server.http.codec import encode_json
from tinykube.server.http.discovery import Discovery
from tinykube.server.http.identity import Identity, is_open, unauthorized
from tinykube.server.http.negotiation import NO_TRANSFORM
from tinykube.server.http.openapi import OpenApi
from tinykube.server.http.paths import parse_resource_path, segments_of
from tinykube.server.http.query import NO_QUERY, boolean, parse_query
from tinykube.server.http.request_info import RequestInfo, error_form
from tinykube.server.http.resources import Resources, no_such_resource
from tinykube.server.http.responses import refuse, respond, text
from tinykube.server.objects import GroupResource, JsonObject
from tinykube.server.registry.definition import Registry, UserInfo
from tinykube.server.verbs.context import Caller
from tinykube.server.verbs.metadata import new_uid

_LOG = logging.getLogger(__name__)

_ANONYMOUS = Caller(UserInfo("system:anonymous", groups=("system:unauthenticated",)))
_CHECKS = frozenset({"healthz", "livez", "readyz"})


class PublishedDocument(NamedTuple):
    """A document at a fixed path, created on request."""

    content_type: str
    make: Callable[[], JsonObject]


class Dispatcher:
    """Handles every request of a server; the handler of its connections."""

    def __init__(
        self,
        *,
        registry: Registry,
        resources: Resources,
        identity: Identity,
        openapi: OpenApi,
        documents: Mapping[str, PublishedDocument],
        version: JsonObject,
        rng: random.Random,
        is_ready: Callable[[], bool],
        storage_problem: Callable[[], str],
    ) -> None:
        self._registry = registry
        self._resources = resources
        self._identity = identity
        self._discovery = Discovery(registry)
        self._openapi = openapi
        self._documents = documents
        self._version = encode_json(version)
        self._rng = rng
        self._is_ready = is_ready
        self._storage_problem = storage_problem

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request. Unexpected errors are logged and returned as 500; cancellation propagates."""
        audit_id = new_uid(self._rng)
        warnings: list[str] = []
        try:
            return await self._answer(request, audit_id, warnings)
        except StatusError as error:
            return refuse(error, audit_id=audit_id, form=error_form(request), warnings=warnings)
        except RecursionError:
            refusal = bad_request("the body, or the object that it modifies, is nested too deeply")
            return refuse(refusal, audit_id=audit_id, form=error_form(request), warnings=warnings)
        except ConnectionError:
            raise  # the client has disconnected
        except Exception:  # noqa: BLE001 - logged, and reported to the client
            _LOG.exception("a request failed: %s %s", request.method, request.path)
            refusal = internal("an unexpected error; see the server's log")
            return refuse(refusal, audit_id=audit_id, warnings=warnings)

    async def _answer(
        self, request: web.BaseRequest, audit_id: str, warnings: list[str]
    ) -> web.StreamResponse:
        raw = request.raw_path
        if not raw.startswith("/"):
            raw = request.rel_url.raw_path_qs if request.rel_url.raw_path.startswith("/") else "/"
        path, _, query_text = raw.partition("?")
        path = path.partition("#")[0]
        headers = request.headers
        caller = self._identity.caller(headers.get("Authorization", ""), headers.get("User-Agent", ""))
        if caller is None:
            if not is_open(path):
                raise unauthorized()
            caller = _ANONYMOUS
        info = RequestInfo(
            request=request,
            method=request.method,
            path=path,
            query=parse_query(query_text.partition("#")[0]) if query_text else NO_QUERY,
            caller=caller,
            audit_id=audit_id,
            warnings=warnings,
        )
        segments = segments_of(path)
        resource = parse_resource_path(segments)
        if resource is not None:
            if not self._has_version(resource.group, resource.version):
                return self._unknown_version(info, resource.group)
            return await self._resources.answer(info, resource)
        return self._answer_other(info, segments)

    def _has_version(self, group: str, version: str) -> bool:
        return version in self._registry.versions().get(group, ())

    def _unknown_version(self, info: RequestInfo, group: str) -> web.StreamResponse:
        """Respond to an unknown version: with a Status if the group exists, else with plain text."""
        if group in self._registry.versions():
            raise no_such_resource()
        return text(404, "404 page not found\n", audit_id=info.audit_id)

    def _answer_other(self, info: RequestInfo, segments: list[str]) -> web.StreamResponse:
        if info.method not in ("GET", "HEAD"):
            raise method_not_allowed(GroupResource("", ""))
        match segments:
            case ["version"]:
                return respond(200, self._version, "application/json", audit_id=info.audit_id)
            case [check, *names] if check in _CHECKS:
                return self._health(info, check, names)
            case ["openapi", "v3", *rest]:
                return self._openapi.answer(info, rest)
            case ["openapi", "v2"]:
                return self._openapi.answer_v2(info)
            case ["api", *_] | ["apis", *_]:
                return self._discover(info, segments)
            case [""]:
                return self._paths(info)
        if (published := self._documents.get("/" + "/".join(segments))) is not None:
            body, cache = encode_json(published.make()), "public, max-age=3600"
            return respond(200, body, published.content_type, audit_id=info.audit_id, cache_control=cache)
        return text(404, "404 page not found\n", audit_id=info.audit_id)

    def _health(self, info: RequestInfo, check: str, names: list[str]) -> web.StreamResponse:
        """Return ``ok`` or the failed checks; ``?verbose`` lists all checks, a name below the path selects one."""
        results = {"ping": ""}
        if check != "livez":
            results["storage"] = self._storage_problem()  # not for livez: a restart would not help
        if check == "readyz":
            results["serving"] = "" if self._is_ready() else "the server is starting or stopping"
        if names:
            if len(names) > 1 or names[0] not in results:
                return text(404, "404 page not found\n", audit_id=info.audit_id)
            results = {names[0]: results[names[0]]}
        passed = not any(results.values())
        if passed and (names or not boolean(info.query, "verbose")):
            return text(200, "ok", audit_id=info.audit_id)
        lines = [
            f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"
            for name, problem in results.items()
        ]
        lines.append(f"{check} check {'passed' if passed else 'failed'}\n")
        return text(200 if passed else 500, "\n".join(lines), audit_id=info.audit_id)

    def _discover(self, info: RequestInfo, segments: list[str]) -> web.StreamResponse:
        found = self._discovery.roots(segments, info.request.headers.get("Accept", ""))
        if found is None:
            return self._unknown_version(info, "" if segments[0] == "api" else segments[1])
        headers = {"Etag": found.etag, "Vary": "Accept"}
        unchanged = info.request.headers.get("If-None-Match", "")
        cache_control = "public"
        if unchanged == found.etag:
            return respond(
                304,
                b"",
                found.content_type,
                audit_id=info.audit_id,
                headers=headers,
                cache_control=cache_control,
            )
        return respond(
            200,
            found.body,
            found.content_type,
            audit_id=info.audit_id,
            headers=headers,
            cache_control=cache_control,
        )

    def _paths(self, info: RequestInfo) -> web.StreamResponse:
        info.form(NO_TRANSFORM)
        paths = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        paths += self._documents
        for group, versions in self._registry.versions().items():
            root = f"/apis/{group}" if group else "/api"
            paths += [root, *(f"{root}/{version}" for version in versions)]
        return respond(
            200, encode_json({"paths": sorted(set(paths))}), "application/json", audit_id=info.audit_id
        )
