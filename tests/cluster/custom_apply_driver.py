"""Random custom resources: schemas with every list and map type, objects that usually conform, and writes to them."""

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec

from tests.cluster.apply_driver import Write

JSON = dict[str, Any]
GROUP = "owned.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_EITHER = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_NAMES = "abcdef"
_MANAGERS = ["m1", "m2", "m3"]


class Kind(msgspec.Struct, frozen=True):
    """One custom kind: the schemas of ``spec`` and ``status`` in each version."""

    plural: str
    name: str
    specs: dict[str, JSON]
    status: JSON
    generation: int = 1

    @property
    def has_scale(self) -> bool:
        """Whether it has the ``scale`` subresource, given by the name of its replicas field."""
        return "size" in self.specs["v1"]["properties"]

    def path(self, version: str) -> str:
        """Return the collection's path in a version."""
        return f"/apis/{GROUP}/{version}/namespaces/{{ns}}/{self.plural}"

    def definition(self) -> JSON:
        """Return its CustomResourceDefinition. A printer column identifies the active one."""
        subresources: JSON = {"status": {}}
        if self.has_scale:
            subresources["scale"] = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        versions = [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": self.status}}
                },
                "subresources": subresources,
                "additionalPrinterColumns": [
                    {"name": f"G{self.generation}", "type": "string", "jsonPath": ".metadata.name"}
                ],
            }
            for name, spec in self.specs.items()
        ]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "names": {"plural": self.plural, "kind": self.name},
                "scope": "Namespaced",
                "versions": versions,
            },
        }


# ------------------------------------------------------------------------------------------------- schemas


def random_kind(rng: random.Random, plural: str, name: str) -> Kind:
    """Return a random kind with two versions whose list and map types differ."""
    spec = _object(rng, 3, width=5)
    if rng.random() < 0.5:
        bounds = rng.choice([{}, {}, {"maximum": 2}])
        spec["properties"]["size"] = {"type": "integer", **bounds}
    status: JSON = {
        "type": "object",
        "properties": {**_object(rng, 2)["properties"], "size": {"type": "integer"}},
    }
    other = reowned(rng, spec)
    if rng.random() < 0.2:
        other["properties"]["later"] = {"type": "string"}  # dropped by the stored version
    return Kind(plural, name, {"v1": spec, "v2": other}, status)


def changed_kind(rng: random.Random, kind: Kind) -> Kind:
    """Return an updated kind: other list and map types, other defaults."""
    specs = {name: reowned(rng, spec) for name, spec in kind.specs.items()}
    return msgspec.structs.replace(kind, specs=specs, generation=kind.generation + 1)


