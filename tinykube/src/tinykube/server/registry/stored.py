"""Kinds that are stored and served without effect: typed, defaulted and patched as upstream, but not validated.

Real applications contain them (a Job, an Ingress, a Role), and `kubectl apply` of the whole application
should work. Nothing runs Jobs, routes Ingresses, enforces NetworkPolicies or checks roles.
"""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, forbidden_field, invalid_value
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME
from tinykube.server.registry.statuses import status_subresource

_FORBIDDEN_IN_PATHS = ("/", "%")


class _StoredStrategy(Strategy):
    """``status`` is written through its subresource, if any; any other change increments the generation."""

    def __init__(self, *, has_status: bool, any_name: bool) -> None:
        self._has_status = has_status
        self._any_name = any_name

    def validate_name(self, name: str) -> str:
        if not self._any_name:
            return super().validate_name(name)
        if name in (".", ".."):
            return f"may not be '{name}'"
        return next((f"may not contain '{part}'" for part in _FORBIDDEN_IN_PATHS if part in name), "")

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        if self._has_status:
            obj["status"] = {}
            metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        if not self._has_status:
            return
        obj["status"] = old.get("status", {})
        generation = metadata_of(old).get("generation", 0)
        metadata_of(obj)["generation"] = generation + (obj.get("spec") != old.get("spec"))

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        for name in old.keys() | obj.keys():
            if name in ("status", "metadata"):
                continue
            if name in old:
                obj[name] = old[name]
            else:
                obj.pop(name)


class _PriorityClassStrategy(_StoredStrategy):
    """The value and the preemption policy of a PriorityClass never change: pods were scheduled by them."""

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        errors = []
        if obj.get("value") != old.get("value"):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        policy = obj.get("preemptionPolicy")
        if policy != old.get("preemptionPolicy"):
            errors.append(invalid_value("preemptionPolicy", policy, "field is immutable"))
        return errors


def _stored(
    api_version: str,
    kind: str,
    plural: str,
    *short_names: str,
    namespaced: bool = True,
    has_status: bool = False,
    any_name: bool = False,
    categories: tuple[str, ...] = (),
    strategy: Strategy | None = None,
) -> Definition:
    group, _, version = api_version.rpartition("/")
    return Definition(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        namespaced=namespaced,
        short_names=short_names,
        categories=categories,
        strategy=strategy or _StoredStrategy(has_status=has_status, any_name=any_name),
        subresources=(status_subresource(kind),) if has_status else (),
        columns=(NAME, AGE),
    )


_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"

STORED_KINDS: tuple[Definition, ...] = (
    _stored("v1", "LimitRange", "limitranges", "limits"),
    _stored("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", has_status=True),
    _stored("v1", "PersistentVolume", "persistentvolumes", "pv", namespaced=False, has_status=True),
    _stored("v1", "PodTemplate", "podtemplates"),
    _stored("v1", "ReplicationController", "replicationcontrollers", "rc", has_status=True, categories=_ALL),
    _stored("v1", "ResourceQuota", "resourcequotas", "quota", has_status=True),
    _stored(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        has_status=True,
        categories=_ALL,
    ),
    _stored("batch/v1", "CronJob", "cronjobs", "cj", has_status=True, categories=_ALL),
    _stored("batch/v1", "Job", "jobs", has_status=True, categories=_ALL),
    _stored("networking.k8s.io/v1", "Ingress", "ingresses", "ing", has_status=True),
    _stored("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False),
    _stored("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol"),
    _stored("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False),
    _stored("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", has_status=True),
    _stored(_RBAC, "ClusterRole", "clusterroles", namespaced=False, any_name=True),
    _stored(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False, any_name=True),
    _stored(_RBAC, "Role", "roles", any_name=True),
    _stored(_RBAC, "RoleBinding", "rolebindings", any_name=True),
    _stored(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        "pc",
        namespaced=False,
        strategy=_PriorityClassStrategy(has_status=False, any_name=False),
    ),
    _stored("storage.k8s.io/v1", "CSIDriver", "csidrivers", namespaced=False),
    _stored("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False),
    _stored(
        _ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
        categories=_EXTENSIONS,
    ),
    _stored(
        _ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
        categories=_EXTENSIONS,
    ),
    _stored(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        namespaced=False,
        has_status=True,
        categories=_EXTENSIONS,
    ),
    _stored(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
        categories=_EXTENSIONS,
    ),
)
"""All of them, by group and kind."""
