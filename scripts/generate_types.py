"""Generate tinykube/src/tinykube/server/schema/types/*.types: upstream's types, one line per field.

Names, numbers, pointers and patch keys come from the Go types; list types, enums, published defaults and
required fields come from the OpenAPI v3 documents of a running kube-apiserver. The server's defaults are
functions upstream; those that depend only on the absence of a field are listed below. Descriptions are not
read: they are written by hand (types/*.about), and tinykube/tests/unit/server/schema/test_descriptions.py
lists the missing ones.

    python scripts/generate_types.py --go-modules "$(go env GOMODCACHE)/k8s.io" --openapi DIRECTORY

DIRECTORY has the response to each /openapi/v3/<path> in <path with __ for each slash>.json.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "tinykube/src/tinykube/server/schema/types"


@dataclass(frozen=True)
class Source:
    """A Go package, and the kinds in it to describe, with all types they use."""

    module: str
    folder: str
    group: str
    openapi: str
    document: str
    roots: tuple[str, ...]
    version: str = "v1"


def api(folder: str, group: str, roots: str, document: str = "", version: str = "v1") -> Source:
    """Return a package of k8s.io/api."""
    return Source(
        "api",
        f"{folder}/{version}",
        group,
        f"io.k8s.api.{folder}.{version}",
        document or f"apis__{group}__{version}",
        tuple(roots.split()),
        version,
    )


SOURCES = {
    "meta_v1": Source(
        "apimachinery",
        "pkg/apis/meta/v1",
        "meta.k8s.io",
        "io.k8s.apimachinery.pkg.apis.meta.v1",
        "api__v1",
        (
            "ObjectMeta",
            "ListMeta",
            "Status",
            "DeleteOptions",
            "CreateOptions",
            "UpdateOptions",
            "PatchOptions",
            "ListOptions",
            "GetOptions",
            "LabelSelector",
            "Condition",
            "WatchEvent",
        ),
    ),
    "core_v1": api(
        "core",
        "",
        "Namespace Pod PodTemplate Service Node Endpoints Event ConfigMap Secret ServiceAccount Binding "
        "PersistentVolumeClaim PersistentVolume LimitRange ResourceQuota ReplicationController PersistentVolumeList "
        "LimitRangeList ResourceQuotaList ReplicationControllerList NamespaceList PodList PodTemplateList ServiceList NodeList EndpointsList EventList "
        "ConfigMapList SecretList ServiceAccountList PersistentVolumeClaimList",
        "api__v1",
    ),
    "discovery_v1": api("discovery", "discovery.k8s.io", "EndpointSlice EndpointSliceList"),
    "apps_v1": api(
        "apps",
        "apps",
        "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision DeploymentList ReplicaSetList "
        "StatefulSetList DaemonSetList ControllerRevisionList",
    ),
    "coordination_v1": api("coordination", "coordination.k8s.io", "Lease LeaseList"),
    "events_v1": api("events", "events.k8s.io", "Event EventList"),
    "autoscaling_v1": api("autoscaling", "autoscaling", "Scale"),
    "policy_v1": api("policy", "policy", "Eviction PodDisruptionBudget PodDisruptionBudgetList"),
    "networking_v1": api(
        "networking",
        "networking.k8s.io",
        "ServiceCIDR IPAddress ServiceCIDRList IPAddressList Ingress IngressClass NetworkPolicy IngressList "
        "IngressClassList NetworkPolicyList",
    ),
    "autoscaling_v2": api(
        "autoscaling",
        "autoscaling",
        "HorizontalPodAutoscaler HorizontalPodAutoscalerList",
        version="v2",
    ),
    "batch_v1": api("batch", "batch", "Job CronJob JobList CronJobList"),
    "rbac_v1": api(
        "rbac",
        "rbac.authorization.k8s.io",
        "Role RoleBinding ClusterRole ClusterRoleBinding RoleList RoleBindingList ClusterRoleList "
        "ClusterRoleBindingList",
    ),
    "storage_v1": api("storage", "storage.k8s.io", "StorageClass CSIDriver StorageClassList CSIDriverList"),
    "scheduling_v1": api("scheduling", "scheduling.k8s.io", "PriorityClass PriorityClassList"),
    "node_v1": api("node", "node.k8s.io", "RuntimeClass RuntimeClassList"),
    "admissionregistration_v1": api(
        "admissionregistration",
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy "
        "ValidatingAdmissionPolicyBinding MutatingWebhookConfigurationList ValidatingWebhookConfigurationList "
        "ValidatingAdmissionPolicyList ValidatingAdmissionPolicyBindingList",
    ),
    "authentication_v1": api(
        "authentication", "authentication.k8s.io", "SelfSubjectReview TokenReview TokenRequest"
    ),
    "authorization_v1": api(
        "authorization",
        "authorization.k8s.io",
        "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview LocalSubjectAccessReview",
    ),
    "apiextensions_v1": Source(
        "apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
        "apiextensions.k8s.io",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        "apis__apiextensions.k8s.io__v1",
        ("CustomResourceDefinition", "CustomResourceDefinitionList"),
    ),
}

IMPORTS = {
    "k8s.io/api/core/v1": "core_v1",
    "k8s.io/api/authentication/v1": "authentication_v1",
    "k8s.io/apimachinery/pkg/apis/meta/v1": "meta_v1",
}

SPECIAL = {
    "meta_v1.Time": "time",
    "meta_v1.MicroTime": "microtime",
    "meta_v1.FieldsV1": "fieldsv1",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "raw",
    "types.UID": "string(types.UID)",
    "types.NodeName": "string(types.NodeName)",
    "[]byte": "bytes",
    "apiextensions_v1.JSON": "any(v1.JSON)",
    "apiextensions_v1.JSONSchemaPropsOrArray": "any(v1.JSONSchemaPropsOrArray)",
    "apiextensions_v1.JSONSchemaPropsOrBool": "any(v1.JSONSchemaPropsOrBool)",
    "apiextensions_v1.JSONSchemaPropsOrStringArray": "any(v1.JSONSchemaPropsOrStringArray)",
    "apiextensions_v1.JSONSchemaURL": "string(v1.JSONSchemaURL)",
}
BASIC = {"string", "bool", "int32", "int64", "float64"}

# Defaults that the server sets on absent fields: <type>.<field>, and the required value of a sibling if it
# depends on one.
DEFAULTS: dict[str, Any] = {
    "core_v1.PodSpec.dnsPolicy": "ClusterFirst",
    "core_v1.PodSpec.restartPolicy": "Always",
    "core_v1.PodSpec.securityContext": {},
    "core_v1.PodSpec.terminationGracePeriodSeconds": 30,
    "core_v1.PodSpec.schedulerName": "default-scheduler",
    "core_v1.Container.terminationMessagePath": "/dev/termination-log",
    "core_v1.Container.terminationMessagePolicy": "File",
    "core_v1.EphemeralContainerCommon.terminationMessagePath": "/dev/termination-log",
    "core_v1.EphemeralContainerCommon.terminationMessagePolicy": "File",
    "core_v1.Probe.timeoutSeconds": 1,
    "core_v1.Probe.periodSeconds": 10,
    "core_v1.Probe.successThreshold": 1,
    "core_v1.Probe.failureThreshold": 3,
    "core_v1.SecretVolumeSource.defaultMode": 420,
    "core_v1.ConfigMapVolumeSource.defaultMode": 420,
    "core_v1.DownwardAPIVolumeSource.defaultMode": 420,
    "core_v1.ProjectedVolumeSource.defaultMode": 420,
    "core_v1.ServiceAccountTokenProjection.expirationSeconds": 3600,
    "core_v1.HTTPGetAction.path": "/",
    "core_v1.HTTPGetAction.scheme": "HTTP",
    "core_v1.ObjectFieldSelector.apiVersion": "v1",
    "core_v1.HostPathVolumeSource.type": "",
    "core_v1.Secret.type": "Opaque",
    "core_v1.ServiceSpec.sessionAffinity": "None",
    "core_v1.ServiceSpec.type": "ClusterIP",
    "core_v1.ServicePort.protocol": "TCP",
    "core_v1.EndpointPort.protocol": "TCP",
    "core_v1.NamespaceStatus.phase": "Active",
    "core_v1.PersistentVolumeClaimStatus.phase": "Pending",
    "core_v1.PersistentVolumeClaimSpec.volumeMode": "Filesystem",
    "discovery_v1.EndpointPort.name": "",
    "discovery_v1.EndpointPort.protocol": "TCP",
    "apps_v1.DeploymentSpec.replicas": 1,
    "apps_v1.DeploymentSpec.revisionHistoryLimit": 10,
    "apps_v1.DeploymentSpec.progressDeadlineSeconds": 600,
    "apps_v1.DeploymentStrategy.type": "RollingUpdate",
    "apps_v1.DeploymentStrategy.rollingUpdate": {},
    "apps_v1.RollingUpdateDeployment.maxUnavailable": "25%",
    "apps_v1.RollingUpdateDeployment.maxSurge": "25%",
    "apps_v1.DaemonSetSpec.revisionHistoryLimit": 10,
    "apps_v1.DaemonSetUpdateStrategy.type": "RollingUpdate",
    "apps_v1.DaemonSetUpdateStrategy.rollingUpdate": {},
    "apps_v1.RollingUpdateDaemonSet.maxUnavailable": 1,
    "apps_v1.RollingUpdateDaemonSet.maxSurge": 0,
    "apps_v1.StatefulSetSpec.replicas": 1,
    "apps_v1.StatefulSetSpec.podManagementPolicy": "OrderedReady",
    "apps_v1.StatefulSetSpec.revisionHistoryLimit": 10,
    "apps_v1.StatefulSetSpec.persistentVolumeClaimRetentionPolicy": {},
    "apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
    "apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
    "apps_v1.StatefulSetUpdateStrategy.type": "RollingUpdate",
    "apps_v1.StatefulSetUpdateStrategy.rollingUpdate": {},
    "apps_v1.RollingUpdateStatefulSetStrategy.partition": 0,
    "apps_v1.ReplicaSetSpec.replicas": 1,
    "core_v1.PersistentVolumeStatus.phase": "Pending",
    "core_v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy": "Retain",
    "core_v1.PersistentVolumeSpec.volumeMode": "Filesystem",
    "core_v1.ReplicationControllerSpec.replicas": 1,
    "batch_v1.JobSpec.backoffLimit": 6,
    "batch_v1.JobSpec.completionMode": "NonIndexed",
    "batch_v1.JobSpec.suspend": False,
    "batch_v1.JobSpec.parallelism": 1,
    "batch_v1.CronJobSpec.concurrencyPolicy": "Allow",
    "batch_v1.CronJobSpec.suspend": False,
    "batch_v1.CronJobSpec.successfulJobsHistoryLimit": 3,
    "batch_v1.CronJobSpec.failedJobsHistoryLimit": 1,
    "networking_v1.NetworkPolicyPort.protocol": "TCP",
    "autoscaling_v2.HorizontalPodAutoscalerSpec.minReplicas": 1,
    "storage_v1.StorageClass.reclaimPolicy": "Delete",
    "storage_v1.StorageClass.volumeBindingMode": "Immediate",
    "scheduling_v1.PriorityClass.preemptionPolicy": "PreemptLowerPriority",
    "apiextensions_v1.CustomResourceDefinitionSpec.conversion": {"strategy": "None"},
    "apiextensions_v1.ServiceReference.port": 443,
}
WHEN = {
    "apps_v1.DeploymentStrategy.rollingUpdate": "type:RollingUpdate",
    "apps_v1.DaemonSetUpdateStrategy.rollingUpdate": "type:RollingUpdate",
    "apps_v1.StatefulSetUpdateStrategy.rollingUpdate": "type:",
}
OTHERWISE = {"core_v1.Volume": "emptyDir"}
INLINED_IN = {
    "core_v1.EphemeralContainerCommon": "EphemeralContainer",
    "admissionregistration_v1.Rule": "RuleWithOperations",
}
DEEP = {"core_v1.Pod": {"spec.enableServiceLinks": True}}


@dataclass
class GoField:
    """A JSON field of a Go struct."""

    go_type: str
    tags: dict[str, str]
    embedded: bool


@dataclass
class GoPackage:
    """The type declarations of a package's types.go."""

    imports: dict[str, str]
    structs: dict[str, list[GoField]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def module_folder(root: Path, module: str) -> Path:
    """Return the folder of a module; the newest version if there are several."""
    found = sorted(root.glob(f"{module}@v*"))
    if not found:
        sys.exit(f"generate_types: {root} has no module {module}: run go mod download")
    return found[-1]


def read_go(folder: Path) -> GoPackage:
    """Parse the type declarations of a package."""
    package = GoPackage({})
    files = [path for path in sorted(folder.glob("*.go")) if path.name.startswith(("types", "watch.go"))]
    for path in files:
        if path.name.endswith("_test.go") or "swagger" in path.name:
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for alias, target in re.findall(r'^\s+(\w*)\s*"(k8s\.io/[^"]+)"$', text, re.MULTILINE):
            package.imports[alias or target.rpartition("/")[2]] = target
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            package.structs[name] = [one for line in body.splitlines() if (one := go_field(line)) is not None]
        package.structs.update(
            {name: [] for name in re.findall(r"^type (\w+) struct *\{ *\}", text, re.MULTILINE)}
        )
        for name, target in re.findall(r"^type (\w+) =? ?((?!struct)\S+)$", text, re.MULTILINE):
            package.aliases[name] = target
    return package


def go_field(line: str) -> GoField | None:
    """Parse one line of a struct; ``None`` if it declares no JSON field."""
    match = re.match(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`(.*)`", line)
    if match is None:
        return None
    tags = dict(re.findall(r'(\w+):"([^"]*)"', match[3]))
    if tags.get("json", "-") == "-":
        return None
    return GoField(match[2], tags, match[1] is None)


class Writer:
    """Emits the lines of the description files."""

    def __init__(self, packages: dict[str, GoPackage], schemas: dict[str, dict[str, Any]]) -> None:
        self.packages = packages
        self.schemas = schemas
        self.wanted: dict[str, list[str]] = {name: [] for name in packages}
        self.used_defaults: set[str] = set()

    def want(self, package: str, name: str) -> None:
        """Request a type; repeated requests are ignored."""
        if name not in self.wanted[package]:
            self.wanted[package].append(name)
            self.describe(package, name)  # requests its field types

    def resolve(self, package: str, go_type: str) -> str:
        """Return the qualified name, ``core_v1.PodSpec``, or an undescribed type such as ``types.UID``."""
        if "." not in go_type:
            return f"{package}.{go_type}"
        alias, name = go_type.split(".")
        target = IMPORTS.get(self.packages[package].imports[alias])
        return f"{target}.{name}" if target else go_type

    def type_text(self, package: str, go_type: str, home: str) -> str:
        """Return a type in the notation of the description files."""
        if go_type in SPECIAL:
            return SPECIAL[go_type]
        if go_type.startswith("*"):
            return self.type_text(package, go_type[1:], home)
        if go_type.startswith("[]"):
            return f"[{self.type_text(package, go_type[2:], home)}]"
        if match := re.match(r"map\[[\w.]+\](.*)", go_type):
            return "{" + self.type_text(package, match[1], home) + "}"
        if go_type in BASIC:
            return go_type
        full = self.resolve(package, go_type)
        if full in SPECIAL:
            return SPECIAL[full]
        owner, name = full.split(".")
        source = self.packages[owner]
        if name in source.aliases:
            below = self.type_text(owner, source.aliases[name], home)
            return re.sub(r"\([^()]*\)$", "", below) + f"({SOURCES[owner].version}.{name})"
        if name not in source.structs:
            sys.exit(f"generate_types: {full} is not known")
        self.want(owner, name)
        return name if owner == home else full

    def describe(self, package: str, name: str) -> list[str]:
        """Return the lines of a type."""
        full = f"{package}.{name}"
        # A type that is only inlined is not published; its fields are published as those of its host.
        host = INLINED_IN.get(full, name)
        schema = self.schemas.get(f"{SOURCES[package].openapi}.{host}", {})
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        fields = self.packages[package].structs[name]
        is_kind = any(one.embedded and one.go_type.endswith("TypeMeta") for one in fields)
        head = [("kind" if is_kind else "type"), name]
        if len(kinds) > 1:
            head.append("every-group")
        if schema.get("x-kubernetes-map-type") == "atomic":
            head.append("atomic")
        if full in OTHERWISE:
            head.append(f"otherwise={OTHERWISE[full]}")
        for path, value in DEEP.get(full, {}).items():
            head.append(f"deep={path}:{json.dumps(value)}")
        for union in schema.get("x-kubernetes-unions", []):
            chosen = ",".join(f"{key}:{value}" for key, value in union["fields-to-discriminateBy"].items())
            head.append(f"union={union.get('discriminator', '')}/{chosen}")
        lines = [" ".join(head)]
        rows = [row for one in fields if (row := self.row(package, name, one, schema)) is not None]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        lines += [
            f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {' '.join(row[2:])}".rstrip() for row in rows
        ]
        return lines

    def row(self, package: str, name: str, one: GoField, schema: dict[str, Any]) -> list[str] | None:
        """Return the words that describe one field."""
        if one.embedded and one.go_type.endswith("TypeMeta"):
            return None
        number = next(
            (part for part in one.tags.get("protobuf", "").split(",") if part.isdigit()),
            "0",
        )
        text = self.type_text(package, one.go_type, package)
        json_name, *options = one.tags["json"].split(",")
        if "inline" in options:
            return ["@inline", text, number]
        if one.go_type.startswith("*"):
            text = "*" + text
        words = [json_name, text, number]
        if "omitempty" not in options:
            words.append("always")
        if "omitzero" in options:
            words.append("omitzero")
        words += self.published_facts(schema, json_name)
        full = f"{package}.{name}.{json_name}"
        prop = schema.get("properties", {}).get(json_name, {})
        words += self.default(full, prop.get("default"), "always" in words, one.go_type.startswith("*"))
        if full in WHEN:
            words.append(f"when={WHEN[full]}")
        if "patchStrategy" in one.tags:
            words.append(f"patch={one.tags['patchStrategy']}")
        if "patchMergeKey" in one.tags:
            words.append(f"key={one.tags['patchMergeKey']}")
        return words

    def default(self, full: str, published: Any, always: bool, pointer: bool) -> list[str]:
        """Return the server's default, and the published one if it differs and is always written."""
        words = []
        if full in DEFAULTS:
            self.used_defaults.add(full)
            words.append("default=" + json.dumps(DEFAULTS[full], separators=(",", ":")))
            if published == DEFAULTS[full]:
                words.append("published")
            elif published not in (None, "", 0, False, {}):
                sys.exit(f"generate_types: {full} publishes {published!r}, and gets {DEFAULTS[full]!r}")
        elif (
            published is not None
            and published != {}
            and not (always and not pointer and published in ("", 0, False))
        ):
            # A zero default of a field that is not a pointer has no effect in a server: it is only published.
            published_only = published in ("", 0, False) and not pointer
            words += (
                [f"published={json.dumps(published)}"]
                if published_only
                else [f"default={json.dumps(published)}", "published"]
            )
        return words

    @staticmethod
    def published_facts(schema: dict[str, Any], json_name: str) -> list[str]:
        """Return the properties of a field that OpenAPI publishes."""
        words = []
        prop = schema.get("properties", {}).get(json_name, {})
        if json_name in schema.get("required", ()):
            words.append("required")
        if listed := prop.get("x-kubernetes-list-type"):
            keys = ",".join(prop.get("x-kubernetes-list-map-keys", ()))
            words.append(f"list={listed}" + (f":{keys}" if keys else ""))
        if mapped := prop.get("x-kubernetes-map-type"):
            words.append(f"map={mapped}")
        # The enum may apply to the items of a list or the values of a map.
        values = (
            prop.get("enum")
            or prop.get("items", {}).get("enum")
            or prop.get("additionalProperties", {}).get("enum")
        )
        if values:
            words.append("enum=" + ",".join(values))
        return words


def main() -> None:
    """Read the sources and write one file per package."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--go-modules", type=Path, required=True)
    parser.add_argument("--openapi", type=Path, required=True)
    arguments = parser.parse_args()
    packages = {
        name: read_go(module_folder(arguments.go_modules, source.module) / source.folder)
        for name, source in SOURCES.items()
    }
    schemas: dict[str, dict[str, Any]] = {}
    for source in SOURCES.values():
        document = json.loads((arguments.openapi / f"{source.document}.json").read_text())
        schemas.update(document["components"]["schemas"])
    writer = Writer(packages, schemas)
    for name, source in SOURCES.items():
        for root in source.roots:
            writer.want(name, root)
    OUT.mkdir(exist_ok=True)
    for name, source in SOURCES.items():
        lines = [
            f"# The types of {source.group or 'core'}/{source.version}, one line per field. Generated by",
            "# scripts/generate_types.py; model.py explains the notation.",
            f"package {name} group={source.group} version={source.version} openapi={source.openapi}",
        ]
        for type_name in sorted(writer.wanted[name]):
            lines += ["", *writer.describe(name, type_name)]
        (OUT / f"{name}.types").write_text("\n".join(lines) + "\n")
    if unused := set(DEFAULTS) - writer.used_defaults:
        sys.exit(f"generate_types: no such fields: {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
