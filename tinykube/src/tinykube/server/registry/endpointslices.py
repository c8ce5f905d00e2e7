"""EndpointSlices: limits, canonical addresses, and a generation that also counts label changes."""

from collections.abc import Sequence
from typing import Any

from tinykube.server.errors import (
    FieldError,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from tinykube.server.json_access import get_int, get_list, get_str
from tinykube.server.objects import JsonObject, labels_of, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.ips import (
    address_errors,
    address_warnings,
    canonical_address_errors,
    endpoint_address_errors,
    family_of,
)
from tinykube.server.registry.printing import AGE, NAME, column

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES = 100
_MOST_PORTS = 20_000
_MOST_ENDPOINTS = 1000
_MOST_HINTS = 8
_SHOWN = 3
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_HOSTNAME_LABEL = "kubernetes.io/hostname"


def _name_errors(field: str, name: str) -> list[FieldError]:
    """Return the errors of a fully qualified domain name, with or without a trailing dot."""
    if not name:
        return [required(field)]
    name = name.removesuffix(".")
    errors = validation.dns_subdomain(field, name)
    if errors:
        return errors
    if "." not in name:
        return [invalid_value(field, name, "should be a domain with at least two segments separated by dots")]
    for label in name.split("."):
        problems = validation.dns_label_problems(label)
        if problems:
            return [invalid_value(field, label, ",".join(problems))]
    return []


def _address_of_type_errors(list_field: str, index: int, address: str, address_type: str) -> list[FieldError]:
    field = f"{list_field}[{index}]"
    if address_type == "FQDN":
        return _name_errors(field, address)
    if address_type not in ("IPv4", "IPv6"):
        return []
    errors = (
        address_errors(field, address) if address_type == "IPv4" else canonical_address_errors(field, address)
    )
    if errors:
        return errors
    if family_of(address) != address_type:
        errors.append(invalid_value(list_field, address, f"must be an {address_type} address"))
    return errors + endpoint_address_errors(field, address)


def _hint_errors(field: str, hints: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, is_zone in (("forZones", True), ("forNodes", False)):
        listed = get_list(hints, name)
        if len(listed) > _MOST_HINTS:
            return [*errors, too_many(f"{field}.{name}", len(listed), _MOST_HINTS)]
        seen: set[str] = set()
        for index, hint in enumerate(listed):
            path, value = f"{field}.{name}[{index}].name", get_str(hint, "name")
            if value in seen:
                errors.append(duplicate(path, value))
            seen.add(value)
            errors += (
                validation.each(path, value, validation.label_value_problems(value))
                if is_zone
                else validation.dns_subdomain(path, value)
            )
    return errors


def _endpoint_errors(field: str, endpoint: JsonObject, address_type: str) -> list[FieldError]:
    addresses = get_list(endpoint, "addresses")
    path = f"{field}.addresses"
    errors: list[FieldError] = []
    if not addresses:
        errors.append(required(path, "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        errors.append(too_many(path, len(addresses), _MOST_ADDRESSES))
    for index, address in enumerate(addresses):
        errors += _address_of_type_errors(path, index, address, address_type)
    if endpoint.get("nodeName") is not None:
        errors += validation.dns_subdomain(f"{field}.nodeName", endpoint["nodeName"])
    if endpoint.get("hostname") is not None:
        errors += validation.dns_label(f"{field}.hostname", endpoint["hostname"])
    if endpoint.get("hints") is not None:
        errors += _hint_errors(f"{field}.hints", endpoint["hints"])
    return errors


def _port_errors(ports: list[Any]) -> list[FieldError]:
    if len(ports) > _MOST_PORTS:
        return [too_many("ports", len(ports), _MOST_PORTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"ports[{index}]", get_str(port, "name")
        if name:
            errors += validation.dns_label(f"{field}.name", name)
        if name in seen:
            errors.append(duplicate(f"{field}.name", name))
        seen.add(name)
        errors += validation.protocol(f"{field}.protocol", get_str(port, "protocol"))
        if port.get("appProtocol") is not None:
            errors += validation.qualified_name(f"{field}.appProtocol", port["appProtocol"])
    return errors


def _without_metadata(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key != "metadata"}


class _EndpointSliceStrategy(Strategy):
    """The address type is immutable; label changes increment the generation, which controllers watch."""

    def default(self, obj: JsonObject) -> None:
        for port in get_list(obj, "ports"):
            if port.get("name") is None:
                port["name"] = ""
            if port.get("protocol") is None:
                port["protocol"] = "TCP"
        for endpoint in get_list(obj, "endpoints"):
            if endpoint.get("conditions") is None:
                endpoint["conditions"] = {}
        for name in ("endpoints", "ports"):
            obj[name] = obj.get(name) or None

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        metadata_of(obj)["generation"] = 1
        self._drop_topology(obj)

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        generation = get_int(metadata_of(old), "generation")
        changed = _without_metadata(obj) != _without_metadata(old) or labels_of(obj) != labels_of(old)
        metadata_of(obj)["generation"] = generation + 1 if changed else generation
        if obj.get("endpoints") != old.get("endpoints"):
            self._drop_topology(obj)

    def _drop_topology(self, obj: JsonObject) -> None:
        for endpoint in get_list(obj, "endpoints"):
            endpoint.pop("deprecatedTopology", None)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        address_type = get_str(obj, "addressType")
        errors: list[FieldError] = []
        if not address_type:
            errors.append(required("addressType"))
        elif address_type not in _ADDRESS_TYPES:
            errors.append(not_supported("addressType", address_type, _ADDRESS_TYPES))
        errors += _port_errors(get_list(obj, "ports"))
        endpoints = get_list(obj, "endpoints")
        if len(endpoints) > _MOST_ENDPOINTS:
            return [*errors, too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
        for index, endpoint in enumerate(endpoints):
            errors += _endpoint_errors(f"endpoints[{index}]", endpoint, address_type)
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return validation.immutable("addressType", get_str(obj, "addressType"), get_str(old, "addressType"))

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        found = []
        if get_str(obj, "addressType") == "FQDN" and get_int(metadata_of(obj), "generation") == 1:
            found.append("spec.addressType: FQDN endpoints are deprecated")
        if labels_of(obj).get(_MANAGED_BY) not in _CONTROLLERS:
            found += [
                warning
                for number_, endpoint in enumerate(get_list(obj, "endpoints"))
                for index, address in enumerate(get_list(endpoint, "addresses"))
                for warning in address_warnings(f"endpoints[{number_}].addresses[{index}]", address)
            ]
        return found


def _shown(listed: list[str]) -> str:
    text = ",".join(listed[:_SHOWN])
    if len(listed) > _SHOWN:
        return f"{text} + {len(listed) - _SHOWN} more..."
    return text or "<unset>"


def _ports_cell(obj: JsonObject) -> str:
    listed = [
        str(port["port"])
        if port.get("port") is not None
        else get_str(port, "name")
        if "name" in port
        else "*"
        for port in get_list(obj, "ports")
    ]
    return _shown(listed)


def _endpoints_cell(obj: JsonObject) -> str:
    listed = [
        address for endpoint in get_list(obj, "endpoints") for address in get_list(endpoint, "addresses")
    ]
    return _shown(listed)


ENDPOINT_SLICES = Definition(
    group="discovery.k8s.io",
    version="v1",
    plural="endpointslices",
    kind="EndpointSlice",
    singular="endpointslice",
    namespaced=True,
    strategy=_EndpointSliceStrategy(),
    columns=(
        NAME,
        column("AddressType", lambda obj: get_str(obj, "addressType")),
        column("Ports", _ports_cell),
        column("Endpoints", _endpoints_cell),
        AGE,
    ),
)
