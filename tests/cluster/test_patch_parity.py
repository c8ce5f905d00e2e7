"""Random patches of the three types give the same result, or an error, here and on a real kube-apiserver.

The real server applies them as dry runs. Errors of a kind's validation are unrelated to patches and skipped; the test
checks at the end that enough cases remain.
"""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.schema_support import Wire, wire_to
from tinykube.server.errors import StatusError
from tinykube.server.patch.service import TypedPatches
from tinykube.server.schema.service import TypeSchema
from tinykube.testing.control_plane import ControlPlane

NAMESPACE = "patch-parity"
SEED = 20261121
TRIALS = 150
CONTENT_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

CORE = f"/api/v1/namespaces/{NAMESPACE}"
NAMES = ("a", "b", "c", "d")

Make = Callable[[random.Random], Any]


@pytest.fixture(scope="module")
def wire(control_plane: ControlPlane) -> Iterator[Wire]:
    with wire_to(control_plane) as connected:
        connected.made("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield connected


def container(rng: random.Random, name: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name or rng.choice(NAMES), "image": f"i/{rng.choice(NAMES)}:1"}
    if rng.random() < 0.5:
        made["env"] = [{"name": rng.choice("XYZ"), "value": rng.choice(["1", "2"])}]
    if rng.random() < 0.3:
        made["ports"] = [{"containerPort": rng.choice([80, 81, 82])}]
    if rng.random() < 0.3:
        made["resources"] = {"limits": {"cpu": rng.choice(["0.5", "1000m", 2])}}
    if rng.random() < 0.2:
        made["livenessProbe"] = {"httpGet": {"port": 80}}
    if rng.random() < 0.2:
        made["args"] = rng.sample(NAMES, 2)
    return made


def volume(rng: random.Random) -> dict[str, Any]:
    sources: list[dict[str, Any]] = [
        {"emptyDir": {}},
        {"configMap": {"name": "x"}},
        {"secret": {"secretName": "s"}},
    ]
    return {"name": rng.choice(NAMES), **rng.choice(sources)}


def port(rng: random.Random) -> dict[str, Any]:
    number = rng.choice([80, 81, 82, 83])
    return {"port": number, "name": f"p{number}", "targetPort": rng.choice([number, 8080, "http"])}


def owner(rng: random.Random) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": rng.choice(NAMES), "uid": f"u{rng.choice('123')}"}


def some(make: Make, at_most: int = 3) -> Make:
    return lambda rng: [make(rng) for _ in range(rng.randrange(at_most + 1))]


def one_of(*values: Any) -> Make:
    return lambda rng: copy.deepcopy(rng.choice(values))


def text_map(rng: random.Random) -> dict[str, Any]:
    return {rng.choice(NAMES): rng.choice(["1", "2", "", None, None, 5]) for _ in range(rng.randrange(1, 4))}


FINALIZERS = some(one_of("x/a", "x/b", "x/c"))
METADATA: dict[str, Make] = {
    "labels": text_map,
    "annotations": text_map,
    "finalizers": FINALIZERS,
    "ownerReferences": some(owner, 2),
}
TEMPLATE: dict[str, Make] = {
    "containers": some(container),
    "initContainers": some(container, 2),
    "volumes": some(volume),
    "nodeSelector": text_map,
    "terminationGracePeriodSeconds": one_of(0, 5, None, "5"),
    "hostAliases": some(lambda rng: {"ip": f"10.0.0.{rng.choice('12')}", "hostnames": ["h"]}),
    "imagePullSecrets": some(lambda rng: {"name": rng.choice(NAMES)}),
    "tolerations": some(lambda rng: {"key": rng.choice(NAMES), "operator": "Exists"}),
    "hostNetwork": one_of(False, None),
    "unknown": one_of(1),
}
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "port",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
}


def fields(makers: dict[str, Make], rng: random.Random) -> dict[str, Any]:
    chosen = rng.sample(sorted(makers), rng.randrange(1, min(3, len(makers)) + 1))
    return {name: None if rng.random() < 0.1 else makers[name](rng) for name in chosen}


def directed(patch: dict[str, Any], rng: random.Random, *, keyed: bool) -> None:
    """Add directives to a strategic merge patch at random; ``keyed`` if lists have merge keys.

    (An order directive for a list of objects without a key makes the real server drop the connection.)
    """
    for name, value in list(patch.items()):
        if isinstance(value, list) and value:
            key = MERGE_KEYS.get(name) if keyed or name == "ownerReferences" else None
            roll = rng.random()
            if key and roll < 0.2 and isinstance(value[0], dict) and key in value[0]:
                value[0] = {
                    key: value[0][key],
                    "$patch": rng.choice(["delete", "delete", "replace", "merge"]),
                }
            elif roll < 0.4 and (key or name == "finalizers"):
                order = [{key: one[key]} if key else one for one in value if not key or key in one]
                if rng.random() < 0.2:
                    rng.shuffle(order)
                patch[f"$setElementOrder/{name}"] = order
            elif roll < 0.6 and name == "finalizers":
                patch[f"$deleteFromPrimitiveList/{name}"] = patch.pop(name)
        elif isinstance(value, dict):
            if rng.random() < 0.1:
                value["$patch"] = rng.choice(["replace", "delete", "odd"])
            if rng.random() < 0.1:
                value["$retainKeys"] = [one for one in value if not one.startswith("$")]
            directed(value, rng, keyed=keyed)


