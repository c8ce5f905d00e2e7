"""Valid and invalid definitions and objects, sent to both servers."""

import copy
from typing import Any

from tests.cluster.kinds_driver import Case, Step, case, change, create, delete, patch, put, read

JSON = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "parity.example.com"


def version(name: str = "v1", schema: JSON | None = None, **members: Any) -> JSON:
    body: JSON = {"name": name, "served": True, "storage": name == "v1"}
    body["schema"] = {"openAPIV3Schema": schema or thing({})}
    body.update(members)
    return {key: value for key, value in body.items() if value is not None}


def thing(spec: JSON, **members: Any) -> JSON:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}, **members}


def crd(plural: str, kind: str, *versions: JSON, group: str = GROUP, **members: Any) -> JSON:
    names = {"plural": plural, "kind": kind, **members.pop("names", {})}
    spec: JSON = {
        "group": group,
        "names": names,
        "scope": "Namespaced",
        "versions": list(versions) or [version()],
        **members,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def text(**members: Any) -> JSON:
    return {"type": "string", **members}


def refused(title: str, body: JSON, query: str = "") -> Case:
    return case(title, create(CRDS, body, query))


def schema_of(title: str, spec: JSON, **members: Any) -> Case:
    """A dry-run definition with one version of this schema."""
    return case(title, Step("POST", CRDS, body=crd("tries", "Try", version(schema=thing(spec, **members)))))


def _renamed(body: JSON, name: str) -> JSON:
    body = copy.deepcopy(body)
    body["metadata"]["name"] = name
    return body


# ------------------------------------------------------------------------------------------- definitions

_BAD_SPECS: dict[str, JSON] = {
    "an unknown type": {"a": {"type": "text"}},
    "no type": {"a": {}},
    "a list without items": {"a": {"type": "array"}},
    "items without a type": {"a": {"type": "array", "items": {}}},
    "a type in allOf": {"a": {"type": "integer", "allOf": [{"type": "integer"}]}},
    "a description in anyOf": {"a": {"type": "integer", "anyOf": [{"description": "x", "minimum": 1}]}},
    "a default in oneOf": {"a": {"type": "integer", "oneOf": [{"default": 1}]}},
    "nullable in not": {"a": {"type": "integer", "not": {"nullable": True}}},
    "properties and additionalProperties": {
        "a": {"type": "object", "properties": {"b": text()}, "additionalProperties": text()}
    },
    "unique items": {"a": {"type": "array", "items": text(), "uniqueItems": True}},
    "a wrong pattern": {"a": text(pattern="(")},
    "a default of the wrong type": {"a": {"type": "integer", "default": "x"}},
    "a default beyond its maximum": {"a": {"type": "integer", "maximum": 3, "default": 5}},
    "a default with an unknown field": {
        "a": {"type": "object", "properties": {"b": text()}, "default": {"c": "d"}}
    },
    "a default outside of its enum": {"a": text(enum=["x", "y"], default="z")},
    "a map without keys": {
        "a": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": text()}},
            "x-kubernetes-list-type": "map",
        }
    },
    "a map by an optional key": {
        "a": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": text()}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
        }
    },
    "a map by an unknown key": {
        "a": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": text()}, "required": ["n"]},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["m"],
        }
    },
    "a set of objects": {
        "a": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": text()}},
            "x-kubernetes-list-type": "set",
        }
    },
    "a list type of a text": {"a": text(**{"x-kubernetes-list-type": "set"})},
    "an unknown list type": {"a": {"type": "array", "items": text(), "x-kubernetes-list-type": "heap"}},
    "a map type of a list": {"a": {"type": "array", "items": text(), "x-kubernetes-map-type": "atomic"}},
    "either type, and unknown fields": {
        "a": {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}
    },
    "unknown fields preserved: false": {
        "a": {"type": "object", "x-kubernetes-preserve-unknown-fields": False}
    },
    "an embedded text": {"a": text(**{"x-kubernetes-embedded-resource": True})},
    "an embedded resource without members": {"a": {"type": "object", "x-kubernetes-embedded-resource": True}},
    "a reference": {"a": {"type": "object", "$ref": "#/x"}},
    "pattern properties": {"a": {"type": "object", "patternProperties": {"x": text()}}},
}