def reowned(rng: random.Random, schema: Any) -> Any:
    """Return a copy of a schema with other types for some lists and maps."""
    if isinstance(schema, list):
        return [reowned(rng, one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {name: reowned(rng, one) for name, one in schema.items()}
    kind = copy.get("type")
    if rng.random() < 0.4:
        if kind == "array":
            _retype_list(rng, copy)
        elif kind == "object":
            copy.pop(_MAP_TYPE, None)
            copy.update(_map_type(rng))
    return copy


def _retype_list(rng: random.Random, schema: JSON) -> None:
    schema.pop(_LIST_TYPE, None)
    schema.pop(_LIST_KEYS, None)
    items = schema["items"]
    if items.get("type") == "object" and "k" in items.get("properties", {}):
        schema.update(rng.choice([{}, {_LIST_TYPE: "atomic"}, {_LIST_TYPE: "map", _LIST_KEYS: ["k"]}]))
    elif items.get("type") in ("string", "integer"):
        schema.update(rng.choice([{}, {_LIST_TYPE: "atomic"}, {_LIST_TYPE: "set"}]))


def _map_type(rng: random.Random) -> JSON:
    return rng.choice([{}, {}, {_MAP_TYPE: "atomic"}, {_MAP_TYPE: "granular"}])


def _schema(rng: random.Random, depth: int) -> JSON:
    kinds: list[Callable[[random.Random, int], JSON]] = [_scalar, _scalar, _scalar]
    if depth > 0:
        kinds += [_object, _free_map, _free_map, _list, _list, _keyed, _keyed, _unknown, _embedded]
    return rng.choice(kinds)(rng, depth)


def _scalar(rng: random.Random, _depth: int) -> JSON:
    made: JSON = rng.choice(
        [
            {"type": "string"},
            {"type": "string", "format": "date-time"},
            {"type": "integer"},
            {"type": "boolean"},
            {"type": "number"},
            {_EITHER: True},
            {"type": "string", "nullable": True},
            {"type": "string", "default": "d"},
            {"type": "integer", "default": 7},
        ]
    )
    return dict(made)


def _object(rng: random.Random, depth: int, width: int = 3) -> JSON:
    names = rng.sample(_NAMES, rng.randrange(2, width + 1))
    made: JSON = {"type": "object", "properties": {name: _schema(rng, depth - 1) for name in names}}
    if width == 3:
        made.update(_map_type(rng))
        made.update(rng.choice([{}, {}, {}, {"nullable": True}, {_PRESERVE: True}]))
    return made


def _free_map(rng: random.Random, depth: int) -> JSON:
    values: list[JSON] = [{"type": "string"}, {_EITHER: True}, _schema(rng, depth - 1)]
    return {"type": "object", "additionalProperties": rng.choice(values), **_map_type(rng)}


def _list(rng: random.Random, depth: int) -> JSON:
    if rng.random() < 0.5:
        items: JSON = rng.choice([{"type": "string"}, {"type": "integer"}])
        return {"type": "array", "items": items, **rng.choice([{}, {_LIST_TYPE: "set"}, {_LIST_TYPE: "set"}])}
    return {"type": "array", "items": _schema(rng, depth - 1), **rng.choice([{}, {_LIST_TYPE: "atomic"}])}


def _keyed(rng: random.Random, depth: int) -> JSON:
    properties: JSON = {"k": {"type": "string"}, **_object(rng, depth)["properties"]}
    keys, required = ["k"], ["k"]
    if rng.random() < 0.4:
        properties["p"] = {"type": "integer", "default": 80}
        keys.append("p")
    items = {"type": "object", "properties": properties, "required": required, **_map_type(rng)}
    return {"type": "array", "items": items, _LIST_TYPE: "map", _LIST_KEYS: keys}


def _unknown(rng: random.Random, depth: int) -> JSON:
    named = {"a": _schema(rng, depth - 1)}
    made: list[JSON] = [
        {"type": "object", _PRESERVE: True},
        {_PRESERVE: True},
        {"type": "object", _PRESERVE: True, _MAP_TYPE: "atomic"},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "properties": named, _PRESERVE: True},
        {_PRESERVE: True, "properties": named},
    ]
    return rng.choice(made)


def _embedded(rng: random.Random, depth: int) -> JSON:
    inner = {"type": "object", _EMBEDDED: True}
    if rng.random() < 0.5:
        return {**inner, _PRESERVE: True}
    return {**inner, "properties": {"spec": _schema(rng, depth - 1)}}


# ------------------------------------------------------------------------------------------------- objects


def value(rng: random.Random, schema: JSON, chance: float = 0.6) -> Any:
    """Return a random value that usually conforms to a schema."""
    if rng.random() < 0.03:
        return None
    if schema.get(_EITHER):
        return rng.choice([1, 2, "1", "x"])
    kind = schema.get("type")
    if kind == "array":
        return _entries(rng, schema, chance)
    if kind == "string":
        if schema.get("format"):
            return rng.choice(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
        return rng.choice(["x", "y", ""])
    if kind == "integer":
        return rng.choice([0, 1, 2])
    if kind == "number":
        return rng.choice([1, 1.5])
    if kind == "boolean":
        return rng.choice([True, False])
    if kind is None and rng.random() < 0.5:
        return anything(rng, 2)
    return _members(rng, schema, chance)


def _members(rng: random.Random, schema: JSON, chance: float) -> JSON:
    made = {
        name: value(rng, inner, chance)
        for name, inner in schema.get("properties", {}).items()
        if rng.random() < chance
    }
    additional = schema.get("additionalProperties")
    for name in rng.sample("xyz", rng.randrange(3)):
        if isinstance(additional, dict):
            made[name] = value(rng, additional, chance)
        elif additional or schema.get(_PRESERVE) or (rng.random() < 0.01 and "properties" in schema):
            made[name] = anything(rng, 2)
    if schema.get(_EMBEDDED):
        made |= {"apiVersion": "v1", "kind": rng.choice(["Pod", "Node"]), "metadata": {"name": "e"}}
        if rng.random() < 0.5:
            made["metadata"]["labels"] = {rng.choice("ab"): rng.choice("12")}
    return made


def anything(rng: random.Random, depth: int) -> Any:
    """Return a random value of any type."""
    roll = rng.random()
    if depth == 0 or roll < 0.5:
        return rng.choice([3, 2, "x", "", True, None, 1.5])
    if roll < 0.7:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {name: anything(rng, depth - 1) for name in rng.sample("pqr", rng.randrange(3))}


def _entries(rng: random.Random, schema: JSON, chance: float) -> list[Any]:
    items = schema["items"]
    made = [value(rng, items, chance) for _ in range(rng.randrange(4))]
    if schema.get(_LIST_TYPE) == "set":
        unique: JSON = {json.dumps(one): one for one in made}
        return list(unique.values()) if rng.random() < 0.97 else made
    if "k" in items.get("properties", {}):
        made = [one or {} for one in made]
        for one in made:
            one["k"] = rng.choice("ABC")
        if rng.random() < 0.97:
            made = list({(one["k"], one.get("p", 80)): one for one in made}.values())
    return made


def document(rng: random.Random, kind: Kind, version: str, name: str, *, chance: float = 0.5) -> JSON:
    """Return a random object."""
    metadata: JSON = {"name": name}
    if rng.random() < 0.3:
        metadata["labels"] = {rng.choice("ab"): rng.choice("12")}
    if rng.random() < 0.2:
        metadata["finalizers"] = [f"x/{one}" for one in rng.sample("abc", 2)]
    made: JSON = {"apiVersion": f"{GROUP}/{version}", "kind": kind.name, "metadata": metadata}
    if rng.random() < 0.9:
        made["spec"] = _members(rng, kind.specs[version], chance)
    if rng.random() < 0.15:
        made["status"] = _members(rng, kind.status, 0.4)
    return made


# -------------------------------------------------------------------------------------------------- writes


def first_write(rng: random.Random, kind: Kind, name: str) -> Write:
    """Return the write that creates an object."""
    version, how = rng.choice(["v1", "v1", "v2"]), rng.choice(["post", "apply"])
    body = document(rng, kind, version, name)
    if how == "post" and rng.random() < 0.15:
        entry = {
            "manager": "given",
            "operation": rng.choice(["Apply", "Update"]),
            "apiVersion": rng.choice([f"{GROUP}/v1", f"{GROUP}/v2", f"{GROUP}/v9", "v1"]),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:" + rng.choice(_NAMES): {"f:" + rng.choice(_NAMES): {}}}},
        }
        body["metadata"]["managedFields"] = [entry]
    return Write(how, kind.path(version), name, body, rng.choice(_MANAGERS))


def random_write(rng: random.Random, kind: Kind, name: str) -> Write:
    """Return a random write to an object, in one of its versions."""
    version, manager = rng.choice(["v1", "v1", "v2"]), rng.choice(_MANAGERS)
    path, roll, force = kind.path(version), rng.random(), rng.random() < 0.4
    if kind.has_scale and roll < 0.12:
        return scale_write(rng, path, name, manager, force=force)
    if roll < 0.25:
        return _status_write(rng, kind, version, name, manager, force=force)
    if roll < 0.6:
        return Write("apply", path, name, document(rng, kind, version, name), manager, force)
    body = document(rng, kind, version, name, chance=0.4)
    if roll < 0.78:
        body["metadata"].pop("finalizers", None)
        if rng.random() < 0.05:
            body["metadata"]["managedFields"] = [{}]
        return Write("merge", path, name, body, manager)
    if roll < 0.92:
        fresh, dropped = _members(rng, kind.specs[version], 0.3), rng.choice(_NAMES)

        def change(obj: JSON) -> None:
            spec = obj.setdefault("spec", {})
            if dropped in spec:
                del spec[dropped]
            spec.update(fresh)

        return Write("put", path, name, None, manager, change=change)
    where = "/spec/" + rng.choice(list(kind.specs[version]["properties"]))
    operation: JSON = {"op": rng.choice(["add", "remove"]), "path": where}
    if operation["op"] == "add":
        operation["value"] = value(rng, kind.specs[version]["properties"][where.rpartition("/")[2]])
    return Write("json", path, name, [operation], manager)


def _status_write(
    rng: random.Random, kind: Kind, version: str, name: str, manager: str, *, force: bool
) -> Write:
    path = kind.path(version)
    body = document(rng, kind, version, name, chance=0.3)
    body["status"] = _members(rng, kind.status, 0.6)
    how = rng.choice(["apply", "apply", "merge", "put"])
    if how == "put":
        status, labels = body["status"], body["metadata"].get("labels")

        def change(obj: JSON) -> None:
            obj["status"] = status
            obj["metadata"].setdefault("labels", {}).update(labels or {})

        return Write("put", path, name, None, manager, subresource="status", change=change)
    return Write(how, path, name, body, manager, force and how == "apply", "status")


def scale_write(rng: random.Random, path: str, name: str, manager: str, *, force: bool) -> Write:
    """Return a random write through the ``scale`` subresource of an object."""
    replicas = rng.choice([0, 1, 2, 3])
    how = rng.choice(["merge", "merge", "put", "json", "apply", "apply", "strategic"])
    if how == "json":
        operation = {"op": "replace", "path": "/spec/replicas", "value": replicas}
        return Write(how, path, name, [operation], manager, subresource="scale", words=False)
    if how in ("merge", "strategic"):
        scaled: JSON = (
            {"spec": {"replicas": replicas}} if rng.random() < 0.9 else {"metadata": {"labels": {"a": "b"}}}
        )
        return Write(how, path, name, scaled, manager, subresource="scale")
    scale: JSON = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}}
    if rng.random() < 0.9:
        scale["spec"] = {"replicas": replicas}
    return Write(how, path, name, scale, manager, force and how == "apply", "scale")