class Subject:
    """A patched object, and the values that its patches are made of."""

    def __init__(self, path: str, group: str, kind: str, body: dict[str, Any], spec: dict[str, Any]) -> None:
        self.path, self.group, self.kind, self.body, self.spec = path, group, kind, body, spec

    def merge_patch(self, rng: random.Random) -> Any:
        if rng.random() < 0.03:
            return rng.choice([[], 5, "x", None])
        patch: dict[str, Any] = {"metadata": fields(METADATA, rng)} if rng.random() < 0.5 else {}
        for path, makers in self.spec.items():
            if rng.random() < 0.7:
                made = fields(makers, rng)
                for step in reversed(path.split(".")) if path else ():
                    made = {step: made}
                patch.update(made)
        return patch

    def json_patch(self, document: dict[str, Any], rng: random.Random) -> Any:
        if rng.random() < 0.03:
            return rng.choice([{}, 5, [5], [{"op": 5}], None])
        return [self._operation(document, rng) for _ in range(rng.randrange(1, 4))]

    def _operation(self, document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        kind = rng.choice(
            ["add", "remove", "replace", "test", "copy", "move", "odd"][: rng.choice([3, 6, 7])]
        )
        path, found = self._pointer(document, rng)
        operation: dict[str, Any] = {"op": kind, "path": path}
        if kind in ("copy", "move"):
            operation["from"] = self._pointer(document, rng)[0]
        elif kind == "test":
            operation["value"] = found if rng.random() < 0.8 else "other"
        elif kind != "remove" and rng.random() < 0.95:
            operation["value"] = self._value(found, rng)
        return operation

    @staticmethod
    def _value(found: Any, rng: random.Random) -> Any:
        if isinstance(found, str) and rng.random() < 0.7:
            return rng.choice(NAMES)
        return rng.choice([found, "v", 5, None, {"a": "1"}, ["x/a"], True])

    def _pointer(self, document: dict[str, Any], rng: random.Random) -> tuple[str, Any]:
        tops = ["metadata", *sorted({path.split(".")[0] for path in self.spec if path})]
        tops += ["data"] if "data" in document else []
        at: Any = {top: document.get(top) for top in tops}
        steps: list[str] = []
        while isinstance(at, dict | list) and at and (not steps or rng.random() < 0.8):
            if rng.random() < 0.08:
                steps.append(rng.choice(["new", "-", "0", "-1", "99", "01", "x~1y"]))
                return "/" + "/".join(steps), None
            if isinstance(at, dict):
                names = [name for name in at if name not in PROTECTED]
                if not names:
                    break
                step = rng.choice(names)
                at = at[step]
                steps.append(step.replace("~", "~0").replace("/", "~1"))
            else:
                index = rng.randrange(len(at))
                at = at[index]
                steps.append(str(index))
        return "/" + "/".join(steps), at


# Fields owned by the server follow other rules.
PROTECTED = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selector",
    "clusterIP",
    "clusterIPs",
    "type",
    "ipFamilies",
    "ipFamilyPolicy",
    "sessionAffinity",
    "internalTrafficPolicy",
    "imagePullPolicy",
    "priority",
    "preemptionPolicy",
}

_TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "i/a:1",
                "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
            },
            {"name": "b", "image": "i/b:1", "ports": [{"containerPort": 80, "name": "http"}]},
            {"name": "c", "image": "i/c:1"},
        ],
        "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}],
    },
}
_METADATA = {
    "labels": {"a": "1", "app": "x"},
    "annotations": {"b": "2", "x/y": "3"},
    "finalizers": ["x/a", "x/b"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u1"}],
}
SUBJECTS = [
    Subject(f"{CORE}/configmaps", "", "ConfigMap", {"data": {"a": "1", "b": "2"}}, {"": {"data": text_map}}),
    Subject(
        f"{CORE}/services",
        "",
        "Service",
        {
            "spec": {
                "selector": {"a": "1"},
                "ports": [{"port": 80, "name": "p80"}, {"port": 81, "name": "p81"}],
            }
        },
        {"spec": {"ports": some(port), "selector": text_map, "externalIPs": FINALIZERS}},
    ),
    Subject(
        f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
        "apps",
        "Deployment",
        {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE}},
        {
            "spec.template.spec": TEMPLATE,
            "spec": {
                "replicas": one_of(0, 3, None, "3"),
                "strategy": one_of(
                    {"type": "Recreate"},
                    {"type": "Recreate", "rollingUpdate": None},
                    {"$retainKeys": ["type"], "type": "Recreate"},
                    {"rollingUpdate": {"maxSurge": "10%"}},
                ),
            },
        },
    ),
    Subject(
        f"{CORE}/pods",
        "",
        "Pod",
        {"spec": copy.deepcopy(_TEMPLATE["spec"])},
        {"spec": {"tolerations": TEMPLATE["tolerations"], "activeDeadlineSeconds": one_of(5, None, "5")}},
    ),
    Subject(
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
        "discovery.k8s.io",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
        {
            "": {
                "endpoints": some(lambda rng: {"addresses": [f"10.0.0.{rng.choice('123')}"]}),
                "ports": some(lambda rng: {"port": rng.choice([80, 81]), "name": rng.choice(NAMES)}),
            }
        },
    ),
]