DEFINITIONS: list[Case] = [
    *(schema_of(title, spec) for title, spec in _BAD_SPECS.items()),
    schema_of("validation without a type", {"a": text()}, allOf=[{"properties": {"b": {"minLength": 1}}}]),
    refused("a root that is a list", crd("tries", "Try", version(schema={"type": "array", "items": text()}))),
    refused("a root without a type", crd("tries", "Try", version(schema={"properties": {"a": text()}}))),
    refused("a nullable root", crd("tries", "Try", version(schema={"type": "object", "nullable": True}))),
    refused(
        "metadata with more than a name",
        crd(
            "tries",
            "Try",
            version(
                schema={
                    "type": "object",
                    "properties": {
                        "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}
                    },
                }
            ),
        ),
    ),
    refused("another name than its own", _renamed(crd("tries", "Try"), "other.parity.example.com")),
    refused("a group without a dot", crd("tries", "Try", group="example")),
    refused("a group of the community", crd("tries", "Try", group="x.k8s.io")),
    refused("no scope", crd("tries", "Try", scope=None)),
    refused("an unknown scope", crd("tries", "Try", scope="Galaxy")),
    refused("no schema", crd("tries", "Try", {"name": "v1", "served": True, "storage": True})),
    refused("capital letters in plural", crd("Tries", "Try")),
    refused("a kind of digits", crd("tries", "7ry")),
    refused("kind and list kind the same", crd("tries", "Try", names={"listKind": "Try"})),
    refused("a short name of dots", crd("tries", "Try", names={"shortNames": ["a.b"]})),
    refused("a wrong category", crd("tries", "Try", names={"categories": ["All"]})),
    refused("no kind", crd("tries", "")),
    refused("a version of dots", crd("tries", "Try", version("v1"), version("v1.1", thing({"a": text()})))),
    refused("an unknown conversion", crd("tries", "Try", conversion={"strategy": "Magic"})),
    refused(
        "a column of an unknown type",
        crd(
            "tries",
            "Try",
            version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}]),
        ),
    ),
    refused(
        "a column without a path",
        crd(
            "tries",
            "Try",
            version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ""}]),
        ),
    ),
    refused(
        "a column of a wrong format",
        crd(
            "tries",
            "Try",
            version(
                additionalPrinterColumns=[{"name": "A", "type": "string", "format": "big", "jsonPath": "a"}]
            ),
        ),
    ),
    refused(
        "a scale outside of spec",
        crd(
            "tries",
            "Try",
            version(subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".spec.b"}}),
        ),
    ),
    refused(
        "a scale without paths",
        crd(
            "tries",
            "Try",
            version(subresources={"scale": {"specReplicasPath": "", "statusReplicasPath": "status.x"}}),
        ),
    ),
    refused(
        "a selectable field that is not there",
        crd("tries", "Try", version(selectableFields=[{"jsonPath": ""}])),
    ),
    refused("a selectable object", crd("tries", "Try", version(selectableFields=[{"jsonPath": ".spec"}]))),
    refused(
        "a warning for a version that is not deprecated",
        crd("tries", "Try", version(deprecationWarning="soon")),
    ),
    refused("unknown fields preserved at the top", crd("tries", "Try", preserveUnknownFields=True)),
    refused("an unknown field, strictly", crd("tries", "Try", colour="red"), "?fieldValidation=Strict"),
    case(
        "an unknown field of items, strictly",
        create(
            CRDS,
            crd(
                "tries",
                "Try",
                version(schema=thing({"a": {"type": "array", "items": {"type": "string", "colour": 1}}})),
            ),
            "?fieldValidation=Strict",
        ),
        delete(CRDS, f"tries.{GROUP}"),
    ),
    refused(
        "a schema of the wrong type",
        crd("tries", "Try", version(schema=thing({"a": {"type": "integer", "minimum": "1"}}))),
    ),
    refused(
        "a text for items' minimum",
        crd(
            "tries",
            "Try",
            version(schema=thing({"a": {"type": "array", "items": {"type": "integer", "minimum": "1"}}})),
        ),
    ),
]

