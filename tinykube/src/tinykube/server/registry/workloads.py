"""What Deployments, ReplicaSets, StatefulSets and DaemonSets have in common."""

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
    """Check that the pods of a template are meant to run on: what ends would be made anew for ever."""
    errors: list[FieldError] = []
    policy = get_str(spec, "restartPolicy")
    if policy != "Always":
        errors.append(not_supported(f"{field}.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden_field(f"{field}.activeDeadlineSeconds", detail))
    return errors


def immutable_selector(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Check that the selector has stayed."""
    selector, before = get_object(obj, "spec").get("selector"), get_object(old, "spec").get("selector")
    return validation.immutable("spec.selector", selector, before, shown(selector))


class WorkloadStrategy(Strategy):
    """Generation 1 at first, one more with each change of the spec; the status has its own subresource."""

    empty_status: ClassVar[JsonObject] = {}
    """What a status says before any controller has: the counts that are always there."""

    def default(self, obj: JsonObject) -> None:
        """Fill in the template and the status; the kinds add their own."""
        default_template(ensure_object(ensure_object(obj, "spec"), "template"))
        status = ensure_object(obj, "status")
        for name, value in self.empty_status.items():
            status.setdefault(name, value)

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        """Reset the status; begin to count."""
        obj["status"] = dict(self.empty_status)
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Keep the status; count a change."""
        obj["status"] = old["status"]
        generation = get_int(metadata_of(old), "generation")
        metadata_of(obj)["generation"] = generation + self.counts(obj, old)

    def counts(self, obj: JsonObject, old: JsonObject) -> bool:
        """Tell whether a step is one of the generation's."""
        return bool(obj["spec"] != old["spec"])

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Keep all but the status."""
        keep_only_status(obj, old)
        for name, value in self.empty_status.items():
            obj["status"].setdefault(name, value)

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        """Warn of what is doubtful in the template."""
        spec = get_object(get_object(get_object(obj, "spec"), "template"), "spec")
        return pod_warnings("spec.template.spec", spec)
