"""Services: inherited fields, fields that depend on the type, allocation, and the table."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, forbidden_field, invalid_value
from tinykube.server.json_access import (
    ensure_object,
    get_int,
    get_list,
    get_object,
    get_str,
    keep_only_status,
    set_if_empty,
    set_or_remove,
)
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.ips import address_warnings
from tinykube.server.registry.names import dns_label_problem
from tinykube.server.registry.printing import AGE, NAME, NONE, UNKNOWN, column, format_labels
from tinykube.server.registry.service_addresses import update_errors
from tinykube.server.registry.service_allocation import ServiceAllocation
from tinykube.server.registry.service_spec import (
    is_headless,
    is_reached_from_outside,
    needs_cluster_ip,
    needs_health_check_port,
    needs_node_ports,
    node_ports,
)
from tinykube.server.registry.service_validation import service_errors, status_errors
from tinykube.server.registry.statuses import status_subresource

_AFFINITY_SECONDS = 10_800
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"


def _same_text(spec: JsonObject, old: JsonObject, name: str) -> bool:
    return spec.get(name) == old.get(name)


def _inherit(spec: JsonObject, old: JsonObject) -> None:
    """Fill in allocated values that the client omitted, so that a manifest can be applied repeatedly."""
    if needs_cluster_ip(old) and needs_cluster_ip(spec):
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and old.get(name):
                spec[name] = old[name]
    if needs_node_ports(old) and needs_node_ports(spec):
        used = set(node_ports(old)) & set(node_ports(spec))
        before = {get_str(port, "name"): get_int(port, "nodePort") for port in get_list(old, "ports")}
        for port in get_list(spec, "ports"):
            inherited = before.get(get_str(port, "name"), 0)
            if not get_int(port, "nodePort") and inherited and inherited not in used:
                port["nodePort"] = inherited
    keeps_health_check_port = needs_health_check_port(old) and needs_health_check_port(spec)
    if keeps_health_check_port and not get_int(spec, "healthCheckNodePort"):
        set_or_remove(spec, "healthCheckNodePort", old.get("healthCheckNodePort"))


def _align_cluster_ips(spec: JsonObject, old: JsonObject | None) -> None:
    """Align ``clusterIPs`` with ``clusterIP``, for clients that only know the latter."""
    first, ips = get_str(spec, "clusterIP"), get_list(spec, "clusterIPs")
    if old is None:
        if first and not ips:
            spec["clusterIPs"] = [first]
        return
    if get_list(old, "clusterIPs") and not ips and get_str(old, "clusterIP") == first:
        spec["clusterIPs"] = get_list(old, "clusterIPs")
    if get_str(old, "clusterIP") != first and get_list(old, "clusterIPs") == get_list(spec, "clusterIPs"):
        cleared = get_str(old, "clusterIP") and not first
        set_or_remove(spec, "clusterIPs", None if cleared else [first])


def _drop_fields_of_old_type(spec: JsonObject, old: JsonObject) -> None:
    """Remove fields of the old type that the client has not changed."""
    if needs_cluster_ip(old) and not needs_cluster_ip(spec):
        if _same_text(spec, old, "clusterIP") and get_list(spec, "clusterIPs") == get_list(old, "clusterIPs"):
            set_or_remove(spec, "clusterIP", None)
            set_or_remove(spec, "clusterIPs", None)
        for name in ("ipFamilies", "ipFamilyPolicy"):
            if _same_text(spec, old, name):
                set_or_remove(spec, name, None)
    if needs_node_ports(old) and not needs_node_ports(spec) and set(node_ports(spec)) <= set(node_ports(old)):
        for port in get_list(spec, "ports"):
            port.pop("nodePort", None)
    for name, applies in (
        ("healthCheckNodePort", needs_health_check_port),
        ("allocateLoadBalancerNodePorts", _is_balancer),
        ("loadBalancerClass", _is_balancer),
        ("externalTrafficPolicy", is_reached_from_outside),
    ):
        if applies(old) and not applies(spec) and _same_text(spec, old, name):
            set_or_remove(spec, name, None)


def _affinity_seconds(spec: JsonObject) -> int | None:
    return get_object(get_object(spec, "sessionAffinityConfig"), "clientIP").get("timeoutSeconds")


def _is_balancer(spec: JsonObject) -> bool:
    return get_str(spec, "type") == "LoadBalancer"


class _ServiceStrategy(Strategy):
    """The allocators are those of one server; stored services are recorded at start-up."""

    def __init__(self, allocation: ServiceAllocation) -> None:
        self._allocation = allocation

    def default(self, obj: JsonObject) -> None:
        spec, status = ensure_object(obj, "spec"), ensure_object(obj, "status")
        set_if_empty(spec, "type", "ClusterIP")
        set_if_empty(spec, "sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP" and _affinity_seconds(spec) is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        for port in get_list(spec, "ports"):
            set_if_empty(port, "protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = get_int(port, "port")
        if is_reached_from_outside(spec):
            set_if_empty(spec, "externalTrafficPolicy", "Cluster")
        if get_str(spec, "type") in ("ClusterIP", "NodePort", "LoadBalancer"):
            set_if_empty(spec, "internalTrafficPolicy", "Cluster")
        elif get_str(spec, "type") == "ExternalName":
            spec.pop("internalTrafficPolicy", None)
        balancer = ensure_object(status, "loadBalancer")
        if _is_balancer(spec):
            set_if_empty(spec, "allocateLoadBalancerNodePorts", True)
            for ingress in get_list(balancer, "ingress"):
                if get_str(ingress, "ip"):
                    set_if_empty(ingress, "ipMode", "VIP")

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        _align_cluster_ips(spec, None)
        self._allocation.for_create(request, get_str(metadata_of(obj), "name"), spec)

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        spec, old_spec = obj["spec"], get_object(old, "spec")
        _inherit(spec, old_spec)
        _align_cluster_ips(spec, old_spec)
        self._allocation.for_update(request, get_str(metadata_of(obj), "name"), spec, old_spec)
        obj["status"] = old["status"]
        _drop_fields_of_old_type(spec, old_spec)
        if not _is_balancer(spec):
            obj["status"] = {**obj["status"], "loadBalancer": {}}

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        keep_only_status(obj, old)
        ensure_object(obj["status"], "loadBalancer")

    def validate_name(self, name: str) -> str:
        return dns_label_problem(name)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        return service_errors(obj)

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        spec, old_spec = get_object(obj, "spec"), get_object(old, "spec")
        if obj["status"] != old["status"] and spec == old_spec:
            return status_errors(obj)
        errors = update_errors(spec, old_spec)
        if (
            _is_balancer(spec)
            and _is_balancer(old_spec)
            and not _same_text(spec, old_spec, "loadBalancerClass")
        ):
            name = spec.get("loadBalancerClass")
            errors.append(invalid_value("spec.loadBalancerClass", name, "may not change once set"))
        keeps_health_check_port = needs_health_check_port(spec) and needs_health_check_port(old_spec)
        if keeps_health_check_port and not _same_text(spec, old_spec, "healthCheckNodePort"):
            errors.append(forbidden_field("spec.healthCheckNodePort", "field is immutable"))
        return errors

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        return _warnings(get_object(obj, "spec"), metadata_of(obj).get("annotations") or {})

    def after_create(self, request: Request, obj: JsonObject) -> None:
        self._allocation.record(get_object(obj, "spec"))

    def after_delete(self, request: Request, obj: JsonObject) -> None:
        self._allocation.release(get_object(obj, "spec"))


def _warnings(spec: JsonObject, annotations: JsonObject) -> list[str]:
    found: list[str] = []
    kind = get_str(spec, "type")
    if _HINTS in annotations:
        found.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    outside = get_list(spec, "externalIPs")
    if is_headless(spec):
        if get_str(spec, "loadBalancerIP"):
            found.append("spec.loadBalancerIP is ignored for headless services")
        if outside:
            found.append("spec.externalIPs is ignored for headless services")
        if get_str(spec, "sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    else:
        for index, ip in enumerate(get_list(spec, "clusterIPs")):
            found += address_warnings(f"spec.clusterIPs[{index}]", ip)
    for index, ip in enumerate(outside):
        found += address_warnings(f"spec.externalIPs[{index}]", ip)
    if outside and not is_headless(spec) and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if get_str(spec, "loadBalancerIP"):
        found += address_warnings("spec.loadBalancerIP", spec["loadBalancerIP"])
    if kind == "ExternalName" and outside:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and get_str(spec, "externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


# ----------------------------------------------------------------------------------------- table


def _external_ip(obj: JsonObject) -> str:
    spec = get_object(obj, "spec")
    kind, outside = get_str(spec, "type"), get_list(spec, "externalIPs")
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(outside) or NONE
    if kind == "ExternalName":
        return get_str(spec, "externalName")
    if kind != "LoadBalancer":
        return UNKNOWN
    ingress = get_list(get_object(get_object(obj, "status"), "loadBalancer"), "ingress")
    balancers = {get_str(entry, "ip") or get_str(entry, "hostname") for entry in ingress} - {""}
    return ",".join([*sorted(balancers), *outside]) or "<pending>"


def _ports(obj: JsonObject) -> str:
    shown = []
    for port in get_list(get_object(obj, "spec"), "ports"):
        node_port = f":{port['nodePort']}" if get_int(port, "nodePort") else ""
        shown.append(f"{port['port']}{node_port}/{get_str(port, 'protocol')}")
    return ",".join(shown) or NONE


def _cluster_ip(obj: JsonObject) -> str:
    ips = get_list(get_object(obj, "spec"), "clusterIPs")
    return ips[0] if ips else NONE


def services(allocation: ServiceAllocation) -> Definition:
    """Return the resource with the allocators of one server."""
    return Definition(
        group="",
        version="v1",
        plural="services",
        kind="Service",
        singular="service",
        namespaced=True,
        short_names=("svc",),
        categories=("all",),
        strategy=_ServiceStrategy(allocation),
        subresources=(status_subresource("Service"),),
        columns=(
            NAME,
            column("Type", lambda obj: get_str(get_object(obj, "spec"), "type")),
            column("Cluster-IP", _cluster_ip),
            column("External-IP", _external_ip),
            column("Port(s)", _ports),
            AGE,
            column("Selector", lambda obj: format_labels(get_object(obj, "spec").get("selector")), wide=True),
        ),
        fields=lambda obj: {
            "spec.clusterIP": get_str(get_object(obj, "spec"), "clusterIP"),
            "spec.type": get_str(get_object(obj, "spec"), "type"),
        },
        field_names=("spec.clusterIP", "spec.type"),
        creates_on_update=True,
        returns_object_on_delete=True,
    )
