"""Validation of container resources."""

from decimal import Decimal

from aiokube.api.quantity import parse_quantity
from tinykube.server.errors import FieldError, forbidden_field, invalid_value, required
from tinykube.server.json_access import get_object
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation

_HUGE = "hugepages-"
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    (
        *_OF_CONTAINERS,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS),
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *(
            "persistentvolumeclaims",
            "storage",
            "requests.storage",
            "services.nodeports",
            "services.loadbalancers",
        ),
    )
)


def _value(quantity: object) -> Decimal:
    """Return the value of a quantity; 0 if it is invalid."""
    try:
        return parse_quantity(str(quantity))
    except ValueError:
        return Decimal(0)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _may_be_overcommitted(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE)


def _name_errors(field: str, name: str) -> list[FieldError]:
    errors = validation.qualified_name(field, name)
    if "/" in name:
        if not errors and not _is_native(name) and name.startswith("requests."):
            detail = "doesn't follow extended resource name standard"
            return [invalid_value(field, name, detail)]
        return errors
    if not errors and name not in _STANDARD and not name.startswith(_HUGE):
        errors.append(invalid_value(field, name, "must be a standard resource type or fully qualified"))
    if name not in _OF_CONTAINERS and not name.startswith(_HUGE):
        errors.append(invalid_value(field, name, "must be a standard resource for containers"))
    return errors


def quantity_errors(field: str, name: str, quantity: object) -> list[FieldError]:
    """Return the errors of a quantity: not negative, and integral for extended resources."""
    errors: list[FieldError] = []
    value = _value(quantity)
    if value < 0:
        errors.append(invalid_value(field, quantity, "must be greater than or equal to 0"))
    if not _is_native(name) and value != value.to_integral_value():
        errors.append(invalid_value(field, quantity, "must be an integer"))
    return errors


def resource_errors(field: str, resources: JsonObject) -> list[FieldError]:
    """Return the errors of requests and limits, including requests above their limit."""
    limits, requests = get_object(resources, "limits"), get_object(resources, "requests")
    errors: list[FieldError] = []
    for name in sorted(limits):
        path = f"{field}.limits[{name}]"
        errors += _name_errors(path, name) + quantity_errors(path, name, limits[name])
    for name in sorted(requests):
        path, asked = f"{field}.requests[{name}]", requests[name]
        errors += _name_errors(path, name) + quantity_errors(path, name, asked)
        if name in limits:
            difference = _value(asked) - _value(limits[name])
            if difference and not _may_be_overcommitted(name):
                detail = f"must be equal to {name} limit of {limits[name]}"
                errors.append(invalid_value(f"{field}.requests", asked, detail))
            elif difference > 0:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                errors.append(invalid_value(f"{field}.requests", asked, detail))
        elif not _may_be_overcommitted(name):
            detail = "Limit must be set for non overcommitable resources"
            errors.append(required(f"{field}.limits", detail))
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        errors.append(forbidden_field(field, "HugePages require cpu or memory"))
    return errors


def quality_of_service(spec: JsonObject) -> str:
    """Return the QoS class of a pod from the CPU and memory of its containers: Guaranteed, Burstable or BestEffort."""
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    guaranteed = True
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if get_object(spec, "resources"):
        containers = [{"resources": spec["resources"]}]  # pod-level resources replace those of the containers
    for container in containers:
        resources = get_object(container, "resources")
        own_limits = 0
        for totals, name in ((requests, "requests"), (limits, "limits")):
            for resource in ("cpu", "memory"):
                value = _value(get_object(resources, name).get(resource, "0"))
                if value > 0:
                    totals[resource] = totals.get(resource, Decimal(0)) + value
                    own_limits += totals is limits
        guaranteed = guaranteed and own_limits == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"
