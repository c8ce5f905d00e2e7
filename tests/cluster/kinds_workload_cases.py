"""The bodies of pods and of kinds with pod templates."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.kinds_driver import Case, Step, case, change, create, delete, patch, read, table

JSON = dict[str, Any]


def pod(name: str = "p", *, container: JSON | None = None, labels: JSON | None = None, **spec: Any) -> JSON:
    metadata: JSON = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec},
    }


def containers(*members: JSON) -> JSON:
    return pod(containers=list(members))


def probe(name: str, **members: Any) -> JSON:
    return pod(container={name: members})


def ports_of(*ports: JSON) -> JSON:
    return pod(container={"ports": list(ports)})


def env(*variables: JSON) -> JSON:
    return pod(container={"env": list(variables)})


def resources(**members: Any) -> JSON:
    return pod(container={"resources": members})


def spec_of(**members: Any) -> Any:
    def make(obj: JSON) -> None:
        for name, value in members.items():
            if value is None:
                obj["spec"].pop(name, None)
            else:
                obj["spec"][name] = value

    return make


def status_of(**members: Any) -> Any:
    def make(obj: JSON) -> None:
        obj.setdefault("status", {}).update(members)

    return make


def image_of(image: str) -> Any:
    def make(obj: JSON) -> None:
        obj["spec"]["containers"][0]["image"] = image

    return make


def more_tolerations(obj: JSON) -> None:
    obj["spec"]["tolerations"].append({"key": "x", "operator": "Exists"})


def other_tolerations(obj: JSON) -> None:
    obj["spec"]["tolerations"] = [{"key": "x", "operator": "Exists"}]


def removed(name: str, options: JSON | None = None) -> Step:
    """Delete a pod immediately. The response is compared by the tests of the verbs."""
    return Step("DELETE", "pods", name, body=options, code_only=True)


def refused_pods() -> list[Case]:
    wrong: Mapping[str, JSON] = {
        "no containers": {"metadata": {"name": "p"}, "spec": {"containers": []}},
        "no spec": {"metadata": {"name": "p"}},
        "no name": containers({"image": "i"}),
        "no image": containers({"name": "c"}),
        "an image with space": containers({"name": "c", "image": " i"}),
        "a bad name": containers({"name": "C_d", "image": "i"}),
        "a name with a dot": containers({"name": "c.d", "image": "i"}),
        "two of a name": containers({"name": "c", "image": "i"}, {"name": "c", "image": "i"}),
        "a bad policy": pod(container={"imagePullPolicy": "Sometimes"}),
        "a bad message policy": pod(container={"terminationMessagePolicy": "Mail"}),
        "no container port": ports_of({"containerPort": 0}),
        "a large port": ports_of({"containerPort": 99999, "hostPort": 99999}),
        "a bad port name": ports_of(
            {"containerPort": 1, "name": "A-"},
            {"containerPort": 2, "name": "a--b"},
            {"containerPort": 3, "name": "1"},
            {"containerPort": 4, "name": "abcdefghijklmnop"},
        ),
        "ports of one name": ports_of({"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}),
        "a bad protocol": ports_of({"containerPort": 1, "protocol": "X"}),
        "a host port twice": ports_of(
            {"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}
        ),
        "host network, other port": pod(
            hostNetwork=True, container={"ports": [{"containerPort": 1, "hostPort": 2}]}
        ),
        "a probe of nothing": probe("livenessProbe"),
        "a probe of two": probe("livenessProbe", httpGet={"port": 1}, tcpSocket={"port": 2}),
        "a probe with bad counts": probe(
            "readinessProbe",
            tcpSocket={"port": 1},
            periodSeconds=-1,
            timeoutSeconds=-1,
            failureThreshold=-1,
            initialDelaySeconds=-1,
        ),
        "liveness twice": probe("livenessProbe", tcpSocket={"port": 1}, successThreshold=2),
        "startup twice": probe("startupProbe", exec={"command": ["a"]}, successThreshold=2),
        "readiness with grace": probe(
            "readinessProbe", tcpSocket={"port": 1}, terminationGracePeriodSeconds=1
        ),
        "no grace": probe("livenessProbe", tcpSocket={"port": 1}, terminationGracePeriodSeconds=0),
        "bad get": probe(
            "livenessProbe",
            httpGet={"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]},
        ),
        "bad named port": probe("livenessProbe", httpGet={"port": "A"}),
        "no command": probe("livenessProbe", exec={}),
        "bad grpc": probe("livenessProbe", grpc={"port": 0}),
        "sleep too long": pod(container={"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
        "lifecycle of nothing": pod(container={"lifecycle": {"postStart": {}}}),
        "no variable": env({"name": ""}),
        "a bad variable": env({"name": "a=b"}),
        "a variable from nowhere": env({"name": "a", "valueFrom": {}}),
        "a variable from two": env(
            {
                "name": "a",
                "valueFrom": {
                    "fieldRef": {"fieldPath": "metadata.name"},
                    "secretKeyRef": {"name": "a", "key": "b"},
                },
            }
        ),
        "a value and a source": env(
            {"name": "a", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        ),
        "a bad field": env(
            {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}},
            {"name": "b", "valueFrom": {"fieldRef": {"fieldPath": ""}}},
        ),
        "an unsupported field": env({"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}),
        "a bad resource": env(
            {"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.x"}}},
            {"name": "b", "valueFrom": {"resourceFieldRef": {"resource": ""}}},
        ),
        "bad keys": env(
            {"name": "a", "valueFrom": {"configMapKeyRef": {"name": "A", "key": ""}}},
            {"name": "b", "valueFrom": {"secretKeyRef": {"name": "a", "key": "a b"}}},
        ),
        "bad envFrom": pod(container={"envFrom": [{"configMapRef": {"name": ""}}, {"prefix": "a="}]}),
        "a request above its limit": resources(
            requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"}
        ),
        "negative": resources(requests={"cpu": "-1"}),
        "unknown resources": resources(limits={"gold": "1", "a b": "1", "pods": "1"}),
        "half a device": resources(limits={"a.b/c": "500m"}),
        "a device without limit": resources(requests={"a.b/c": "1"}),
        "a mount of nothing": pod(container={"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
        "bad mounts": pod(
            volumes=[{"name": "v"}],
            container={
                "volumeMounts": [
                    {"name": "v", "mountPath": ""},
                    {"name": "v", "mountPath": "/a", "subPath": "/x/.."},
                    {"name": "v", "mountPath": "/a"},
                ]
            },
        ),
        "bad volumes": pod(volumes=[{"name": ""}, {"name": "A"}, {"name": "a"}, {"name": "a"}]),
        "a volume of two": pod(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]),
        "volumes of nothing": pod(
            volumes=[
                {"name": "a", "hostPath": {"path": ""}},
                {"name": "b", "secret": {}},
                {"name": "c", "configMap": {}},
                {"name": "d", "persistentVolumeClaim": {"claimName": ""}},
            ]
        ),
        "volume details": pod(
            volumes=[
                {"name": "a", "hostPath": {"path": "/a/..", "type": "X"}},
                {
                    "name": "b",
                    "secret": {
                        "secretName": "s",
                        "defaultMode": 512,
                        "items": [{"key": "", "path": "/x"}, {"key": "a", "path": "../b", "mode": 999}],
                    },
                },
            ]
        ),
        "downward API": pod(
            volumes=[
                {
                    "name": "a",
                    "downwardAPI": {
                        "items": [
                            {"path": "", "fieldRef": {"fieldPath": "metadata.uid"}},
                            {"path": "../x"},
                            {"path": "..", "resourceFieldRef": {"resource": "limits.cpu"}},
                            {"path": "a", "fieldRef": {"fieldPath": "status.podIP"}, "mode": 5000},
                            {"path": "b", "resourceFieldRef": {"containerName": "c", "resource": "x"}},
                        ]
                    },
                }
            ]
        ),
        "projections": pod(
            serviceAccountName="x",
            volumes=[
                {
                    "name": "a",
                    "projected": {
                        "sources": [
                            {"secret": {"items": [{"key": "k", "path": "p"}]}},
                            {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
                            {
                                "downwardAPI": {
                                    "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]
                                }
                            },
                            {"serviceAccountToken": {"path": "", "expirationSeconds": 5}},
                            {"serviceAccountToken": {"path": "..x", "expirationSeconds": 5000000000}},
                        ]
                    },
                }
            ],
        ),
        "a bad restart policy": pod(restartPolicy="Maybe"),
        "a bad DNS policy": pod(dnsPolicy="Maybe"),
        "DNS none": pod(dnsPolicy="None"),
        "DNS none, none": pod(dnsPolicy="None", dnsConfig={"searches": ["a"]}),
        "four name servers": pod(dnsConfig={"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "x"]}),
        "a bad node selector": pod(nodeSelector={"a b": "c"}),
        "bad tolerations": pod(
            tolerations=[
                {"operator": "Equal"},
                {"key": "a", "operator": "X"},
                {"key": "a", "operator": "Exists", "value": "b"},
                {"key": "a", "effect": "X"},
                {"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"},
            ]
        ),
        "a bad deadline": pod(activeDeadlineSeconds=0),
        "bad names": pod(hostname="a.b", subdomain="A", nodeName="A", serviceAccountName="A"),
        "bad aliases": pod(hostAliases=[{"ip": "x", "hostnames": ["A"]}]),
        "an explicit priority": pod(priority=5),
        "an unknown class": pod(priorityClassName="gold"),
        "a bad preemption policy": pod(preemptionPolicy="Always"),
        "init containers": pod(
            initContainers=[
                {"name": "c", "image": "i"},
                {
                    "name": "d",
                    "image": "i",
                    "livenessProbe": {"tcpSocket": {"port": 1}},
                    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
                },
            ]
        ),
        "bad gates": pod(
            readinessGates=[{"conditionType": "a b"}],
            schedulingGates=[{"name": "a/b"}, {"name": "a/b"}, {"name": "a b"}],
        ),
        "a node and gates": pod(nodeName="n", schedulingGates=[{"name": "a/b"}]),
        "labels": {**pod(), "metadata": {"name": "p", "labels": {"a": "b c"}}},
        "a bad pod name": pod("A"),
    }
    return [case(f"refused: {title}", create("pods", body)) for title, body in wrong.items()]


def good_pods() -> list[Case]:
    p = "pods"
    running: Step = change(
        p,
        "p",
        status_of(
            phase="Running",
            podIP="10.0.0.1",
            podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            conditions=[{"type": "Ready", "status": "True"}],
            containerStatuses=[
                {
                    "name": "c",
                    "image": "i",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 2,
                    "state": {"running": {}},
                }
            ],
        ),
        "status",
    )

    def binding(name: str, node: str, **target: Any) -> Step:
        return Step(
            "POST",
            p,
            name,
            "binding",
            body={"metadata": {"name": name}, "target": {"kind": "Node", "name": node, **target}},
        )

    return [
        case("defaults", create(p, pod()), read(p, "p"), table(p, "p"), removed("p")),
        case(
            "images",
            create(
                p,
                containers(
                    *(
                        {"name": f"c{i}", "image": image}
                        for i, image in enumerate(
                            (
                                "a",
                                "a:latest",
                                "a:1",
                                "r:5000/a",
                                "r:5000/a:1",
                                "a@sha256:" + "0" * 64,
                                "a:1@sha256:" + "0" * 64,
                                "a:latest@sha256:" + "0" * 64,
                            )
                        )
                    )
                ),
            ),
        ),
        case(
            "probes",
            create(
                p,
                pod(
                    container={
                        "livenessProbe": {"httpGet": {"port": "http"}},
                        "readinessProbe": {"grpc": {"port": 1}},
                        "startupProbe": {"exec": {"command": ["a"]}, "periodSeconds": 3},
                        "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
                    }
                ),
            ),
        ),
        case(
            "volumes",
            create(
                p,
                pod(
                    volumes=[
                        {"name": "a"},
                        {"name": "b", "secret": {"secretName": "s"}},
                        {"name": "c", "configMap": {"name": "x", "defaultMode": 0}},
                        {"name": "d", "hostPath": {"path": "/"}},
                        {
                            "name": "e",
                            "downwardAPI": {
                                "items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]
                            },
                        },
                        {"name": "f", "projected": {"sources": [{"configMap": {"name": "x"}}]}},
                        {"name": "g", "persistentVolumeClaim": {"claimName": "x"}},
                    ],
                    container={"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
                ),
            ),
        ),
        case(
            "variables",
            create(
                p,
                env(
                    {"name": "A", "value": "b"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ),
            ),
        ),
        case("limits become requests", create(p, resources(limits={"cpu": "1000m", "memory": "1024Mi"}))),
        case(
            "guaranteed",
            create(
                p, resources(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "1", "memory": "1Gi"})
            ),
        ),
        case("burstable", create(p, resources(requests={"cpu": "0.5"}))),
        case(
            "two, one without",
            create(
                p,
                containers(
                    {"name": "a", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1"}}},
                    {"name": "b", "image": "i"},
                ),
            ),
        ),
        case("host network", create(p, pod(hostNetwork=True, container={"ports": [{"containerPort": 80}]}))),
        case("an account", create(p, pod(serviceAccount="x"))),
        case(
            "a sidecar",
            create(
                p,
                pod(
                    initContainers=[
                        {
                            "name": "s",
                            "image": "i",
                            "restartPolicy": "Always",
                            "readinessProbe": {"tcpSocket": {"port": 1}},
                        }
                    ]
                ),
            ),
            table(p, "p"),
        ),
        case("critical", create(p, pod(priorityClassName="system-node-critical"))),
        case(
            "explicit tolerations",
            create(p, pod(tolerations=[{"operator": "Exists"}])),
            create(
                p,
                pod(
                    "q",
                    tolerations=[
                        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
                    ],
                ),
            ),
        ),
        case(
            "gates",
            create(p, pod(schedulingGates=[{"name": "a/b"}, {"name": "c/d"}], nodeSelector={"x": "y"})),
            table(p, "p"),
            change(p, "p", spec_of(schedulingGates=[{"name": "a/b"}])),
            change(p, "p", spec_of(schedulingGates=[{"name": "n/n"}])),
            change(p, "p", spec_of(nodeSelector={"x": "z"})),
            change(p, "p", spec_of(nodeSelector={"x": "y", "z": "z"})),
            change(p, "p", spec_of(schedulingGates=None)),
        ),
        case(
            "a client's status is dropped",
            create(p, {**pod(), "status": {"phase": "Running", "podIP": "1.2.3.4"}}),
        ),
        case(
            "on a node from the start",
            create(p, pod(nodeName="n")),
            delete(p, "p"),
            read(p, "p"),
            table(p, "p"),
            removed("p", {"gracePeriodSeconds": 0}),
        ),
        case(
            "duplicate ports warn",
            create(
                p,
                ports_of(
                    {"containerPort": 1},
                    {"containerPort": 1},
                    {"containerPort": 2, "hostPort": 2},
                    {"containerPort": 2},
                ),
            ),
        ),
        case(
            "hidden variables warn",
            create(
                p,
                env(
                    {"name": "a", "value": "b"}, {"name": "a", "value": "c"}, {"name": "a", "value": "$(a)x"}
                ),
            ),
        ),
        case(
            "port names warn",
            create(
                p,
                containers(
                    {"name": "a", "image": "i", "ports": [{"containerPort": 1, "name": "x"}]},
                    {"name": "b", "image": "i", "ports": [{"containerPort": 2, "name": "x"}]},
                ),
            ),
        ),
        case(
            "negative grace warns",
            create(p, pod(terminationGracePeriodSeconds=-1)),
            change(p, "p", spec_of(terminationGracePeriodSeconds=1)),
        ),
        case("a name with dots warns", create(p, pod("a.b"))),
        case(
            "a new image",
            create(p, pod()),
            change(p, "p", image_of("j")),
            change(p, "p", image_of("")),
            change(p, "p", image_of(" j")),
        ),
        case("another command", create(p, pod()), change(p, "p", spec_of(hostname="x"))),
        case(
            "another container",
            create(p, pod()),
            change(p, "p", spec_of(containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}])),
        ),
        case(
            "tolerations grow",
            create(p, pod()),
            change(p, "p", more_tolerations),
            change(p, "p", other_tolerations),
        ),
        case(
            "deadlines shrink",
            create(p, pod(activeDeadlineSeconds=10)),
            change(p, "p", spec_of(activeDeadlineSeconds=11)),
            change(p, "p", spec_of(activeDeadlineSeconds=9)),
            change(p, "p", spec_of(activeDeadlineSeconds=None)),
        ),
        case("labels", create(p, pod()), patch(p, "p", {"metadata": {"labels": {"a": "b"}}})),
        case(
            "runs",
            create(p, pod(nodeName="n")),
            running,
            table(p, "p"),
            change(p, "p", lambda obj: obj["metadata"].update(labels={"s": "t"}), "status"),
            change(p, "p", status_of(qosClass="Guaranteed"), "status"),
            delete(p, "p", {"gracePeriodSeconds": 5}),
            table(p, "p"),
        ),
        case(
            "bad statuses",
            create(p, pod()),
            change(p, "p", status_of(podIPs=[{"ip": "x"}]), "status"),
            change(p, "p", status_of(podIPs=[{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]), "status"),
            change(p, "p", status_of(conditions=[{"type": "a b", "status": "True"}]), "status"),
            change(p, "p", status_of(hostIP="1.1.1.1", hostIPs=[{"ip": "1.1.1.2"}]), "status"),
            change(p, "p", status_of(podIP="10.0.0.9"), "status"),
        ),
        case(
            "crashes",
            create(p, pod()),
            change(
                p,
                "p",
                status_of(
                    phase="Running",
                    containerStatuses=[
                        {
                            "name": "c",
                            "image": "i",
                            "imageID": "",
                            "ready": False,
                            "restartCount": 3,
                            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            "lastState": {"terminated": {"exitCode": 1}},
                        }
                    ],
                ),
                "status",
            ),
            table(p, "p"),
        ),
        case(
            "ends",
            create(p, pod(restartPolicy="Never")),
            change(
                p,
                "p",
                status_of(
                    phase="Succeeded",
                    containerStatuses=[
                        {
                            "name": "c",
                            "image": "i",
                            "imageID": "",
                            "ready": False,
                            "restartCount": 0,
                            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                        }
                    ],
                ),
                "status",
            ),
            table(p, "p"),
            change(
                p,
                "p",
                status_of(
                    phase="Running",
                    containerStatuses=[
                        {
                            "name": "c",
                            "image": "i",
                            "imageID": "",
                            "ready": True,
                            "restartCount": 0,
                            "state": {"running": {}},
                        }
                    ],
                ),
                "status",
            ),
        ),
        case(
            "exit codes",
            create(p, pod(restartPolicy="Never")),
            change(
                p,
                "p",
                status_of(
                    phase="Failed",
                    containerStatuses=[
                        {
                            "name": "c",
                            "image": "i",
                            "imageID": "",
                            "ready": False,
                            "restartCount": 0,
                            "state": {"terminated": {"exitCode": 3}},
                        }
                    ],
                ),
                "status",
            ),
            table(p, "p"),
        ),
        case(
            "begins",
            create(p, pod(initContainers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}])),
            change(
                p,
                "p",
                status_of(
                    initContainerStatuses=[
                        {
                            "name": "a",
                            "image": "i",
                            "imageID": "",
                            "ready": True,
                            "restartCount": 0,
                            "state": {"terminated": {"exitCode": 0}},
                        },
                        {
                            "name": "b",
                            "image": "i",
                            "imageID": "",
                            "ready": False,
                            "restartCount": 1,
                            "state": {"waiting": {"reason": "ErrImagePull"}},
                        },
                    ]
                ),
                "status",
            ),
            table(p, "p"),
        ),
        case(
            "readiness gates",
            create(p, pod(readinessGates=[{"conditionType": "x/y"}, {"conditionType": "z"}])),
            change(p, "p", status_of(conditions=[{"type": "x/y", "status": "True"}]), "status"),
            table(p, "p"),
        ),
        case("bound", create(p, pod()), binding("p", "n1"), read(p, "p"), binding("p", "n2")),
        case(
            "bound badly",
            create(p, pod()),
            binding("p", ""),
            binding("p", "n", kind="Pod"),
            create(p, pod("g", schedulingGates=[{"name": "a/b"}])),
            binding("g", "n"),
        ),
        case(
            "evicted",
            create(p, pod()),
            Step("POST", p, "p", "eviction", body={"metadata": {"name": "p"}}),
            read(p, "p"),
        ),
    ]


def workload(template: JSON | None = None, **spec: Any) -> JSON:
    made = template or {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": made, **spec},
    }


def template(**spec: Any) -> JSON:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def common(kind: str) -> list[Case]:
    wrong: Mapping[str, JSON] = {
        "no spec": {"metadata": {"name": "w"}},
        "no selector": {"metadata": {"name": "w"}, "spec": {"template": template()}},
        "an empty selector": workload(selector={}),
        "another selector": workload(selector={"matchLabels": {"x": "y"}}),
        "a bad selector": workload(selector={"matchLabels": {"a b": "c d"}}),
        "bad expressions": workload(
            selector={
                "matchExpressions": [
                    {"key": "a", "operator": "In"},
                    {"key": "a", "operator": "Exists", "values": ["b"]},
                    {"key": "a b", "operator": "Near", "values": ["-"]},
                ]
            }
        ),
        "no labels": workload({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        "no containers": workload({"metadata": {"labels": {"a": "b"}}, "spec": {}}),
        "pods that end": workload(template(restartPolicy="Never", activeDeadlineSeconds=5)),
        "a bad template": workload(
            {
                "metadata": {"labels": {"a": "b", "c": "d e"}, "annotations": {"a b": "c"}},
                "spec": {"containers": [{"name": "C", "ports": [{"containerPort": 0}]}]},
            }
        ),
        "negative": workload(minReadySeconds=-1, revisionHistoryLimit=-1),
        "a bad name": {**workload(), "metadata": {"name": "A"}},
    }
    return [
        *(case(f"refused: {title}", create(kind, body)) for title, body in wrong.items()),
        case("defaults", create(kind, workload()), read(kind, "w"), table(kind, "w"), delete(kind, "w")),
        case(
            "expressions",
            create(
                kind,
                workload(
                    selector={
                        "matchLabels": {"a": "b"},
                        "matchExpressions": [
                            {"key": "a", "operator": "In", "values": ["c", "b"]},
                            {"key": "z", "operator": "DoesNotExist"},
                        ],
                    }
                ),
            ),
            table(kind, "w"),
        ),
        case(
            "a rich template",
            create(
                kind,
                workload(
                    template(
                        hostNetwork=True,
                        serviceAccountName="x",
                        volumes=[{"name": "v"}],
                        nodeSelector={"x": "y"},
                        initContainers=[{"name": "d", "image": "j"}],
                        containers=[
                            {
                                "name": "c",
                                "image": "i",
                                "ports": [{"containerPort": 1}],
                                "livenessProbe": {"httpGet": {"port": 1}},
                                "resources": {"limits": {"cpu": "1000m"}},
                            }
                        ],
                    )
                ),
            ),
            table(kind, "w"),
        ),
        case(
            "warnings",
            create(
                kind,
                workload(
                    template(
                        containers=[
                            {"name": "c", "image": "i", "ports": [{"containerPort": 1}, {"containerPort": 1}]}
                        ]
                    )
                ),
            ),
        ),
        case(
            "the generation",
            create(kind, workload()),
            patch(kind, "w", {"metadata": {"annotations": {"x": "y"}}}),
            patch(kind, "w", {"metadata": {"labels": {"x": "y"}}}),
            patch(kind, "w", {"spec": {"minReadySeconds": 3}}),
            patch(kind, "w", {"spec": {"template": {"spec": {"hostname": "h"}}}}),
            patch(kind, "w", {"spec": {"template": {"spec": {"hostname": "h"}}}}),
        ),
        case(
            "the selector stays",
            create(kind, workload()),
            patch(
                kind,
                "w",
                {
                    "spec": {
                        "selector": {"matchLabels": {"c": "d"}},
                        "template": {"metadata": {"labels": {"c": "d"}}},
                    }
                },
            ),
        ),
        case(
            "a client's status is dropped",
            create(kind, {**workload(), "status": {"observedGeneration": 7}}),
            patch(kind, "w", {"status": {"observedGeneration": 7}}),
            patch(kind, "w", {"status": {"observedGeneration": 7}}, "status"),
            change(kind, "w", lambda obj: obj["metadata"].update(labels={"s": "t"}), "status"),
            patch(kind, "w", {"status": {"observedGeneration": -1}}, "status"),
        ),
    ]


def scaled(kind: str) -> list[Case]:
    return [
        case(
            "replicas",
            create(kind, workload(replicas=-1)),
            create(kind, workload(replicas=0)),
            table(kind, "w"),
        ),
        case(
            "scale",
            create(kind, workload()),
            read(kind, "w", "scale"),
            patch(kind, "w", {"spec": {"replicas": 3}}, "scale"),
            read(kind, "w"),
            patch(kind, "w", {"spec": {"replicas": -1}}, "scale"),
            change_scale(kind, 0),
            read(kind, "w", "scale"),
            patch(kind, "w", {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 5}}, "scale"),
        ),
        case(
            "counts",
            create(kind, workload()),
            patch(
                kind, "w", {"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}}, "status"
            ),
            patch(
                kind, "w", {"status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2}}, "status"
            ),
            table(kind, "w"),
        ),
    ]


def change_scale(kind: str, replicas: int) -> Step:
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "w"},
        "spec": {"replicas": replicas},
    }
    return Step("PUT", kind, "w", "scale", body=body)


def strategies(kind: str, field: str, wrong: Mapping[str, Any]) -> list[Case]:
    return [
        case(f"{field}: {title}", create(kind, workload(**{field: value}))) for title, value in wrong.items()
    ]


def rolling(**members: Any) -> JSON:
    return {"type": "RollingUpdate", "rollingUpdate": members}


PODS: Sequence[Case] = [*refused_pods(), *good_pods()]

DEPLOYMENTS: Sequence[Case] = [
    *common("deployments"),
    *scaled("deployments"),
    *strategies(
        "deployments",
        "strategy",
        {
            "unknown": {"type": "Magic"},
            "recreate": {"type": "Recreate"},
            "recreate, rolling": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            "nothing ever": rolling(maxSurge=0, maxUnavailable=0),
            "no percentages": rolling(maxSurge="x", maxUnavailable="5"),
            "more than all": rolling(maxUnavailable="101%"),
            "negative": rolling(maxSurge=-1, maxUnavailable=-2),
            "one of both": rolling(maxSurge=1),
        },
    ),
    case(
        "deadlines",
        create("deployments", workload(progressDeadlineSeconds=5, minReadySeconds=5)),
        create("deployments", workload(progressDeadlineSeconds=-1)),
        create("deployments", workload(paused=True)),
    ),
    case(
        "collisions",
        create("deployments", workload()),
        patch("deployments", "w", {"status": {"collisionCount": 2}}, "status"),
        patch("deployments", "w", {"status": {"collisionCount": 1}}, "status"),
    ),
]

REPLICA_SETS: Sequence[Case] = [*common("replicasets"), *scaled("replicasets")]

STATEFUL_SETS: Sequence[Case] = [
    *common("statefulsets"),
    *scaled("statefulsets"),
    *strategies(
        "statefulsets",
        "updateStrategy",
        {
            "unknown": {"type": "Magic"},
            "on delete": {"type": "OnDelete"},
            "on delete, rolling": {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            "a partition": rolling(partition=2),
            "a bad partition": rolling(partition=-1),
            "rolling of nothing": {"type": "RollingUpdate"},
        },
    ),
    *strategies("statefulsets", "podManagementPolicy", {"parallel": "Parallel", "unknown": "Magic"}),
    *strategies("statefulsets", "serviceName", {"bad": "a.b"}),
    *strategies("statefulsets", "ordinals", {"from 2": {"start": 2}, "from below": {"start": -1}}),
    *strategies(
        "statefulsets",
        "persistentVolumeClaimRetentionPolicy",
        {"unknown": {"whenDeleted": "X", "whenScaled": "Y"}, "half": {"whenDeleted": "Delete"}},
    ),
    case(
        "claims",
        create(
            "statefulsets",
            workload(
                volumeClaimTemplates=[
                    {
                        "metadata": {"name": "d"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ],
                template=template(
                    containers=[
                        {"name": "c", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
                    ]
                ),
            ),
        ),
    ),
    case(
        "what is frozen",
        create("statefulsets", workload(serviceName="s")),
        patch("statefulsets", "w", {"spec": {"serviceName": "t"}}),
        patch("statefulsets", "w", {"spec": {"podManagementPolicy": "Parallel"}}),
        patch("statefulsets", "w", {"spec": {"replicas": 4}}),
    ),
]

DAEMON_SETS: Sequence[Case] = [
    *common("daemonsets"),
    *strategies(
        "daemonsets",
        "updateStrategy",
        {
            "unknown": {"type": "Magic"},
            "on delete": {"type": "OnDelete"},
            "a surge": rolling(maxSurge=1, maxUnavailable=0),
            "both": rolling(maxSurge=1, maxUnavailable=1),
            "none": rolling(maxUnavailable=0),
            "bad": rolling(maxUnavailable="x", maxSurge="200%"),
        },
    ),
    case(
        "counts",
        create("daemonsets", workload()),
        patch("daemonsets", "w", {"status": {"numberReady": 1, "desiredNumberScheduled": 2}}, "status"),
        table("daemonsets", "w"),
        patch("daemonsets", "w", {"status": {"numberReady": -1}}, "status"),
    ),
]
