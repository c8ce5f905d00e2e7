"""The table of pods: what `kubectl get pods` shows of statuses."""

from tinykube.server.json_access import items, member, number, text
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Column
from tinykube.server.registry.printing import AGE, NAME, NONE, column, since

_ENDED = ("Succeeded", "Failed")


def _restarts_always(container: JsonObject | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _is_true(status: JsonObject, condition_type: str) -> bool:
    return any(
        text(condition, "type") == condition_type and text(condition, "status") == "True"
        for condition in items(status, "conditions")
    )


def _ended_reason(terminated: JsonObject) -> str:
    if text(terminated, "reason"):
        return text(terminated, "reason")
    if number(terminated, "signal"):
        return f"Signal:{number(terminated, 'signal')}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


class _Summary:
    """What a row tells: containers that are ready, the reason it is in its state, restarts and the last of them."""

    def __init__(self, obj: JsonObject) -> None:
        spec, status = member(obj, "spec"), member(obj, "status")
        self.total = len(items(spec, "containers"))
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        phase = text(status, "phase")
        self.reason = text(status, "reason") or phase
        for condition in items(status, "conditions"):
            if text(condition, "type") == "PodScheduled" and text(condition, "reason") == "SchedulingGated":
                self.reason = "SchedulingGated"
        self._of_sidecars = (0, "")
        initializing = self._read_init(spec, status)
        if not initializing or _is_true(status, "Initialized"):
            self.restarts, self.last_restart = self._of_sidecars
            self._read_containers(status)
        if metadata_of(obj).get("deletionTimestamp"):
            if text(status, "reason") == "NodeLost":
                self.reason = "Unknown"
            elif phase not in _ENDED:
                self.reason = "Terminating"

    def _count_restart(self, container: JsonObject) -> tuple[int, str]:
        finished = text(member(member(container, "lastState"), "terminated"), "finishedAt")
        self.restarts += number(container, "restartCount")
        self.last_restart = max(self.last_restart, finished)
        return number(container, "restartCount"), finished

    def _read_init(self, spec: JsonObject, status: JsonObject) -> bool:
        """Tell whether init containers are still at work; the first unfinished one gives the reason."""
        declared = {text(container, "name"): container for container in items(spec, "initContainers")}
        self.total += sum(map(_restarts_always, declared.values()))
        for index, container in enumerate(items(status, "initContainerStatuses")):
            count, finished = self._count_restart(container)
            sidecar = _restarts_always(declared.get(text(container, "name")))
            if sidecar:
                before, last = self._of_sidecars
                self._of_sidecars = (before + count, max(last, finished))
            state = member(container, "state")
            ended, waiting = state.get("terminated"), member(state, "waiting")
            if ended is not None and not number(ended, "exitCode"):
                continue
            if sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_ended_reason(ended)}"
            elif text(waiting, "reason") not in ("", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{len(declared)}"
            return True
        return False

    def _read_containers(self, status: JsonObject) -> None:
        running = False
        failure = ""
        for container in reversed(items(status, "containerStatuses")):
            self._count_restart(container)
            state = member(container, "state")
            ended = state.get("terminated")
            if text(member(state, "waiting"), "reason"):
                self.reason = state["waiting"]["reason"]
            elif ended is not None:
                self.reason = _ended_reason(ended)
                if number(ended, "exitCode"):
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
    ips = items(member(obj, "status"), "podIPs")
    return (text(ips[0], "ip") if ips else "") or NONE


def _gates(obj: JsonObject) -> str:
    gates = items(member(obj, "spec"), "readinessGates")
    if not gates:
        return NONE
    met = sum(_is_true(member(obj, "status"), text(gate, "conditionType")) for gate in gates)
    return f"{met}/{len(gates)}"


POD_COLUMNS: tuple[Column, ...] = (
    NAME,
    column("Ready", _ready),
    column("Status", lambda obj: _Summary(obj).reason),
    Column(name="Restarts", cell=_restarts),
    AGE,
    column("IP", _ip, wide=True),
    column("Node", lambda obj: text(member(obj, "spec"), "nodeName") or NONE, wide=True),
    column("Nominated Node", lambda obj: text(member(obj, "status"), "nominatedNodeName") or NONE, wide=True),
    column("Readiness Gates", _gates, wide=True),
)