# ----------------------------------------------------------------------------------------------- objects

_CONDITION = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {"type": text(), "status": text(enum=["True", "False"]), "reason": text()},
}
WIDGETS = crd(
    "widgets",
    "Widget",
    version(
        schema={
            "type": "object",
            "description": "A widget.",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "description": "The desired state.",
                    "required": ["size"],
                    "properties": {
                        "size": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": 10,
                            "description": "How large it is.",
                        },
                        "replicas": {"type": "integer", "format": "int32"},
                        "colour": text(enum=["red", "green"], default="red"),
                        "name": text(minLength=2, maxLength=5, pattern="^[a-z]+$"),
                        "ratio": {
                            "type": "number",
                            "exclusiveMinimum": True,
                            "minimum": 0,
                            "multipleOf": 0.5,
                        },
                        "when": text(format="date-time"),
                        "until": text(format="date"),
                        "address": text(format="ipv4"),
                        "id": text(format="uuid"),
                        "port": {"x-kubernetes-int-or-string": True},
                        "maybe": text(nullable=True),
                        "flag": {"type": "boolean", "default": False},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "labels": {"type": "object", "additionalProperties": text(), "maxProperties": 2},
                        "tags": {
                            "type": "array",
                            "items": text(),
                            "x-kubernetes-list-type": "set",
                            "maxItems": 3,
                            "minItems": 1,
                        },
                        "ports": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                            "items": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {"name": text(), "port": {"type": "integer", "default": 80}},
                            },
                        },
                        "nested": {
                            "type": "object",
                            "properties": {
                                "a": text(default="x"),
                                "b": {"type": "object", "properties": {"c": text()}},
                            },
                        },
                        "either": {
                            "type": "object",
                            "properties": {"a": text(), "b": text()},
                            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                        },
                        "some": {"type": "integer", "anyOf": [{"maximum": 3}, {"minimum": 7}]},
                        "all": {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 7}]},
                        "no": {"type": "integer", "not": {"minimum": 3}},
                        "template": {
                            "type": "object",
                            "x-kubernetes-embedded-resource": True,
                            "x-kubernetes-preserve-unknown-fields": True,
                        },
                    },
                },
                "status": {
                    "type": "object",
                    "properties": {
                        "replicas": {"type": "integer"},
                        "selector": text(),
                        "conditions": {"type": "array", "items": _CONDITION},
                    },
                },
            },
        },
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=[
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {
                "name": "Colour",
                "type": "string",
                "jsonPath": ".spec.colour",
                "description": "The appearance.",
            },
            {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
            {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "priority": 1},
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
            {"name": "Until", "type": "date", "jsonPath": ".spec.until"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        selectableFields=[{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.size"}],
    ),
    names={"shortNames": ["wd"], "categories": ["all"]},
)

AT = f"/apis/{GROUP}/v1/namespaces/{{ns}}/widgets"


def widget(name: str = "w", **spec: Any) -> JSON:
    body: JSON = {"size": 3, **spec}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {key: value for key, value in body.items() if value != "absent"},
    }


def with_metadata(**members: Any) -> JSON:
    body = widget()
    body["metadata"].update(members)
    return body


def tried(title: str, body: Any, query: str = "") -> Case:
    return case(title, create(AT, body, query))


_WIDGETS: dict[str, JSON] = {
    "a minimal object": widget(),
    "no size": widget(size="absent"),
    "a text for a number": widget(size="3"),
    "a fraction for a whole number": widget(size=3.5),
    "a whole number written as a fraction": widget(size=3.0),
    "too small": widget(size=0),
    "too large": widget(size=11),
    "an unknown colour": widget(colour="blue"),
    "a number for a colour": widget(colour=3),
    "too short a text": {**widget(), "spec": {"size": 3, "name": "a"}},
    "too long a text": {**widget(), "spec": {"size": 3, "name": "abcdefg"}},
    "a text of the wrong form": {**widget(), "spec": {"size": 3, "name": "A1"}},
    "exactly the exclusive minimum": widget(ratio=0),
    "not a multiple": widget(ratio=0.7),
    "a multiple": widget(ratio=1.5),
    "not a date-time": widget(when="yesterday"),
    "a date-time": widget(when="2024-05-05T10:10:10Z"),
    "not a date": widget(until="2024-13-01"),
    "not an address": widget(address="1.2.3"),
    "not a uuid": widget(id="x"),
    "a number as port": widget(port=80),
    "a text as port": widget(port="http"),
    "a list as port": widget(port=[1]),
    "a permitted null": widget(maybe=None),
    "a forbidden null": widget(address=None),
    "a null for a field with a default": widget(colour=None),
    "a flag as text": widget(flag="yes"),
    "preserved unknown fields": widget(free={"a": {"b": [1, "x"]}}),
    "too many labels": widget(labels={"a": "1", "b": "2", "c": "3"}),
    "a number as label": widget(labels={"a": 1}),
    "a duplicate tag": widget(tags=["a", "b", "a"]),
    "too many tags": widget(tags=["a", "b", "c", "d"]),
    "no tags": widget(tags=[]),
    "a defaulted port": widget(ports=[{"name": "a"}]),
    "a duplicate port": widget(ports=[{"name": "a"}, {"name": "a", "port": 1}]),
    "a port without a name": widget(ports=[{"port": 1}]),
    "an invalid port": widget(ports=["a"]),
    "nested defaults": widget(nested={}),
    "nested unknown fields": widget(nested={"b": {"c": "d", "e": 1}, "f": 2}),
    "neither alternative of oneOf": widget(either={}),
    "both alternatives of oneOf": widget(either={"a": "1", "b": "2"}),
    "one alternative of oneOf": widget(either={"b": "2"}),
    "no alternative of anyOf": widget(some=5),
    "one alternative of anyOf": widget(some=7),
    "a violation of allOf": widget(all=9),
    "a violation of not": widget(no=5),
    "a template without a kind": widget(template={"metadata": {"name": "x"}}),
    "a template": widget(
        template={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "y": 1}, "spec": {"a": 1}}
    ),
    "a template of a wrong kind": widget(
        template={"apiVersion": "a/b/c", "kind": "_", "metadata": {"labels": {"-": "x"}}}
    ),
    "a label of the wrong type": with_metadata(labels={"a": 1}),
    "a wrong label": with_metadata(labels={"-": "x"}),
    "a wrong name": with_metadata(name="W"),
    "a finalizer": with_metadata(finalizers=["mine"]),
    "an unknown field of metadata": with_metadata(colour="x"),
    "a dropped status": {**widget(), "status": {"replicas": 3}},
    "an unknown member": {**widget(), "other": 1},
    "no spec": {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "w"}},
    "a spec of text": {**widget(), "spec": "x"},
    "several errors": widget(size=11, colour="blue", tags=[]),
}


