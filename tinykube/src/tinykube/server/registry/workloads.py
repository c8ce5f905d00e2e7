"""Code shared by Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from collections.abc import Sequence
from typing import ClassVar

from tinykube.server.errors import FieldError, forbidden_field, not_supported
from tinykube.server.json_access import ensure_object, get_int, get_object, get_str, keep_only_status
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Request, Strategy
from tinykube.server.registry.pod_defaults import default_template
from tinykube.server.registry.pod_warnings import pod_warnings
from tinykube.server.registry.selector_validation import shown


def lasting_pod_errors(field: str, spec: JsonObject, kind: str) -> list[FieldError]:
    """Return errors for templates whose pods terminate: they would be recreated endlessly."""
    errors: list[FieldError] = []
    policy = get_str(spec, "restartPolicy")
    if policy != "Always":
        errors.append(not_supported(f"{field}.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden_field(f"{field}.activeDeadlineSeconds", detail))
    return errors


def immutable_selector(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return an error if the selector has changed."""
    selector, before = get_object(obj, "spec").get("selector"), get_object(old, "spec").get("selector")
    return validation.immutable("spec.selector", selector, before, shown(selector))


class WorkloadStrategy(Strategy):
    """The generation starts at 1 and increases with each change of the spec; the status has its own subresource."""

    empty_status: ClassVar[JsonObject] = {}
    """The initial status: the counts that are always present."""

    def default(self, obj: JsonObject) -> None:
        """Set the defaults of the template and status; subclasses add their own."""
        default_template(ensure_object(ensure_object(obj, "spec"), "template"))
        status = ensure_object(obj, "status")
        for name, value in self.empty_status.items():
            status.setdefault(name, value)

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        """Reset the status; start the generation."""
        obj["status"] = dict(self.empty_status)
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Keep the status; increment the generation if the spec changed."""
        obj["status"] = old["status"]
        generation = get_int(metadata_of(old), "generation")
        metadata_of(obj)["generation"] = generation + self.counts(obj, old)

    def counts(self, obj: JsonObject, old: JsonObject) -> bool:
        """Return whether an update increments the generation."""
        return bool(obj["spec"] != old["spec"])

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Restore everything except the status."""
        keep_only_status(obj, old)
        for name, value in self.empty_status.items():
            obj["status"].setdefault(name, value)

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        """Return warnings about the template."""
        spec = get_object(get_object(get_object(obj, "spec"), "template"), "spec")
        return pod_warnings("spec.template.spec", spec)
