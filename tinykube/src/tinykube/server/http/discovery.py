"""API discovery: the aggregated format of current clients, and the legacy documents."""

import base64
import hashlib
from collections.abc import Iterable

import msgspec

from tinykube.server.http.codec import encode_json
from tinykube.server.http.negotiation import parse_accept
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Registry

_GROUP = "apidiscovery.k8s.io"
_KIND = "APIGroupDiscoveryList"
_VERSIONS = frozenset({"v2", "v2beta1"})


class Discovered(msgspec.Struct, frozen=True):
    """One discovery response. Clients parse it according to its content type, and cache it by its ETag."""

    body: bytes
    content_type: str
    etag: str


class Discovery:
    """Discovery documents, derived from the registry and cached until it changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._kept: dict[tuple[str, str], Discovered] = {}

    def roots(self, segments: list[str], accept: str) -> Discovered | None:
        """Return the response for ``/api``, ``/apis`` and the paths below them; ``None`` for unknown paths."""
        if self._revision != self._registry.revision:
            self._kept.clear()
            self._revision = self._registry.revision
        path = "/".join(segments)
        aggregated = _aggregated_version(accept) if len(segments) == 1 else ""
        found = self._kept.get((path, aggregated))
        if found is None:
            found = self._aggregated(path, aggregated) if aggregated else self._legacy(segments)
            if found is not None:
                self._kept[path, aggregated] = found
        return found

    def _aggregated(self, root: str, version: str) -> Discovered:
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": one,
                        "resources": [
                            _aggregated_resource(definition) for definition in self._of(group, one)
                        ],
                        "freshness": "Current",
                    }
                    for one in versions
                ],
            }
            for group, versions in self._registry.versions().items()
            if bool(group) is (root == "apis")
        ]
        document = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "metadata": {}, "items": items}
        return _discovered(document, f"application/json;g={_GROUP};v={version};as={_KIND}")

    def _of(self, group: str, version: str) -> Iterable[Definition]:
        return sorted(
            (one for one in self._registry.all() if (one.group, one.version) == (group, version)),
            key=lambda definition: definition.plural,
        )

    def _legacy(self, segments: list[str]) -> Discovered | None:
        versions = self._registry.versions()
        document: JsonObject | None = None
        match segments:
            case ["api"]:
                document = {
                    "kind": "APIVersions",
                    "versions": list(versions.get("", ())),
                    "serverAddressByClientCIDRs": [],
                }
            case ["apis"]:
                groups = [_group(group, found) for group, found in versions.items() if group]
                document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in versions:
                document = {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions[group])}
            case ["api", version] if version in versions.get("", ()):
                document = self._resources("", version)
            case ["apis", group, version] if version in versions.get(group, ()):
                document = self._resources(group, version)
        return None if document is None else _discovered(document, "application/json")

    def _resources(self, group: str, version: str) -> JsonObject:
        resources: list[JsonObject] = []
        for definition in self._of(group, version):
            resources.append(_legacy_resource(definition))
            resources += [_legacy_subresource(definition, one.name) for one in definition.subresources]
        document: JsonObject = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"  # kube-apiserver omits it in the core list, too
        document["groupVersion"] = f"{group}/{version}" if group else version
        document["resources"] = resources
        return document


def _aggregated_version(accept: str) -> str:
    """Return the accepted version of the aggregated format, or ``""`` for the legacy format."""
    for clause in parse_accept(accept):
        parameters = clause.parameters
        if (
            parameters.get("as") == _KIND
            and parameters.get("g") == _GROUP
            and parameters.get("v") in _VERSIONS
        ):
            return parameters["v"]
        if "as" not in parameters and clause.media in ("application/json", "*/*", "application/*"):
            return ""
    return ""


def _discovered(document: JsonObject, content_type: str) -> Discovered:
    body = encode_json(document)
    return Discovered(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"')


def _scope(definition: Definition) -> str:
    return "Namespaced" if definition.namespaced else "Cluster"


def _kind_of(definition: Definition, group: str, version: str, kind: str) -> JsonObject:
    """Return a kind; group and version are empty if they equal those of the enclosing entry."""
    own = (group, version) in (("", ""), (definition.group, definition.version))
    return {"group": "" if own else group, "version": "" if own else version, "kind": kind}


def _aggregated_resource(definition: Definition) -> JsonObject:
    resource: JsonObject = {
        "resource": definition.plural,
        "responseKind": _kind_of(definition, "", "", definition.kind),
        "scope": _scope(definition),
        "singularResource": definition.singular,
        "verbs": list(definition.verbs),
    }
    if definition.short_names:
        resource["shortNames"] = list(definition.short_names)
    if definition.categories:
        resource["categories"] = list(definition.categories)
    if definition.subresources:
        resource["subresources"] = [
            {
                "subresource": one.name,
                "responseKind": _kind_of(definition, one.group, one.version, one.kind),
                "verbs": list(one.verbs),
            }
            for one in definition.subresources
        ]
    return resource


def _legacy_resource(definition: Definition) -> JsonObject:
    resource: JsonObject = {
        "name": definition.plural,
        "singularName": definition.singular,
        "namespaced": definition.namespaced,
        "kind": definition.kind,
        "verbs": list(definition.verbs),
    }
    if definition.short_names:
        resource["shortNames"] = list(definition.short_names)
    if definition.categories:
        resource["categories"] = list(definition.categories)
    stored = f"{definition.group}/{definition.version}/{definition.kind}"
    digest = hashlib.sha256(stored.encode()).digest()[:8]
    resource["storageVersionHash"] = base64.b64encode(digest).decode()
    return resource


def _legacy_subresource(definition: Definition, name: str) -> JsonObject:
    one = next(sub for sub in definition.subresources if sub.name == name)
    resource: JsonObject = {
        "name": f"{definition.plural}/{name}",
        "singularName": "",
        "namespaced": definition.namespaced,
    }
    kind = _kind_of(definition, one.group, one.version, one.kind)
    if kind["version"]:
        resource["group"], resource["version"] = kind["group"], kind["version"]
    resource["kind"] = one.kind
    resource["verbs"] = list(one.verbs)
    return resource


def _group(name: str, versions: Iterable[str]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}
