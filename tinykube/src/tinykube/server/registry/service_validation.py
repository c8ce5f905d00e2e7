"""Validation of services, except their addresses."""

from collections.abc import Sequence

from tinykube.server.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from tinykube.server.json_access import get_int, get_list, get_object, get_str, raw_json
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.ips import (
    address_errors,
    endpoint_address_errors,
    network_errors,
    parse_sloppy,
)
from tinykube.server.registry.service_addresses import cluster_ip_errors
from tinykube.server.registry.service_spec import (
    is_headless,
    is_reached_from_outside,
    needs_health_check_port,
)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY_SECONDS = 86_400
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"


def service_errors(obj: JsonObject) -> list[FieldError]:
    """Return all errors of a service."""
    spec = get_object(obj, "spec")
    annotations = metadata_of(obj).get("annotations") or {}
    kind, ports = get_str(spec, "type"), get_list(spec, "ports")
    errors: list[FieldError] = []
    if _MODE in annotations and _HINTS in annotations and annotations[_MODE] != annotations[_HINTS]:
        detail = f"must match annotations[{_HINTS}] when both are specified"
        errors.append(invalid_value(f"metadata.annotations[{_MODE}]", annotations[_MODE], detail))
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _type_errors(spec, kind)
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _port_errors(f"spec.ports[{index}]", port, needs_name=len(ports) > 1, names=names)
    errors += validation.labels("spec.selector", spec.get("selector"))
    errors += _affinity_errors(spec)
    errors += cluster_ip_errors(spec, None)
    for index, ip in enumerate(get_list(spec, "externalIPs")):
        field = f"spec.externalIPs[{index}]"
        errors += address_errors(field, ip) or endpoint_address_errors(field, ip)
    if not kind:
        errors.append(required("spec.type"))
    elif kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    errors += _node_port_errors(kind, ports)
    errors += _uniqueness_errors(ports)
    errors += _source_range_errors(spec, kind, annotations)
    errors += _balancer_errors(spec, kind)
    errors += _traffic_errors(spec, kind)
    return errors


def _type_errors(spec: JsonObject, kind: str) -> list[FieldError]:
    if kind in ("LoadBalancer", "NodePort"):
        if is_headless(spec):
            detail = f"may not be set to 'None' for {kind} services"
            return [invalid_value("spec.clusterIPs[0]", "None", detail)]
        return []
    if kind != "ExternalName":
        return []
    errors = [
        forbidden_field(f"spec.{name}", "may not be set for ExternalName services")
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(name)
    ]
    target = get_str(spec, "externalName").removesuffix(".")
    errors += (
        validation.dns_subdomain("spec.externalName", target) if target else [required("spec.externalName")]
    )
    return errors


def _port_errors(field: str, port: JsonObject, *, needs_name: bool, names: set[str]) -> list[FieldError]:
    name = get_str(port, "name")
    errors: list[FieldError] = []
    if name:
        errors += validation.dns_label(f"{field}.name", name)
        if name in names:
            errors.append(duplicate(f"{field}.name", name))
        names.add(name)
    elif needs_name:
        errors.append(required(f"{field}.name"))
    errors += validation.port_number(f"{field}.port", get_int(port, "port"))
    errors += validation.protocol(f"{field}.protocol", get_str(port, "protocol"))
    errors += validation.port_number_or_name(f"{field}.targetPort", port.get("targetPort") or 0)
    if port.get("appProtocol") is not None:
        errors += validation.qualified_name(f"{field}.appProtocol", port["appProtocol"])
    return errors


def _affinity_errors(spec: JsonObject) -> list[FieldError]:
    affinity, config = get_str(spec, "sessionAffinity"), spec.get("sessionAffinityConfig")
    field = "spec.sessionAffinityConfig"
    if affinity not in _AFFINITIES:
        return [not_supported("spec.sessionAffinity", affinity, _AFFINITIES)]
    if affinity == "None":
        if config is None:
            return []
        return [forbidden_field(field, "must not be set when session affinity is None")]
    seconds = get_object(config or {}, "clientIP").get("timeoutSeconds")
    if seconds is None:
        return [required(f"{field}.clientIP.timeoutSeconds", "when session affinity type is ClientIP")]
    if not 0 < seconds <= _LONGEST_AFFINITY_SECONDS:
        detail = f"must be greater than 0 and less than {_LONGEST_AFFINITY_SECONDS}"
        return [invalid_value(f"{field}.clientIP.timeoutSeconds", seconds, detail)]
    return []


