"""The table of `kubectl get pods`."""

from tinykube.server.json_access import get_int, get_list, get_object, get_str
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Column
from tinykube.server.registry.printing import AGE, NAME, NONE, column, since

_ENDED = ("Succeeded", "Failed")


def _restarts_always(container: JsonObject | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _is_true(status: JsonObject, condition_type: str) -> bool:
    return any(
        get_str(condition, "type") == condition_type and get_str(condition, "status") == "True"
        for condition in get_list(status, "conditions")
    )


def _ended_reason(terminated: JsonObject) -> str:
    if get_str(terminated, "reason"):
        return get_str(terminated, "reason")
    if get_int(terminated, "signal"):
        return f"Signal:{get_int(terminated, 'signal')}"
    return f"ExitCode:{get_int(terminated, 'exitCode')}"


class _Summary:
    """The values of a row: ready containers, status reason, restarts and the last restart."""

    def __init__(self, obj: JsonObject) -> None:
        spec, status = get_object(obj, "spec"), get_object(obj, "status")
        self.total = len(get_list(spec, "containers"))
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        phase = get_str(status, "phase")
        self.reason = get_str(status, "reason") or phase
        for condition in get_list(status, "conditions"):
            if (
                get_str(condition, "type") == "PodScheduled"
                and get_str(condition, "reason") == "SchedulingGated"
            ):
                self.reason = "SchedulingGated"
        self._of_sidecars = (0, "")
        initializing = self._read_init(spec, status)
        if not initializing or _is_true(status, "Initialized"):
            self.restarts, self.last_restart = self._of_sidecars
            self._read_containers(status)
        if metadata_of(obj).get("deletionTimestamp"):
            if get_str(status, "reason") == "NodeLost":
                self.reason = "Unknown"
            elif phase not in _ENDED:
                self.reason = "Terminating"

    def _count_restart(self, container: JsonObject) -> tuple[int, str]:
        finished = get_str(get_object(get_object(container, "lastState"), "terminated"), "finishedAt")
        self.restarts += get_int(container, "restartCount")
        self.last_restart = max(self.last_restart, finished)
        return get_int(container, "restartCount"), finished

    def _read_init(self, spec: JsonObject, status: JsonObject) -> bool:
        """Return whether init containers are still running; the first unfinished one gives the reason."""
        declared = {get_str(container, "name"): container for container in get_list(spec, "initContainers")}
        self.total += sum(map(_restarts_always, declared.values()))
        for index, container in enumerate(get_list(status, "initContainerStatuses")):
            count, finished = self._count_restart(container)
            sidecar = _restarts_always(declared.get(get_str(container, "name")))
            if sidecar:
                before, last = self._of_sidecars
                self._of_sidecars = (before + count, max(last, finished))
            state = get_object(container, "state")
            ended, waiting = state.get("terminated"), get_object(state, "waiting")
            if ended is not None and not get_int(ended, "exitCode"):
                continue
            if sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_ended_reason(ended)}"
            elif get_str(waiting, "reason") not in ("", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{len(declared)}"
            return True
        return False

    def _read_containers(self, status: JsonObject) -> None:
        running = False
        failure = ""
        for container in reversed(get_list(status, "containerStatuses")):
            self._count_restart(container)
            state = get_object(container, "state")
            ended = state.get("terminated")
            if get_str(get_object(state, "waiting"), "reason"):
                self.reason = state["waiting"]["reason"]
            elif ended is not None:
                self.reason = _ended_reason(ended)
                if get_int(ended, "exitCode"):
                    failure = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _is_true(status, "Ready"):
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"


def _ready(obj: JsonObject) -> str:
    summary = _Summary(obj)
    return f"{summary.ready}/{summary.total}"


def _restarts(obj: JsonObject, now: float) -> str:
    summary = _Summary(obj)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({since(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def _ip(obj: JsonObject) -> str:
    ips = get_list(get_object(obj, "status"), "podIPs")
    return (get_str(ips[0], "ip") if ips else "") or NONE


def _gates(obj: JsonObject) -> str:
    gates = get_list(get_object(obj, "spec"), "readinessGates")
    if not gates:
        return NONE
    met = sum(_is_true(get_object(obj, "status"), get_str(gate, "conditionType")) for gate in gates)
    return f"{met}/{len(gates)}"


POD_COLUMNS: tuple[Column, ...] = (
    NAME,
    column("Ready", _ready),
    column("Status", lambda obj: _Summary(obj).reason),
    Column(name="Restarts", cell=_restarts),
    AGE,
    column("IP", _ip, wide=True),
    column("Node", lambda obj: get_str(get_object(obj, "spec"), "nodeName") or NONE, wide=True),
    column(
        "Nominated Node",
        lambda obj: get_str(get_object(obj, "status"), "nominatedNodeName") or NONE,
        wide=True,
    ),
    column("Readiness Gates", _gates, wide=True),
)
