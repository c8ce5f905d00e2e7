"""Selected sequences of writes, each for one promise of server-side apply or managedFields."""

import json
from typing import Any

import msgspec

from tests.cluster.apply_driver import Write

LAST = "kubectl.kubernetes.io/last-applied-configuration"


def in_its_namespace(write: Write, namespace: str) -> Write:
    """Return a write whose body names its namespace."""
    if not isinstance(write.body, dict):
        return write
    body = json.loads(json.dumps(write.body).replace("NAMESPACE", namespace))
    return msgspec.structs.replace(write, body=body)


def config_map(name: str = "a", **more: Any) -> dict[str, Any]:
    """Return a config map; ``metadata`` is merged into its metadata."""
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def applied(body: Any, manager: str = "m1", kind: str = "ConfigMap", **more: Any) -> Write:
    return Write("apply", kind, "a", body, manager, **more)


def posted(body: Any, manager: str = "m1", kind: str = "ConfigMap", **more: Any) -> Write:
    return Write("post", kind, "a", body, manager, **more)


def changed(how: str, body: Any, manager: str = "m1", kind: str = "ConfigMap", **more: Any) -> Write:
    return Write(how, kind, "a", body, manager, **more)


def seen(kind: str = "ConfigMap") -> Write:
    return Write("get", kind, "a")


def put(change: Any, manager: str = "m1", kind: str = "ConfigMap", **more: Any) -> Write:
    return Write("put", kind, "a", None, manager, change=change, **more)


def _set_owners(entries: Any) -> Any:
    def change(obj: dict[str, Any]) -> None:
        obj["metadata"]["managedFields"] = entries

    return change


def _entry(manager: str, fields: Any, operation: str = "Update", version: str = "v1") -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _add(obj: dict[str, Any]) -> None:
    obj["data"]["z"] = "1"


def _nothing(obj: dict[str, Any]) -> None:
    """Change nothing."""


def _edited_in_no_version(obj: dict[str, Any]) -> None:
    obj["metadata"]["managedFields"] = [_entry("e", {"f:data": {"f:x": {}}}, version="example.com/v7")]
    obj["data"]["y"] = "1"


def _no_owners(obj: dict[str, Any]) -> None:
    obj["metadata"].pop("managedFields", None)


_LAST_APPLIED = json.dumps(config_map(data={"x": "1", "y": "1"}))
_EVENT = {
    "metadata": {"name": "a"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "NAMESPACE"},
    "reason": "R",
    "message": "m",
    "type": "Normal",
    "count": 1,
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "source": {"component": "c"},
}
_NEW_EVENT = {
    "metadata": {"name": "a"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "c.example.com/x",
    "reportingInstance": "i",
    "action": "A",
    "reason": "R",
    "type": "Normal",
    "note": "n",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "NAMESPACE"},
}
_SLICE = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "a"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"]}],
    "ports": [{"name": "p", "port": 80}],
}

