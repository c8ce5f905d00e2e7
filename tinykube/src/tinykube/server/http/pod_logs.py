"""``GET pods/NAME/log``: text that a :class:`LogSource` invents, because no containers run."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from aiohttp import web

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.http import query as parameters
from tinykube.server.http.request_info import RequestInfo
from tinykube.server.http.responses import NOT_CACHED
from tinykube.server.json_access import get_list, get_object, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.verbs.context import Backend, Target
from tinykube.server.verbs.read import get

_FOLLOW_SECONDS = 1.0


LogLine: TypeAlias = tuple[datetime, str]
"""When a line was written, and the line."""
LogSource: TypeAlias = Callable[[JsonObject, str, bool, datetime], Sequence[LogLine]]
"""Returns the lines of a pod's container up to a moment, in order; those of its last run where the flag is set."""


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail_lines: int | None
    limit_bytes: int | None
    since: datetime | None


async def serve_log(
    backend: Backend, target: Target, info: RequestInfo, source: LogSource
) -> web.StreamResponse:
    """Send a log and, with ``follow``, its additions until the container ends. Raises StatusErrors."""
    pod = (await get(backend, target)).decode()
    now = backend.clock.wall()
    options = _options(info, pod, now)
    _check_started(pod, options)
    lines = list(source(pod, options.container, options.previous, now))
    last = lines[-1] if lines else (now, "")
    if options.since is not None:
        lines = [line for line in lines if line[0] >= options.since]
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(options.tail_lines, len(lines)) :]
    response = web.StreamResponse()
    response.headers.update(
        {"Content-Type": "text/plain", "Audit-Id": info.audit_id, "Cache-Control": NOT_CACHED}
    )
    with contextlib.suppress(ConnectionResetError):  # the client has disconnected
        await response.prepare(info.request)
        body = _encoded(lines, timestamps=options.timestamps)
        await response.write(body if options.limit_bytes is None else body[: options.limit_bytes])
        if options.follow and not options.previous:
            async for more in _followed(backend, target, info, source, options, last):
                await response.write(_encoded(more, timestamps=options.timestamps))
        await response.write_eof()
    return response


async def _followed(
    backend: Backend, target: Target, info: RequestInfo, source: LogSource, options: _Options, last: LogLine
) -> AsyncIterator[Sequence[LogLine]]:
    while True:
        await asyncio.sleep(_FOLLOW_SECONDS)
        transport = info.request.transport
        if transport is None or transport.is_closing():
            return
        try:
            pod = (await get(backend, target)).decode()
        except StatusError:
            return  # the pod was deleted
        lines = source(pod, options.container, False, backend.clock.wall())
        if last in lines:
            lines = lines[lines.index(last) + 1 :]
        else:
            lines = [line for line in lines if line[0] > last[0]]
        if lines:
            last = lines[-1]
            yield lines
        if not _is_running(pod, options.container):
            return


def _encoded(lines: Sequence[LogLine], *, timestamps: bool) -> bytes:
    form = "{0:%Y-%m-%dT%H:%M:%S.%f}Z {1}\n" if timestamps else "{1}\n"
    return "".join(form.format(*line) for line in lines).encode()


def _options(info: RequestInfo, pod: JsonObject, now: datetime) -> _Options:
    query = info.query
    seconds, moment = parameters.integer(query, "sinceSeconds"), parameters.first(query, "sinceTime")
    since = now - timedelta(seconds=seconds) if seconds is not None else None
    if moment:
        try:
            since = datetime.fromisoformat(moment)
        except ValueError:
            raise bad_request(f"sinceTime: Invalid value: {moment!r}: must be an RFC 3339 time") from None
    return _Options(
        container=_container(pod, parameters.first(query, "container")),
        follow=bool(parameters.boolean(query, "follow")),
        previous=bool(parameters.boolean(query, "previous")),
        timestamps=bool(parameters.boolean(query, "timestamps")),
        tail_lines=parameters.integer(query, "tailLines"),
        limit_bytes=parameters.integer(query, "limitBytes"),
        since=since,
    )


def _container(pod: JsonObject, asked: str) -> str:
    """Return the selected container. Raises 400 with kubelet's message."""
    spec, name = get_object(pod, "spec"), get_str(get_object(pod, "metadata"), "name")
    own = [get_str(each, "name") for each in get_list(spec, "containers")]
    init = [get_str(each, "name") for each in get_list(spec, "initContainers")]
    if asked:
        if asked not in (*own, *init):
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(own) == 1:
        return own[0]
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(own)}]"
        + (f" or one of the init containers: [{' '.join(init)}]" if init else "")
    )


def _state(pod: JsonObject, container: str, name: str = "state") -> JsonObject:
    status = get_object(pod, "status")
    for each in (*get_list(status, "containerStatuses"), *get_list(status, "initContainerStatuses")):
        if get_str(each, "name") == container:
            return get_object(each, name)
    return {}


def _is_running(pod: JsonObject, container: str) -> bool:
    return bool(get_object(_state(pod, container), "running"))


def _check_started(pod: JsonObject, options: _Options) -> None:
    """Reject the log of a container that has not run, with kubelet's message."""
    name = get_str(get_object(pod, "metadata"), "name")
    state, last = _state(pod, options.container), _state(pod, options.container, "lastState")
    if options.previous and not get_object(last, "terminated"):
        raise bad_request(f'previous terminated container "{options.container}" in pod "{name}" not found')
    if not options.previous and not (
        state.keys() & {"running", "terminated"} or get_object(last, "terminated")
    ):
        reason = get_str(get_object(state, "waiting"), "reason") or "ContainerCreating"
        raise bad_request(f'container "{options.container}" in pod "{name}" is waiting to start: {reason}')
