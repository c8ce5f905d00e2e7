"""Leases: positive durations and non-negative counts."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, invalid_value
from tinykube.server.json_access import ensure_object, get_object, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME, column


class _LeaseStrategy(Strategy):
    """Coordinated leader election, which uses ``strategy``, is disabled, as by default on kube-apiserver."""

    def default(self, obj: JsonObject) -> None:
        ensure_object(obj, "spec")

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        for name in ("strategy", "preferredHolder"):
            obj["spec"].pop(name, None)

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        self.prepare_for_create(request, obj)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec = get_object(obj, "spec")
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        errors = []
        if duration is not None and duration <= 0:
            errors.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            errors.append(
                invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
            )
        return errors


LEASES = Definition(
    group="coordination.k8s.io",
    version="v1",
    plural="leases",
    kind="Lease",
    singular="lease",
    namespaced=True,
    strategy=_LeaseStrategy(),
    columns=(NAME, column("Holder", lambda obj: get_str(get_object(obj, "spec"), "holderIdentity")), AGE),
    creates_on_update=True,
    allows_unconditional_update=False,
)