def _node_port_errors(kind: str, ports: Sequence[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind == "ClusterIP":
        errors += [
            forbidden_field(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
            for index, port in enumerate(ports)
            if get_int(port, "nodePort")
        ]
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (get_str(port, "protocol"), get_int(port, "nodePort"))
        if key[1] and key in seen:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", key[1]))
        seen.add(key)
    return errors


def _uniqueness_errors(ports: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (get_str(port, "protocol"), get_int(port, "port"))
        if key in seen:
            # kube-apiserver prints the key as its internal type, with all fields.
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            errors.append(duplicate(f"spec.ports[{index}]", raw_json(shown)))
        seen.add(key)
    return errors


def _source_range_errors(spec: JsonObject, kind: str, annotations: JsonObject) -> list[FieldError]:
    ranges = get_list(spec, "loadBalancerSourceRanges")
    errors: list[FieldError] = []
    if ranges:
        field = "spec.LoadBalancerSourceRanges"
        if kind != "LoadBalancer":
            errors.append(forbidden_field(field, _BALANCER_ONLY))
        for index, value in enumerate(ranges):
            errors += network_errors(f"{field}[{index}]", value.strip())
    elif _SOURCE_RANGES in annotations:
        field = f"metadata.annotations[{_SOURCE_RANGES}]"
        if kind != "LoadBalancer":
            errors.append(forbidden_field(field, _BALANCER_ONLY))
        value = annotations[_SOURCE_RANGES].strip()
        for one in value.split(",") if value else ():
            errors += network_errors(field, one.strip())
    return errors


def _balancer_errors(spec: JsonObject, kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind != "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden_field("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY))
    name = spec.get("loadBalancerClass")
    if name is not None:
        if kind == "LoadBalancer":
            errors += validation.qualified_name("spec.loadBalancerClass", name)
        else:
            errors.append(forbidden_field("spec.loadBalancerClass", _BALANCER_ONLY))
    return errors


def _traffic_errors(spec: JsonObject, kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    external, health = get_str(spec, "externalTrafficPolicy"), get_int(spec, "healthCheckNodePort")
    if not is_reached_from_outside(spec):
        if external:
            detail = "may only be set for externally-accessible services"
            errors.append(invalid_value("spec.externalTrafficPolicy", external, detail))
    elif external not in _POLICIES:
        errors.append(not_supported("spec.externalTrafficPolicy", external, _POLICIES))
    if needs_health_check_port(spec):
        errors += (
            validation.port_number("spec.healthCheckNodePort", health)
            if health
            else [required("spec.healthCheckNodePort")]
        )
    elif health:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid_value("spec.healthCheckNodePort", health, detail))
    internal = spec.get("internalTrafficPolicy")
    if internal is None:
        if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
            errors.append(required("spec.internalTrafficPolicy"))
    elif internal not in _POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", internal, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def status_errors(obj: JsonObject) -> list[FieldError]:
    """Return the errors of a load balancer's status."""
    ingress = get_list(get_object(get_object(obj, "status"), "loadBalancer"), "ingress")
    path = "status.loadBalancer.ingress"
    if ingress and get_str(get_object(obj, "spec"), "type") != "LoadBalancer":
        return [forbidden_field(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    errors: list[FieldError] = []
    for index, entry in enumerate(ingress):
        field, ip, mode, host = (
            f"{path}[{index}]",
            get_str(entry, "ip"),
            entry.get("ipMode"),
            get_str(entry, "hostname"),
        )
        if ip:
            errors += address_errors(f"{field}.ip", ip)
        if mode is None:
            if ip:
                errors.append(required(f"{field}.ipMode", "must be specified when `ip` is set"))
        elif not ip:
            errors.append(forbidden_field(f"{field}.ipMode", "may not be specified when `ip` is not set"))
        elif mode not in ("Proxy", "VIP"):
            errors.append(not_supported(f"{field}.ipMode", mode, ("Proxy", "VIP")))
        if host:
            errors += validation.dns_subdomain(f"{field}.hostname", host)
            if parse_sloppy(host) is not None:
                detail = "must be a DNS name, not an IP address"
                errors.append(invalid_value(f"{field}.hostname", host, detail))
    return errors