def ours(
    subject: Subject, patch_type: Any, document: dict[str, Any], patch: Any
) -> tuple[dict[str, Any] | None, str]:
    """Return our result of a patch, applied, conformed and defaulted; or the error."""
    schema = TypeSchema()
    try:
        patched = TypedPatches().apply(patch_type, subject.group, "v1", subject.kind, document, patch)
        schema.conform(subject.group, "v1", subject.kind, patched)
    except StatusError as error:
        return None, error.message
    schema.apply_defaults(subject.group, "v1", subject.kind, patched)
    return patched, ""


def compared(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the parts that other rules than patching determine."""
    document = copy.deepcopy(document)
    for name in ("managedFields", "resourceVersion", "generation"):
        document["metadata"].pop(name, None)
    document.pop("status", None)
    owners: list[Any] = []
    for one in document["metadata"].get("ownerReferences") or ():
        if one not in owners:  # the server removes duplicates
            owners.append(one)
    document["metadata"]["ownerReferences"] = owners
    spec = document.get("spec", {})
    for name in PROTECTED:
        spec.pop(name, None)  # defaulted again when removed
    for service_port in spec.get("ports") or ():
        if not service_port.get("targetPort"):
            service_port["targetPort"] = service_port.get("port")
    pod = spec.get("template", {}).get("spec", spec)
    # Admission gives each pod two tolerations.
    tolerations = pod.get("tolerations") or ()
    pod["tolerations"] = [one for one in tolerations if "node.kubernetes.io/" not in one["key"]]
    for one in (pod.get("containers") or []) + (pod.get("initContainers") or []):
        one.pop("imagePullPolicy", None)
    return document


def is_of_other_rules(code: int, answer: dict[str, Any]) -> bool:
    """Return whether an error comes from validation, names or versions rather than from patching."""
    if code in (403, 409):
        return True
    message = answer.get("message", "")
    if code == 400:
        return "on the URL" in message or "based on URL" in message or "namespace" in message
    causes = (answer.get("details") or {}).get("causes") or ()
    return code == 422 and bool(causes) and all(cause["field"] != "patch" for cause in causes)


@pytest.mark.parametrize("patch_type", ["json", "merge", "strategic"])
@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.kind for subject in SUBJECTS])
def test_a_patch_has_the_same_outcome_as_on_a_real_server(
    wire: Wire, subject: Subject, patch_type: str
) -> None:
    rng = random.Random(f"{SEED}/{subject.kind}/{patch_type}")
    name = f"patch-{patch_type}"
    wire.made(subject.path, {"metadata": {"name": name, **_METADATA}, **subject.body})
    _, document = wire.json("GET", f"{subject.path}/{name}")
    outcomes = {"same": 0, "refused": 0, "other rules": 0}
    for trial in range(TRIALS):
        if patch_type == "json":
            patch = subject.json_patch(document, rng)
        else:
            patch = subject.merge_patch(rng)
            if patch_type == "strategic" and isinstance(patch, dict):
                directed(patch, rng, keyed=subject.kind != "EndpointSlice")
        told = f"trial {trial} of seed {SEED}: {json.dumps(patch)}"
        code, answer = wire.json(
            "PATCH",
            f"{subject.path}/{name}?dryRun=All&fieldValidation=Warn",
            json.dumps(patch).encode(),
            content_type=CONTENT_TYPES[patch_type],
        )
        if code != 200 and is_of_other_rules(code, answer):
            outcomes["other rules"] += 1
            continue
        result, refusal = ours(subject, patch_type, document, patch)
        if result is None:
            assert code != 200, f"{told}\nrefused here alone: {refusal}"
            outcomes["refused"] += 1
        else:
            assert code == 200, f"{told}\nrefused there alone: {answer}"
            assert compared(result) == compared(answer), told
            outcomes["same"] += 1
    assert outcomes["same"] >= TRIALS // 6, outcomes
    _, patched = wire.json(
        "PATCH",
        f"{subject.path}/{name}",
        {"metadata": {"finalizers": None}},
        content_type=CONTENT_TYPES["merge"],
    )
    assert patched["metadata"]["name"] == name
    wire.json("DELETE", f"{subject.path}/{name}?gracePeriodSeconds=0")