def _size(value: Any) -> Any:
    def make(obj: JSON) -> None:
        obj["spec"]["size"] = value

    return make


def _status(value: JSON) -> Any:
    def make(obj: JSON) -> None:
        obj["status"] = value
        obj["spec"]["size"] = 9

    return make


def _replicas(value: Any) -> Any:
    def make(obj: JSON) -> None:
        obj.setdefault("spec", {})["replicas"] = value

    return make


def table_of(path: str) -> Step:
    return Step("GET", path, as_table=True)


OBJECTS: list[Case] = [
    *(tried(title, body) for title, body in _WIDGETS.items()),
    tried("unknown fields, strictly", widget(nested={"f": 2}, g=1), "?fieldValidation=Strict"),
    tried("unknown metadata, strictly", with_metadata(colour="x"), "?fieldValidation=Strict"),
    tried("unknown fields, with a warning", widget(nested={"f": 2}, g=1), "?fieldValidation=Warn"),
    tried("unknown fields, in silence", widget(g=1), "?fieldValidation=Ignore"),
    case(
        "its life",
        create(AT, widget(replicas=2, tags=["a"])),
        create(AT, widget()),
        read(AT, "w"),
        change(AT, "w", _size(4)),
        change(AT, "w", _size(4)),
        change(AT, "w", _size(40)),
        change(AT, "w", _status({"replicas": 1, "selector": "a=b"}), "status"),
        change(AT, "w", _status({"replicas": "x"}), "status"),
        change(AT, "w", _status({"conditions": [{"type": "Ready"}]}), "status"),
        change(AT, "w", _status({"conditions": [{"type": "Ready", "status": "True"}], "more": 1}), "status"),
        read(AT, "w"),
        table_of(AT),
        table_of(AT + "/w"),
        read(AT, "w", "scale"),
        patch(AT, "w", {"spec": {"replicas": 5}}, "scale"),
        patch(AT, "w", {"spec": {"replicas": -5}}, "scale"),
        read(AT, "w"),
        patch(AT, "w", {"spec": {"size": 5, "colour": None}}),
        patch(AT, "w", {"spec": {"size": 50}}),
        patch(AT, "w", {"spec": {"unknown": 50}}),
        patch(AT, "w", {"metadata": {"labels": {"a": "b"}}}),
        Step(
            "PATCH",
            AT,
            "w",
            body=[{"op": "replace", "path": "/spec/size", "value": 6}],
            content_type="application/json-patch+json",
        ),
        Step(
            "PATCH",
            AT,
            "w",
            body={"spec": {"size": 7}},
            content_type="application/strategic-merge-patch+json",
        ),
        put(AT, "w", widget()),
        put(AT, "none", widget("none")),
        Step("GET", AT, query="?fieldSelector=spec.colour=red"),
        Step("GET", AT, query="?fieldSelector=spec.colour=green"),
        Step("GET", AT, query="?fieldSelector=spec.size=6"),
        Step("GET", AT, query="?fieldSelector=spec.name=x"),
        Step("GET", f"/apis/{GROUP}/v1/widgets", query="?limit=1&labelSelector=none=none"),
        delete(AT, "w"),
        read(AT, "w"),
    ),
    case(
        "a scale without replicas",
        create(AT, widget()),
        patch(AT, "w", {"spec": {"replicas": 1}}, "scale"),
    ),
    case("discovery of resources", Step("GET", f"/apis/{GROUP}/v1")),
    case("discovery of the group", Step("GET", f"/apis/{GROUP}")),
]


