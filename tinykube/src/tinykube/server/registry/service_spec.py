"""Predicates on the type of a service."""

from tinykube.server.json_access import get_int, get_list, get_str
from tinykube.server.objects import JsonObject

HEADLESS = "None"
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"


def needs_cluster_ip(spec: JsonObject) -> bool:
    """Return whether it has cluster IPs or is headless: all types except ExternalName."""
    return get_str(spec, "type") != "ExternalName"


def needs_node_ports(spec: JsonObject) -> bool:
    """Return whether its ports can have node ports."""
    return get_str(spec, "type") in ("NodePort", "LoadBalancer")


def allocates_node_ports(spec: JsonObject) -> bool:
    """Return whether node ports are allocated for ports without one."""
    if get_str(spec, "type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts"))
    return get_str(spec, "type") == "NodePort"


def needs_health_check_port(spec: JsonObject) -> bool:
    """Return whether load balancers check the health of its nodes."""
    return get_str(spec, "type") == "LoadBalancer" and get_str(spec, "externalTrafficPolicy") == "Local"


def is_reached_from_outside(spec: JsonObject) -> bool:
    """Return whether it accepts traffic from outside the cluster."""
    return needs_node_ports(spec) or (
        get_str(spec, "type") == "ClusterIP" and bool(get_list(spec, "externalIPs"))
    )


def is_headless(spec: JsonObject) -> bool:
    """Return whether it is headless."""
    return get_list(spec, "clusterIPs") == [HEADLESS]


def node_ports(spec: JsonObject) -> list[int]:
    """Return the node ports that are set."""
    return [get_int(port, "nodePort") for port in get_list(spec, "ports") if get_int(port, "nodePort")]
