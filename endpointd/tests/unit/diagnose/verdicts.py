"""Broken set-ups, and the expected answers of explain and check: with all rights, without nodes, and from files.

Print the table with ``make verdicts``.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.client.manifests import Manifest
from endpointd.cli.cluster_snapshot import snapshot_of
from endpointd.diagnose.check import check
from endpointd.diagnose.explain import explain_service
from endpointd.diagnose.plan import planned
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot, Unread
from tests.cluster.setups import LONG_AGO, Json, container, pod, service, waiting

NOW = datetime(2026, 1, 2, tzinfo=UTC)
VIEWS = ("admin", "view", "export", "get all")
"""All rights; the ClusterRole ``view``, which has no nodes; files with all kinds but nodes; files as ``kubectl get all``."""
TRAFFIC = {"NothingSelected", "NoneReady", "OnlyTerminating", "PortNotFound", "PortNotDeclared"}
"""Findings that need only pods and services."""

RUNNING = {"running": {"startedAt": LONG_AGO}}
NAMED: Json = {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
PUBLISHED: Json = {"publishNotReadyAddresses": True}
GATE: Json = {"readinessGates": [{"conditionType": "lb.example.com/ready"}]}
EXPECTED = {"missing": "ready", "left over": "out"}
"""The expected state from pods and services alone, if it is not the verdict itself."""

Edit = Callable[[list[Json]], object]


class Answers(NamedTuple):
    """The answers of a view: the verdict of the pod (or the service without a pod), a reason, the findings."""

    verdict: str
    code: str = ""
    found: frozenset[str] = frozenset()


class Setup(NamedTuple):
    """A set-up with its answers; views that are not named answer like ``admin``."""

    name: str
    objects: Sequence[Json]
    admin: Answers
    pod: str = "web-1"
    edit: Edit | None = None
    """The edits of the published Endpoints and slices."""
    no_nodes: Answers | None = None
    get_all: Answers | None = None

    @property
    def namespace(self) -> str:
        return self.name

    def answers(self, view: str) -> Answers:
        if view == "admin":
            return self.admin
        if view != "get all":
            return self.no_nodes or self.admin
        if self.get_all is not None:
            return self.get_all
        expected = EXPECTED.get(self.admin.verdict, self.admin.verdict)
        verdict = f"unknown ({expected})" if self.pod else self.admin.verdict
        return Answers(verdict, self.admin.code if self.pod else "", self.admin.found & TRAFFIC)


def says(verdict: str, code: str = "", *found: str) -> Answers:
    return Answers(verdict, code, frozenset(found))


def selectorless(**spec: Any) -> Json:
    return service() | {"spec": {"ports": [{"name": "http", "port": 80}], **spec}}


def endpoints(port: str, name: str = "web") -> Json:
    ports = [{"name": port, "port": 80} if port else {"port": 80}]
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": subsets}


def slices_of(items: list[Json]) -> list[Json]:
    return [item for item in items if item["kind"] == "EndpointSlice"]


def no_slices(items: list[Json]) -> None:
    items[:] = [item for item in items if item["kind"] != "EndpointSlice"]


def no_endpoints(items: list[Json]) -> None:
    items[:] = [item for item in items if item["kind"] != "Endpoints"]


def without_first(items: list[Json]) -> None:
    slices_of(items)[0]["endpoints"].pop(0)


def stale(items: list[Json]) -> None:
    slices_of(items)[0]["endpoints"][0]["conditions"]["ready"] = False


def wrong_zone(items: list[Json]) -> None:
    slices_of(items)[0]["endpoints"][0]["zone"] = "zone-z"


def another(name: str, managed_by: str, endpoint: Json) -> Edit:
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": managed_by}

    def edit(items: list[Json]) -> None:
        items.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": name, "namespace": items[0]["metadata"]["namespace"], "labels": labels},
                "addressType": "IPv4",
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                "endpoints": [endpoint],
            }
        )

    return edit


def gone(items: list[Json]) -> None:
    ghost = {
        "addresses": ["10.77.0.9"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": "setup-0",
        "zone": "zone-a",
        "targetRef": {"kind": "Pod", "name": "web-9", "namespace": items[0]["metadata"]["namespace"]},
    }
    slices_of(items)[0]["endpoints"].append(ghost)


OURS = "endpointslice-controller.k8s.io"
LEFT_OVER: Json = {
    "addresses": ["10.77.0.1"],
    "conditions": {"ready": True, "serving": True, "terminating": False},
    "nodeName": "setup-0",
    "zone": "zone-a",
    "targetRef": {"kind": "Pod", "name": "web-1"},
}
NONE = "NoneReady"

SETUPS = (
    Setup("all-well", [service(), pod()], says("ready")),
    Setup(
        "label-differs",
        [service(selector={"app": "web", "tier": "front"}), pod(labels={"app": "web", "tier": "back"})],
        says("out", "LabelDiffers", "NothingSelected"),
    ),
    Setup("label-case", [service(), pod(labels={"app": "Web"})], says("out", "LabelDiffers", "NothingSelected")),
    Setup(
        "label-missing",
        [service(selector={"app": "web", "tier": "front"}), pod()],
        says("out", "LabelMissing", "NothingSelected"),
    ),
    Setup(
        "label-prefix",
        [service(selector={"app.kubernetes.io/name": "web"}), pod(labels={"name": "web"})],
        says("out", "LabelMissing", "NothingSelected"),
    ),
    Setup(
        "other-namespace",
        [service(), pod() | {"elsewhere": True}],
        says("out", "OtherNamespace", "NothingSelected"),
        pod="elsewhere/web-1",
    ),
    Setup(
        "external-name-with-selector",
        [service() | {"spec": {"type": "ExternalName", "externalName": "a.example", "selector": {"app": "web"}}}, pod()],
        says("out", "ExternalName"),
    ),
    Setup("succeeded", [service(), pod(phase="Succeeded", ready=False)], says("out", "Finished", NONE)),
    Setup(
        "evicted",
        [service(), pod(phase="Failed", ready=False, reason="Evicted", message="low on memory")],
        says("out", "Finished", NONE),
    ),
    Setup("unscheduled", [service(), pod(node="", ips=(), phase="Pending")], says("out", "NotScheduled", NONE)),
    Setup("no-address", [service(), pod(ips=(), phase="Pending")], says("out", "NoAddress", NONE)),
    Setup(
        "image-pull",
        [service(), pod(ips=(), phase="Pending", statuses=[waiting("ErrImagePull", "not found")])],
        says("out", "NoAddress", NONE),
    ),
    Setup(
        "image-pull-with-address",
        [service(), pod(ready=False, phase="Pending", statuses=[waiting("ImagePullBackOff")])],
        says("not ready", "ContainerNotRunning", NONE),
    ),
    Setup(
        "crash-loop",
        [service(), pod(ready=False, statuses=[waiting("CrashLoopBackOff", "back-off") | {"restartCount": 7}])],
        says("not ready", "ContainerNotRunning", NONE),
    ),
    Setup(
        "container-ended",
        [
            service(),
            pod(
                ready=False,
                statuses=[{"name": "app", "ready": False, "state": {"terminated": {"exitCode": 2}}}],
            ),
        ],
        says("not ready", "ContainerNotRunning", NONE),
    ),
    Setup(
        "readiness-probe",
        [
            service(),
            pod(
                ready=False,
                containers=[container(readinessProbe={"tcpSocket": {"port": 1}})],
                statuses=[{"name": "app", "ready": False, "started": True, "state": RUNNING}],
            ),
        ],
        says("not ready", "ReadinessProbe", NONE),
    ),
    Setup(
        "startup-probe",
        [
            service(),
            pod(
                ready=False,
                containers=[container(startupProbe={"tcpSocket": {"port": 1}})],
                statuses=[{"name": "app", "ready": False, "started": False, "state": RUNNING}],
            ),
        ],
        says("not ready", "StartupProbe", NONE),
    ),
    Setup(
        "init-container",
        [
            service(),
            pod(
                ready=False,
                phase="Pending",
                spec={"initContainers": [{"name": "migrate", "image": "x"}]},
                initContainerStatuses=[{"name": "migrate", "ready": False, "state": RUNNING}],
            ),
        ],
        says("not ready", "InitContainer", NONE),
    ),
    Setup("gate-unset", [service(), pod(ready=False, spec=GATE)], says("not ready", "ReadinessGate", NONE)),
    Setup(
        "gate-false",
        [
            service(),
            pod(ready=False, spec=GATE, conditions=[{"type": "lb.example.com/ready", "status": "False"}]),
        ],
        says("not ready", "ReadinessGate", NONE),
    ),
    Setup("not-ready-without-a-reason", [service(), pod(ready=False)], says("not ready", "NotReady", NONE)),
    Setup(
        "one-of-two-not-ready",
        [service(), pod(), pod("web-2", ips=("10.77.0.2",), ready=False)],
        says("not ready", "NotReady"),
        pod="web-2",
    ),
    Setup("published-anyway", [service(**PUBLISHED), pod(ready=False)], says("ready", "PublishedAnyway")),
    Setup(
        "terminating-and-serving",
        [service(), pod() | {"deleted": True}],
        says("terminating", "Terminating", "OnlyTerminating"),
    ),
    Setup(
        "terminating", [service(), pod(ready=False) | {"deleted": True}], says("terminating", "Terminating", NONE)
    ),
    Setup(
        "port-name",
        [service(**NAMED), pod(containers=[container(port="htpp")])],
        says("unreachable", "PortNotFound", "PortNotFound"),
    ),
    Setup(
        "port-name-other-protocol",
        [service(ports=[{"port": 53, "protocol": "UDP", "targetPort": "http"}]), pod()],
        says("unreachable", "PortNotFound", "PortNotFound"),
    ),
    Setup(
        "port-nameless",
        [service(**NAMED), pod(containers=[container(port="")])],
        says("unreachable", "PortNotFound", "PortNotFound"),
    ),
    Setup(
        "port-number",
        [service(ports=[{"port": 80, "targetPort": 8081}]), pod()],
        says("ready", "PortNotDeclared", "PortNotDeclared"),
    ),
    Setup(
        "port-number-other-protocol",
        [service(ports=[{"port": 53, "protocol": "UDP", "targetPort": 8080}]), pod()],
        says("ready", "PortNotDeclared", "PortNotDeclared"),
    ),
    Setup(
        "port-number-undeclared-anywhere",
        [service(ports=[{"port": 80, "targetPort": 8081}]), pod(containers=[container(port="")])],
        says("ready"),
    ),
    Setup(
        "one-of-two-ports",
        [
            service(
                ports=[
                    {"name": "http", "port": 80, "targetPort": "http"},
                    {"name": "admin", "port": 81, "targetPort": "admin"},
                ]
            ),
            pod(),
        ],
        says("ready", "PortNotFound", "PortNotFound"),
    ),
    Setup(
        "node-missing",
        [service(), pod(node="gone")],
        says("out", "NodeMissing", NONE),
        no_nodes=says("unknown (ready)", "NodeUnread"),
        get_all=says("unknown (ready)"),
    ),
    Setup(
        "node-missing-published-anyway",
        [service(**PUBLISHED), pod(node="gone")],
        says("ready", "NodeMissing"),
        no_nodes=says("ready"),
        get_all=says("unknown (ready)"),
    ),
    Setup(
        "no-address-of-family",
        [service(ipFamilies=["IPv4"]), pod(ips=("fd00:77::1",))],
        says("out", "NoAddressOfFamily", NONE),
    ),
    Setup(
        "prefer-close",
        [service(trafficDistribution="PreferClose"), pod()],
        says("ready", "HintsOn"),
        get_all=says("unknown (ready)"),
    ),
    Setup(
        "written-by-hand", [selectorless(), endpoints("http")], says("works", "NoSelector"), pod="",
        get_all=says("unknown", "NoSelector"),
    ),
    Setup(
        "written-by-hand-port-name", [selectorless(), endpoints("")],
        says("no traffic", "PortNameMismatch", "PortNameMismatch"), pod="",
        get_all=says("unknown"),
    ),
    Setup(
        "written-by-nobody", [selectorless(), pod()], says("out", "NoSelector", "NoEndpoints"),
    ),
    Setup(
        "unpublished", [service(), pod()], says("missing", "NotYetPublished", "SlicesMissing"), edit=no_slices,
        get_all=says("unknown (ready)"),
    ),
    Setup(
        "endpoint-missing",
        [service(), pod(), pod("web-2", ips=("10.77.0.2",))],
        says("missing", "NotYetPublished", "EndpointMissing"),
        edit=without_first,
        get_all=says("unknown (ready)"),
    ),
    Setup(
        "endpoint-missing-on-a-node-of-its-own",
        [service(), pod(node="setup-2"), pod("web-2", ips=("10.77.0.2",))],
        says("missing", "NotYetPublished", "EndpointMissing"),
        edit=without_first,
        no_nodes=says("unknown (ready)", "NodeUnread"),
        get_all=says("unknown (ready)"),
    ),
    Setup(
        "pod-gone", [service(), pod()], says("left over", "PodGone", "EndpointStale"), pod="web-9", edit=gone,
        get_all=says("no such pod"),
    ),
    Setup(
        "pod-relabelled",
        [service(), pod(labels={"app": "Web"})],
        says("left over", "LabelDiffers", "EndpointStale", "NothingSelected"),
        edit=another("web-x", OURS, LEFT_OVER),
    ),
    Setup("endpoint-stale", [service(), pod()], says("not ready", "Stale", "EndpointWrong"), edit=stale,
        get_all=says("unknown (ready)")),
    Setup(
        "zone-wrong", [service(), pod()], says("ready", "", "EndpointWrong"), edit=wrong_zone,
        no_nodes=says("ready"),
    ),
    Setup(
        "slice-of-somebody-else",
        [service(), pod()],
        says("ready", "", "SliceForeign"),
        edit=another("web-mesh", "mesh.example.com", {"addresses": ["192.0.2.7"]}),
    ),
    Setup("endpoints-missing", [service(), pod()], says("ready", "", "EndpointsMissing"), edit=no_endpoints),
    Setup(
        "two-things-wrong",
        [service(**NAMED), pod(ready=False, containers=[container(port="web")])],
        says("not ready", "PortNotFound", NONE, "PortNotFound"),
    ),
)  # fmt: skip

NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"setup-{number}", "labels": {"topology.kubernetes.io/zone": zone}},
    }
    for number, zone in enumerate(("zone-a", "zone-b", "zone-c"))
]


def documents_of(setup: Setup) -> list[Json]:
    """Return the services and pods of a set-up in its namespace, with the published objects, edited."""
    made = []
    for item in setup.objects:
        document = {key: value for key, value in item.items() if key not in ("deleted", "elsewhere")}
        namespace = "elsewhere" if item.get("elsewhere") else setup.namespace
        metadata = {**document["metadata"], "namespace": namespace}
        metadata["uid"] = f"{document['kind']}-{namespace}-{metadata['name']}"
        if item.get("deleted"):
            metadata |= {"deletionTimestamp": "2026-01-02T00:00:30Z", "deletionGracePeriodSeconds": 30}
        if document["kind"] == "Service" and document["spec"].get("type") != "ExternalName":
            document["spec"] = {"clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], **document["spec"]}
        made.append({**document, "metadata": metadata})
    published = [
        {"apiVersion": "v1", "kind": "Endpoints", **msgspec.json.decode(msgspec.json.encode(item))}
        for item in planned(snapshot_of([*map(manifest, made), *map(manifest, NODES)]))
    ]
    written = {item["metadata"]["name"] for item in made if item["kind"] == "Endpoints"}
    published = [
        item for item in published if item["kind"] != "Endpoints" or item["metadata"]["name"] not in written
    ]
    if setup.edit is not None:
        setup.edit(published)
    return [*made, *published]


def manifest(document: Json) -> Manifest:
    return Manifest(document, "setups.yaml", 1)


def worlds() -> dict[str, ClusterIndex]:
    """Return each view of all set-ups together: ``kubectl get -A``."""
    documents = [document for setup in SETUPS for document in documents_of(setup)]
    everything = snapshot_of([*map(manifest, documents), *map(manifest, NODES)])
    forbidden = Unread("nodes", 'nodes is forbidden: User "viewer" cannot list resource "nodes"')
    kinds = ("Service", "Pod")
    return {
        "admin": ClusterIndex(everything),
        "view": ClusterIndex(msgspec.structs.replace(everything, nodes=(), unread=(forbidden,))),
        "export": ClusterIndex(snapshot_of([*map(manifest, documents)], is_complete=False)),
        "get all": ClusterIndex(
            snapshot_of([manifest(one) for one in documents if one["kind"] in kinds], is_complete=False)
        ),
    }


def asked(world: ClusterIndex, setup: Setup, found_codes: Iterable[str]) -> Answers:
    """Return the answers for a set-up in one view."""
    key = ObjectKey(setup.namespace, "web")
    namespace, _, name = setup.pod.rpartition("/")
    pod_key = ObjectKey(namespace or setup.namespace, name) if name else None
    try:
        found = explain_service(world, key, NOW, pod=pod_key)
    except LookupError:
        return Answers("no such pod", "", frozenset(found_codes))
    wanted = setup.admin.code, *((setup.no_nodes.code,) if setup.no_nodes else ())
    if pod_key is None:
        codes = [reason.code for reason in found.reasons]
        verdict = str(found.verdict)
    else:
        (one,) = found.pods
        codes = [reason.code for reason in one.reasons]
        verdict = one.verdict if one.expected is None else f"{one.verdict} ({one.expected})"
    said = next((code for code in wanted if code and code in codes), "")
    return Answers(verdict, said, frozenset(found_codes))


def all_answers() -> dict[tuple[str, str], Answers]:
    """Return the answers of every set-up in every view."""
    answers = {}
    for view, world in worlds().items():
        codes: dict[str, set[str]] = {}
        for finding in check(world).findings:
            if finding.severity != "note":
                codes.setdefault(finding.namespace, set()).add(finding.code)
        for setup in SETUPS:
            answers[setup.name, view] = asked(world, setup, codes.get(setup.namespace, ()))
    return answers


def table() -> tuple[str, int]:
    """Return the table as text, and the number of wrong answers in it."""
    answers = all_answers()
    rows = [("set-up", "view", "explain", "reason", "check", "")]
    wrong = 0
    for setup in SETUPS:
        shown: set[Answers] = set()
        for view in VIEWS:
            found, right = answers[setup.name, view], setup.answers(view)
            wrong += found != right
            if found not in shown or found != right:
                mark = "" if found == right else f"WRONG, should be {right}"
                rows.append(
                    (setup.name, view, found.verdict, found.code, ", ".join(sorted(found.found)), mark)
                )
            shown.add(found)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    counted = f"{len(SETUPS)} set-ups in {len(VIEWS)} views (a view is left out where it says the same): {wrong} wrong"
    return "\n".join([*lines, "", counted]), wrong


__all__ = ["SETUPS", "VIEWS", "Snapshot", "all_answers", "table"]

if __name__ == "__main__":
    text, count = table()
    print(text)
    raise SystemExit(bool(count))