# --------------------------------------------------------------------------------------------- lifecycles

_OLD, _NEW = thing({"a": text()}), thing({"a": text(), "b": text(default="x")})


def _both(obj: JSON) -> None:
    obj["spec"]["versions"] = [
        version("v1", _OLD, storage=False),
        version("v2", _NEW, storage=True),
        version("v1beta1", _OLD, storage=False, deprecated=True),
    ]


def _without_v1(obj: JSON) -> None:
    obj["spec"]["versions"] = [one for one in obj["spec"]["versions"] if one["name"] != "v1"]


def _with(path: str, value: Any) -> Any:
    def make(obj: JSON) -> None:
        *parents, last = path.split(".")
        holder = obj
        for name in parents:
            holder = holder[name]
        holder[last] = value

    return make


def _item(plural: str, kind: str, api: str = "v1", **spec: Any) -> JSON:
    return {"apiVersion": f"{GROUP}/{api}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def _at(plural: str, api: str = "v1") -> str:
    return f"/apis/{GROUP}/{api}/namespaces/{{ns}}/{plural}"


def approved(value: str) -> JSON:
    body = crd("screws", "Screw", group="x.k8s.io")
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": value}
    return body


LIVES: list[Case] = [
    case(
        "a version more",
        create(CRDS, crd("cogs", "Cog", version("v1", _OLD))),
        create(_at("cogs"), _item("cogs", "Cog", a="1")),
        change(CRDS, f"cogs.{GROUP}", _both),
        read(_at("cogs"), "x"),
        read(_at("cogs", "v2"), "x"),
        read(_at("cogs", "v1beta1"), "x"),
        create(_at("cogs", "v2"), _item("cogs", "Cog", "v2", a="1", c="2")),
        change(_at("cogs", "v2"), "x", _with("spec.b", "y")),
        read(_at("cogs"), "x"),
        Step("GET", f"/apis/{GROUP}"),
        change(CRDS, f"cogs.{GROUP}", _without_v1),
        delete(CRDS, f"cogs.{GROUP}"),
    ),
    case(
        "names that are taken",
        create(CRDS, crd("gears", "Gear", names={"shortNames": ["gr"]})),
        create(CRDS, crd("gadgets", "Gear", names={"singular": "gadget", "shortNames": ["gr"]})),
        Step("GET", _at("gadgets"), code_only=True),
        delete(CRDS, f"gears.{GROUP}"),
        delete(CRDS, f"gadgets.{GROUP}"),
    ),
    case(
        "what must not change",
        create(CRDS, crd("nuts", "Nut")),
        change(CRDS, f"nuts.{GROUP}", _with("spec.scope", "Cluster")),
        change(CRDS, f"nuts.{GROUP}", _with("spec.names.kind", "Nuts")),
        change(CRDS, f"nuts.{GROUP}", _with("spec.group", "other.example.com")),
        change(CRDS, f"nuts.{GROUP}", _with("metadata.labels", {"a": "b"})),
        change(CRDS, f"nuts.{GROUP}", _with("spec.names.shortNames", ["nt"])),
        put(CRDS, f"nuts.{GROUP}", crd("nuts", "Nut")),
        create(CRDS, crd("nuts", "Nut")),
        delete(CRDS, f"nuts.{GROUP}"),
    ),
    case(
        "a rule that came later",
        create(CRDS, crd("bolts", "Bolt", version(schema=thing({"a": text(), "b": text()})))),
        create(_at("bolts"), _item("bolts", "Bolt", a="long", b="x")),
        change(
            CRDS,
            f"bolts.{GROUP}",
            lambda obj: obj["spec"].update(
                versions=[version(schema=thing({"a": text(maxLength=2), "b": text()}))]
            ),
        ),
        change(_at("bolts"), "x", _with("spec.b", "y")),
        change(_at("bolts"), "x", _with("spec.a", "longer")),
        change(_at("bolts"), "x", _with("spec.a", "ok")),
        delete(CRDS, f"bolts.{GROUP}"),
    ),
    case(
        "a group of the community",
        create(CRDS, approved("unapproved, only tried")),
        delete(CRDS, "screws.x.k8s.io"),
        create(CRDS, approved("https://example.com/1")),
        delete(CRDS, "screws.x.k8s.io"),
        create(CRDS, approved("yes")),
    ),
    case(
        "a cluster's own",
        create(CRDS, crd("nails", "Nail", scope="Cluster")),
        create(f"/apis/{GROUP}/v1/nails", _item("nails", "Nail")),
        read(f"/apis/{GROUP}/v1/nails", "x"),
        Step("GET", f"/apis/{GROUP}/v1/namespaces/{{ns}}/nails", code_only=True),
        delete(CRDS, f"nails.{GROUP}"),
    ),
]
