"""Endpoints: the deprecated API for a service's endpoints.

Subsets are not repacked, and unchanged ones are not revalidated.
"""

import itertools
from collections.abc import Sequence

from tinykube.server.errors import FieldError, required
from tinykube.server.json_access import get_int, get_list, get_str, set_if_empty
from tinykube.server.objects import JsonObject, labels_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.ips import address_errors, address_warnings, endpoint_address_errors
from tinykube.server.registry.printing import AGE, NAME, NONE, column

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_CONTROLLER = "endpoint-controller"
_SHOWN = 3


def _address_errors(field: str, address: JsonObject) -> list[FieldError]:
    ip = get_str(address, "ip")
    errors = address_errors(f"{field}.ip", ip)
    if get_str(address, "hostname"):
        errors += validation.dns_label(f"{field}.hostname", address["hostname"])
    if address.get("nodeName") is not None:
        errors += validation.dns_subdomain(f"{field}.nodeName", address["nodeName"])
    return errors + endpoint_address_errors(f"{field}.ip", ip)


def _port_errors(field: str, port: JsonObject, *, needs_name: bool) -> list[FieldError]:
    name = get_str(port, "name")
    errors: list[FieldError] = []
    if name:
        errors += validation.dns_label(f"{field}.name", name)
    elif needs_name:
        errors.append(required(f"{field}.name"))
    errors += validation.port_number(f"{field}.port", get_int(port, "port"))
    errors += validation.protocol(f"{field}.protocol", get_str(port, "protocol"))
    if port.get("appProtocol") is not None:
        errors += validation.qualified_name(f"{field}.appProtocol", port["appProtocol"])
    return errors


def _subset_errors(field: str, subset: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if not get_list(subset, "addresses") and not get_list(subset, "notReadyAddresses"):
        errors.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
    for name in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(get_list(subset, name)):
            errors += _address_errors(f"{field}.{name}[{index}]", address)
    ports = get_list(subset, "ports")
    for index, port in enumerate(ports):
        errors += _port_errors(f"{field}.ports[{index}]", port, needs_name=len(ports) > 1)
    return errors


def _shown(obj: JsonObject) -> str:
    """Return the table cell: the first three addresses and the number of further ones."""
    listed: list[str] = []
    count = 0
    for subset in get_list(obj, "subsets"):
        addresses = [get_str(address, "ip") for address in get_list(subset, "addresses")]
        ports = [f":{get_int(port, 'port')}" for port in get_list(subset, "ports")] or [""]
        count += len(addresses) * len(ports)
        pairs = ((ip, port) for port in ports for ip in addresses)
        for ip, port in itertools.islice(pairs, max(_SHOWN - len(listed), 0)):
            listed.append(f"[{ip}]{port}" if port and ":" in ip else f"{ip}{port}")
    if not get_list(obj, "subsets"):
        return NONE
    shown = ",".join(listed)
    return f"{shown} + {count - _SHOWN} more..." if count > _SHOWN else shown


class _EndpointsStrategy(Strategy):
    """Each subset needs addresses; if it has several ports, they need names."""

    def default(self, obj: JsonObject) -> None:
        for subset in get_list(obj, "subsets"):
            for port in get_list(subset, "ports"):
                set_if_empty(port, "protocol", "TCP")

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        return [
            error
            for index, subset in enumerate(get_list(obj, "subsets"))
            for error in _subset_errors(f"subsets[{index}]", subset)
        ]

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        if labels_of(obj).get(_MANAGED_BY) == _CONTROLLER:
            return ()
        return [
            warning
            for number, subset in enumerate(get_list(obj, "subsets"))
            for name in ("addresses", "notReadyAddresses")
            for index, address in enumerate(get_list(subset, name))
            for warning in address_warnings(f"subsets[{number}].{name}[{index}].ip", get_str(address, "ip"))
        ]


ENDPOINTS = Definition(
    group="",
    version="v1",
    plural="endpoints",
    kind="Endpoints",
    singular="endpoints",
    namespaced=True,
    short_names=("ep",),
    strategy=_EndpointsStrategy(),
    columns=(NAME, column("Endpoints", _shown), AGE),
    creates_on_update=True,
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)
