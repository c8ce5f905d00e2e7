"""Invented logs of simulated containers, derived from the pod's status, so that `kubectl logs` prints something. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from aiokube.api.times import parse_time

_MAX_PROBE_LINES = 200
_PROBE_PERIOD_SECONDS = 10


class Line(NamedTuple):
    """One line and its timestamp."""

    at: datetime
    text: str


def simulated_log(pod: dict[str, Any], container: str, previous: bool, now: datetime) -> Sequence[Line]:
    """Return the log of a container of a pod (JSON) until ``now``; ``previous`` selects its previous run.

    Repeated calls for the same run only append lines, up to a limit of old probe lines.
    """
    spec: dict[str, Any] = next(
        (
            each
            for each in (*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ()))
            if each.get("name") == container
        ),
        {},
    )
    status = _status(pod, container)
    run = status.get("lastState") if previous else status.get("state")
    if not previous and not (run or {}).keys() & {"running", "terminated"}:
        run = status.get("lastState")  # it waits for its restart: like a kubelet, show the last run
    running, ended = (run or {}).get("running") or {}, (run or {}).get("terminated") or {}
    started = parse_time(running.get("startedAt") or ended.get("startedAt"))
    if started is None:
        return ()
    finished = parse_time(ended.get("finishedAt"))
    return list(_lines(spec, started, finished, ended, min(finished or now, now), status))


def _lines(
    spec: dict[str, Any],
    started: datetime,
    finished: datetime | None,
    ended: dict[str, Any],
    until: datetime,
    status: dict[str, Any],
) -> Iterator[Line]:
    yield Line(started, f"simulated container {spec.get('name')} of {spec.get('image')}: nothing is executed")
    if status.get("restartCount"):
        yield Line(started, f"restarted {status['restartCount']} times")
    for port in spec.get("ports") or ():
        name = f" ({port['name']})" if port.get("name") else ""
        yield Line(started, f"listening on {port.get('containerPort')}/{port.get('protocol', 'TCP')}{name}")
    probe = spec.get("readinessProbe")
    if probe:
        period = timedelta(seconds=probe.get("periodSeconds") or _PROBE_PERIOD_SECONDS)
        count = max(int((until - started) / period), 0)
        for number in range(max(1, count - _MAX_PROBE_LINES), count + 1):
            yield Line(started + number * period, f"readiness probe: {_probe_target(probe)}")
    if finished is not None:
        reason = ended.get("reason") or "Error"
        yield Line(finished, f"exiting with code {ended.get('exitCode', 0)} ({reason})")


def _probe_target(probe: dict[str, Any]) -> str:
    if http := probe.get("httpGet"):
        return f"GET {http.get('path', '/')} on port {http.get('port')}"
    if tcp := probe.get("tcpSocket"):
        return f"connection to port {tcp.get('port')}"
    return "answered"


def _status(pod: dict[str, Any], container: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each.get("name") == container:
            return dict(each)
    return {}