CASES: dict[str, list[Write]] = {
    "an apply without a manager": [applied(config_map(), "")],
    "an apply of another type": [
        applied({**config_map(), "kind": "Secret"}),
        applied({**config_map(), "apiVersion": "v2"}),
        applied({**config_map(), "apiVersion": "a/b/c"}),
        applied({"metadata": {"name": "a"}}),
    ],
    "an apply without a name": [
        applied({"apiVersion": "v1", "kind": "ConfigMap"}),
        applied(config_map(data={"x": "1"})),
        applied({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}),
    ],
    "an apply with another name or namespace": [
        applied(config_map("b")),
        applied(config_map(metadata={"namespace": "elsewhere"})),
    ],
    "an apply with managed fields in its body": [
        applied(config_map(metadata={"managedFields": []})),
        applied(config_map(metadata={"managedFields": [_entry("x", {})]})),
        applied(config_map(metadata={"managedFields": None})),
    ],
    "an apply with unknown fields": [
        applied(config_map(foo=1)),
        applied(service(foo={"x": 1}), kind="Service"),
        applied(deployment({"name": "c", "imag": "x"}), kind="Deployment"),
    ],
    "an apply with wrong types": [
        applied(config_map(data={"x": 1})),
        applied(config_map(data=[])),
        applied(config_map(data="x")),
        applied(config_map(immutable="x")),
        applied(service(ports="x"), kind="Service"),
        applied(service(ports=[1]), kind="Service"),
        applied(service(ports=[None]), kind="Service"),
        applied(service(ports=[{"port": "80"}]), kind="Service"),
        applied(service(ports=[{"port": 80, "name": 1}]), kind="Service"),
        applied(service(externalIPs=[1, True]), kind="Service"),
        applied(deployment(replicas="3"), kind="Deployment"),
        applied(deployment({"name": "c", "resources": {"limits": {"cpu": {}}}}), kind="Deployment"),
    ],
    "an apply that cannot be decoded": [
        applied(config_map(binaryData={"x": "?"}), words=False),
        applied(deployment({"name": "c", "resources": {"limits": {"cpu": "x"}}}), kind="Deployment"),
        applied(service(ports=[{"port": 1.5}]), kind="Service", words=False),
    ],
    "an apply with duplicate entries or entries without a key": [
        applied(service(ports=[{"port": 80}, {"port": 80, "name": "x"}]), kind="Service"),
        applied(deployment({"image": "x"}), kind="Deployment"),
        applied(service(ports=[{"name": "x"}]), kind="Service"),
        applied(config_map(metadata={"finalizers": ["x/a", "x/a"]})),
        applied(config_map(metadata={"ownerReferences": [{"name": "x"}]})),
    ],
    "an apply that is not YAML or not an object": [
        applied("a: b: c", words=False),
        applied("- 1"),
        applied('"x"'),
        applied(""),
        applied("null"),
    ],
    "an apply with duplicate keys": [
        applied(
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}',
            query=f"fieldValidation={how}",
            words=False,
        )
        for how in ("Ignore", "Warn", "Strict")
    ]
    + [
        applied(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n  x: '2'\n",
            query="fieldValidation=Strict",
        )
    ],
    "an apply in YAML": [
        applied(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n  y: |\n    two\n    lines\n"
        ),
    ],
    "a dry run creates nothing": [applied(config_map(data={"x": "1"}), query="dryRun=All"), seen()],
    "a dry run of an apply changes nothing": [
        applied(config_map(data={"x": "1"})),
        applied(config_map(data={"x": "2"}), "m2", force=True, query="dryRun=All"),
        seen(),
    ],
    "conditions of an apply": [
        applied(config_map(metadata={"uid": "u"})),
        applied(config_map(data={"x": "1"}, metadata={"resourceVersion": "1"})),
        applied(config_map(data={"x": "2"}, metadata={"resourceVersion": "1"})),
        applied(config_map(data={"x": "2"}, metadata={"uid": "u"})),
    ],
    "a subresource of a missing object": [
        applied(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}},
            kind="Deployment",
            subresource="status",
        )
    ],
    "a missing namespace": [
        applied(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
            kind="Namespace",
            query="dryRun=All",
        )
    ],
    "force is accepted only for applies": [posted(config_map()), changed("merge", {}, force=True)],
    "fields omitted by an apply are removed": [
        applied(
            config_map(data={"x": "1", "y": "1"}, metadata={"labels": {"a": "1"}, "finalizers": ["x/a"]})
        ),
        applied(config_map(data={"x": "1"})),
        applied(config_map()),
        seen(),
    ],
    "fields with another manager are kept": [
        applied(config_map(data={"x": "1", "y": "1"})),
        applied(config_map(data={"y": "1"}), "m2"),
        applied(config_map(data={"x": "1"})),
        applied(config_map(), "m2"),
        seen(),
    ],
    "conflicts report their causes": [
        applied(config_map(data={"x": "1", "y": "1", "z": "1"}, metadata={"labels": {"l": "1"}})),
        applied(config_map(data={"x": "2"}), "m2"),
        applied(config_map(data={"x": "2", "y": "2"}, metadata={"labels": {"l": "2"}}), "m2"),
        changed("merge", {"data": {"z": "3"}}, "m3"),
        applied(config_map(data={"x": "2", "z": "2"}), "m2"),
        applied(config_map(data={"x": "2", "z": "2"}), "m2", force=True),
        applied(config_map(data={"x": "1", "z": "1"})),
    ],
    "null in an apply": [
        applied(config_map(data={"x": "1"})),
        applied(config_map(data={"x": None}), "m2", force=True),
        applied(config_map(data=None, metadata={"labels": None}), "m2"),
        seen(),
    ],
    "empty values in an apply": [
        applied(config_map(data={}, metadata={"labels": {}, "finalizers": []})),
        applied(config_map(data={"x": "1"})),
        applied(config_map(data={})),
        seen(),
    ],
    "field managers of several writers": [
        posted(config_map(data={"x": "1"}), ""),
        seen(),
        put(_add, "m2"),
        put(_nothing, "m3"),
        changed("json", [{"op": "remove", "path": "/data/x"}], "m4"),
        changed("strategic", {"data": {"q": "1"}}, "m4"),
        changed("merge", {"metadata": {"annotations": {"a": "b"}}}, "m4"),
        seen(),
    ],
    "the manager defaults to the user agent": [
        posted(config_map(data={"x": "1"}), "", agent="kubectl/v1.36 (linux)"),
        changed("merge", {"data": {"y": "1"}}, "", agent="a\tb c"),
        changed("merge", {"data": {"z": "1"}}, "", agent="x" * 200 + "/1"),
    ],
    "at most ten update entries are kept separate": [
        posted(config_map(data={"x": "1"}), "m00"),
        *(changed("merge", {"data": {f"k{number}": "1"}}, f"m{number:02}") for number in range(1, 14)),
        applied(config_map(data={"x": "1"}), "z"),
        seen(),
    ],
    "managed fields are cleared and rebuilt": [
        posted(config_map(data={"x": "1"})),
        put(_set_owners([{}])),
        changed("merge", {"data": {"y": "1"}}, "m2"),
        applied(config_map(data={"x": "2"}), "m3"),
        applied(config_map(data={"x": "2"}), "m3", force=True),
        seen(),
    ],
    "managed fields are cleared by an empty list": [
        posted(config_map(data={"x": "1"})),
        changed("merge", {"metadata": {"managedFields": []}}, "m2"),
        posted(config_map("b", data={"x": "1"}), "m1"),
        changed("json", [{"op": "add", "path": "/metadata/managedFields", "value": []}], "m2"),
        put(_set_owners([])),
        seen(),
    ],
    "managed fields are edited": [
        posted(config_map(data={"x": "1", "y": "1"})),
        put(_set_owners([_entry("e", {"f:data": {".": {}, "f:x": {}}})])),
        put(
            _set_owners(
                [_entry("e", {"f:data": {"f:x": {".": {}}}}), _entry("f", {"f:data": {"f:y": {}}}, "Apply")]
            )
        ),
        changed("json", [{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "h"}], "m2"),
        put(_no_owners),
        seen(),
    ],
    "invalid managed fields are ignored": [
        posted(config_map(data={"x": "1"})),
        put(_set_owners([{**_entry("e", {}), "operation": "Other"}])),
        put(_set_owners([{**_entry("e", {}), "fieldsType": "x"}])),
        put(_set_owners([{**_entry("e", {}), "apiVersion": ""}])),
        put(_set_owners([_entry("e", {"x": {}})])),
        put(_set_owners([_entry("e", {"f:data": {"f:nothing": {}}}, version="example.com/v7")])),
        put(_set_owners([_entry("", {"f:data": {"f:nothing": {}}})])),
        posted(config_map("b", data={"x": "1"})),
        Write("put", "ConfigMap", "b", manager="m2", change=_edited_in_no_version),
        seen(),
    ],
    "managed fields in the body of a create": [
        posted(
            config_map(
                data={"x": "1"}, metadata={"managedFields": [_entry("e", {"f:data": {"f:other": {}}})]}
            )
        ),
        seen(),
    ],
    "managers of parts of an atomic field": [
        applied(_SLICE, kind="EndpointSlice"),
        put(
            _set_owners([_entry("e", {"f:endpoints": {"f:x": {}}}, version="discovery.k8s.io/v1")]),
            kind="EndpointSlice",
        ),
        changed(
            "merge", {"addressType": "IPv4", "metadata": {"labels": {"a": "b"}}}, "m2", kind="EndpointSlice"
        ),
        applied({**_SLICE, "endpoints": [{"addresses": ["10.0.0.2"]}]}, "m3", kind="EndpointSlice"),
    ],
    "kubectl adopts fields it applied client-side": [
        posted(
            config_map(data={"x": "1", "y": "1"}, metadata={"annotations": {LAST: _LAST_APPLIED}}),
            "kubectl-client-side-apply",
        ),
        applied(config_map(data={"x": "2", "y": "1"}), "kubectl"),
        seen(),
    ],
    "kubectl does not adopt fields changed by others since": [
        posted(
            config_map(data={"x": "1", "y": "1"}, metadata={"annotations": {LAST: _LAST_APPLIED}}),
            "kubectl-client-side-apply",
        ),
        changed("merge", {"data": {"x": "9"}}, "m2"),
        applied(config_map(data={"x": "2", "y": "3"}), "kubectl"),
        applied(config_map(data={"x": "2", "y": "3"}), "other"),
        applied(config_map(data={"x": "2"}, metadata={"annotations": {LAST: "x"}}), "kubectl", force=True),
        seen(),
    ],
    "the managed fields of a service": [
        posted(service(ports=[{"port": 80}], selector={"a": "b"}), kind="Service"),
        applied(service(ports=[{"port": 80, "protocol": "UDP", "name": "u"}]), "m2", kind="Service"),
        applied(
            service(
                ports=[
                    {"port": 80, "targetPort": 1, "name": "t"},
                    {"port": 80, "protocol": "UDP", "name": "u"},
                ]
            ),
            "m2",
            kind="Service",
            force=True,
        ),
        applied(service(ports=[{"port": 81, "name": "x"}], type="NodePort"), "m3", kind="Service"),
        applied(service(), "m3", kind="Service", force=True),
        applied({**service(), "status": {"loadBalancer": {}}}, "m4", kind="Service"),
        changed(
            "merge", {"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}, "m5", kind="Service"
        ),
        changed(
            "merge",
            {
                "metadata": {"labels": {"x": "y"}},
                "spec": {"selector": {"c": "d"}},
                "status": {
                    "conditions": [
                        {
                            "type": "A",
                            "status": "True",
                            "reason": "R",
                            "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                },
            },
            "m5",
            kind="Service",
            subresource="status",
        ),
        put(lambda obj: obj["spec"].pop("clusterIP"), "m6", kind="Service"),
        seen("Service"),
    ],
    "a put that creates": [changed("put", service(ports=[{"port": 80}]), kind="Service"), seen("Service")],
    "a service applied by two managers": [
        applied(service(clusterIP="None", selector={"a": "b"}), kind="Service"),
        applied(service(clusterIP="None"), "m2", kind="Service"),
        seen("Service"),
    ],
    "a deployment's containers": [
        applied(
            deployment({"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}, replicas=2),
            kind="Deployment",
        ),
        applied(deployment({"name": "d", "image": "j"}), "m2", kind="Deployment"),
        applied(
            deployment({"name": "c", "image": "i", "env": [{"name": "B", "value": "2"}]}), kind="Deployment"
        ),
        changed("merge", {"spec": {"replicas": 5}}, "scaler", kind="Deployment"),
        applied(deployment({"name": "d", "image": "k"}, replicas=1), "m2", kind="Deployment"),
        changed(
            "merge",
            {"status": {"replicas": 5}, "metadata": {"labels": {"l": "1"}}},
            "c",
            kind="Deployment",
            subresource="status",
        ),
        seen("Deployment"),
    ],
    "endpoints": [
        posted(
            {
                "metadata": {"name": "a"},
                "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}],
            },
            kind="Endpoints",
        ),
        applied(
            {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}, "subsets": []},
            "m2",
            kind="Endpoints",
        ),
        seen("Endpoints"),
    ],
    "a slice without endpoints": [
        posted({**_SLICE, "endpoints": []}, kind="EndpointSlice"),
        applied({**_SLICE, "endpoints": [], "ports": []}, "m2", kind="EndpointSlice"),
        seen("EndpointSlice"),
    ],
    "a lease": [
        changed(
            "put",
            {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}},
            kind="Lease",
        ),
        put(lambda obj: obj["spec"].update(renewTime="2026-01-01T00:00:00.000000Z"), "m2", kind="Lease"),
        seen("Lease"),
    ],
    "an event, seen in both groups": [
        posted(_EVENT, kind="Event"),
        changed("merge", {"count": 2, "message": "n"}, "m2", kind="Event"),
        seen("NewEvent"),
        changed("merge", {"metadata": {"labels": {"a": "b"}}}, "m3", kind="NewEvent"),
        changed("merge", {"note": "o"}, "m3", kind="NewEvent"),
        changed("merge", {"message": "p"}, "m4", kind="Event"),
        seen("Event"),
    ],
    "an event of the new group, changed through the old one": [
        posted(_NEW_EVENT, kind="NewEvent"),
        changed("merge", {"message": "p"}, "m2", kind="Event"),
        seen("NewEvent"),
        changed("merge", {"metadata": {"annotations": {"a": "b"}}}, "m3", kind="NewEvent"),
        applied(
            {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "labels": {"x": "y"}}},
            "m4",
            kind="Event",
        ),
        seen("Event"),
    ],
}
