"""kubectl's tables."""

import pytest

from tinykube.server.objects import JsonObject
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.printing import human_duration, selector_text, since

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 365 * 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 1, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 30, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY + 3 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_ages_are_formatted_like_kubectl(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_invalid_times_have_an_unknown_age() -> None:
    assert [since(value, NOW) for value in (None, "", "nonsense")] == ["<unknown>"] * 3
    assert since("2023-11-14T22:12:20Z", NOW) == "60s"
    assert since("2023-11-14T22:12:20.500000Z", NOW) == "59s"


def test_selectors_are_printed_sorted_by_key() -> None:
    selector = {
        "matchLabels": {"b": "c"},
        "matchExpressions": [
            {"key": "z", "operator": "DoesNotExist"},
            {"key": "a", "operator": "NotIn", "values": ["y", "x"]},
            {"key": "c", "operator": "Exists"},
        ],
    }
    assert selector_text(selector) == "a notin (x,y),b=c,c,!z"
    assert selector_text(None) == ""


def cells(plural: str, obj: JsonObject, group: str = "") -> dict[str, str | int]:
    definition = builtin_registry().get(group, "v1", plural)
    assert definition is not None
    return {column.name: column.cell(obj, NOW) for column in definition.columns}


def container(name: str = "c", *, ready: bool = False, restarts: int = 0, **state: JsonObject) -> JsonObject:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def pod(
    *containers: JsonObject, phase: str = "Running", init: tuple[JsonObject, ...] = (), **status: object
) -> JsonObject:
    return {
        "metadata": {"name": "p", "creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {
            "containers": [{"name": one["name"]} for one in containers],
            "initContainers": [{"name": one["name"]} for one in init],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [*containers],
            "initContainerStatuses": [*init],
            **status,
        },
    }


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("obj", "ready", "status"),
    [
        (pod(container(ready=True, running={})), "1/1", "Running"),
        (
            pod(container(ready=True, running={}), container("d", waiting={"reason": "ImagePullBackOff"})),
            "1/2",
            "ImagePullBackOff",
        ),
        (
            pod(container(terminated={"exitCode": 0, "reason": "Completed"}), phase="Succeeded"),
            "0/1",
            "Completed",
        ),
        (pod(container(terminated={"exitCode": 3})), "0/1", "ExitCode:3"),
        (pod(container(terminated={"exitCode": 3, "signal": 9})), "0/1", "Signal:9"),
        (
            pod(
                container(terminated={"exitCode": 0, "reason": "Completed"}),
                container("d", ready=True, running={}),
                conditions=READY,
            ),
            "1/2",
            "Running",
        ),
        (
            pod(
                container(terminated={"exitCode": 0, "reason": "Completed"}),
                container("d", ready=True, running={}),
            ),
            "1/2",
            "NotReady",
        ),
        (
            pod(
                container(terminated={"exitCode": 0, "reason": "Completed"}),
                container("d", terminated={"exitCode": 1, "reason": "Error"}),
            ),
            "0/2",
            "Error",
        ),
        (
            pod(container(), init=(container("a", waiting={"reason": "PodInitializing"}),), phase="Pending"),
            "0/1",
            "Init:0/1",
        ),
        (
            pod(
                container(),
                init=(container("a", terminated={"exitCode": 0}), container("b", terminated={"exitCode": 2})),
                phase="Pending",
            ),
            "0/1",
            "Init:ExitCode:2",
        ),
        (
            pod(
                container(),
                init=(container("a", terminated={"exitCode": 1, "reason": "Error"}),),
                phase="Pending",
            ),
            "0/1",
            "Init:Error",
        ),
        (pod(phase="Failed", reason="Evicted"), "0/0", "Evicted"),
    ],
)
def test_pod_status_is_derived_from_the_containers(obj: JsonObject, ready: str, status: str) -> None:
    row = cells("pods", obj)
    assert (row["Ready"], row["Status"]) == (ready, status)


def test_a_deleted_pod_is_terminating_or_unknown_on_a_lost_node() -> None:
    obj = pod(container(ready=True, running={}))
    obj["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    assert cells("pods", obj)["Status"] == "Terminating"
    obj["status"]["reason"] = "NodeLost"
    assert cells("pods", obj)["Status"] == "Unknown"


def test_restarts_include_the_age_of_the_last_one() -> None:
    status = container(ready=True, restarts=2, running={})
    status["lastState"] = {"terminated": {"finishedAt": "2023-11-14T22:08:20Z"}}
    assert cells("pods", pod(status))["Restarts"] == "2 (5m ago)"
    assert cells("pods", pod(container(restarts=3)))["Restarts"] == "3"


def test_endpoints_show_three_addresses_and_count_the_rest() -> None:
    obj = {
        "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]},
            {
                "addresses": [{"ip": "10.0.0.3"}, {"ip": "10.0.0.4"}],
                "notReadyAddresses": [{"ip": "10.0.0.5"}],
            },
        ]
    }
    assert cells("endpoints", obj)["Endpoints"] == "10.0.0.1:80,[fd00::1]:80,10.0.0.3 + 1 more..."
    assert cells("endpoints", {})["Endpoints"] == "<none>"


def test_endpoint_slices_show_their_ports_and_unset_endpoints() -> None:
    obj = {"endpoints": None, "ports": [{"name": "", "port": 80}, {"name": "a"}, {}]}
    row = cells("endpointslices", obj, "discovery.k8s.io")
    assert (row["Endpoints"], row["Ports"]) == ("<unset>", "80,a,*")


def test_a_load_balancer_shows_its_addresses_or_pending() -> None:
    spec = {
        "type": "LoadBalancer",
        "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
    }
    row = cells("services", {"spec": spec, "status": {"loadBalancer": {}}})
    assert (row["External-IP"], row["Port(s)"]) == ("<pending>", "80:30000/TCP")
    ingress = [{"ip": "2.2.2.2"}, {"hostname": "a.b"}, {"ip": "1.1.1.1"}]
    row = cells(
        "services",
        {"spec": {**spec, "externalIPs": ["9.9.9.9"]}, "status": {"loadBalancer": {"ingress": ingress}}},
    )
    assert row["External-IP"] == "1.1.1.1,2.2.2.2,a.b,9.9.9.9"


def test_both_forms_of_an_event_are_printed_alike() -> None:
    core = {
        "apiVersion": "v1",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "source": {"component": "c", "host": "h"},
        "message": " m\n",
        "type": "Normal",
        "reason": "R",
        "firstTimestamp": "2023-11-14T22:12:20Z",
        "lastTimestamp": "2023-11-14T22:13:10Z",
        "count": 4,
    }
    new = {
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": "e"},
        "regarding": core["involvedObject"],
        "deprecatedSource": core["source"],
        "note": core["message"],
        "type": "Normal",
        "reason": "R",
        "deprecatedFirstTimestamp": core["firstTimestamp"],
        "deprecatedLastTimestamp": core["lastTimestamp"],
        "deprecatedCount": 4,
    }
    row = cells("events", core)
    assert row == cells("events", new, "events.k8s.io")
    assert (
        row["Last Seen"],
        row["First Seen"],
        row["Object"],
        row["Source"],
        row["Message"],
        row["Count"],
    ) == (
        "10s",
        "60s",
        "pod/p",
        "c, h",
        "m",
        4,
    )
