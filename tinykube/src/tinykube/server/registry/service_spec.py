"""What the type of a service asks for, in a few questions."""

from tinykube.server.json_access import get_int, get_list, get_str
from tinykube.server.objects import JsonObject

HEADLESS = "None"
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"


def needs_cluster_ip(spec: JsonObject) -> bool:
    """Tell whether it has cluster addresses (or is headless): all types but ExternalName."""
    return get_str(spec, "type") != "ExternalName"


def needs_node_ports(spec: JsonObject) -> bool:
    """Tell whether its ports can have node ports."""
    return get_str(spec, "type") in ("NodePort", "LoadBalancer")


def draws_node_ports(spec: JsonObject) -> bool:
    """Tell whether ports that name no node port get one."""
    if get_str(spec, "type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts"))
    return get_str(spec, "type") == "NodePort"


def needs_health_check_port(spec: JsonObject) -> bool:
    """Tell whether load balancers ask its nodes for their health."""
    return get_str(spec, "type") == "LoadBalancer" and get_str(spec, "externalTrafficPolicy") == "Local"


def is_reached_from_outside(spec: JsonObject) -> bool:
    """Tell whether traffic from outside the cluster can come to it."""
    return needs_node_ports(spec) or (
        get_str(spec, "type") == "ClusterIP" and bool(get_list(spec, "externalIPs"))
    )


def is_headless(spec: JsonObject) -> bool:
    """Tell whether it has no cluster address by choice."""
    return get_list(spec, "clusterIPs") == [HEADLESS]


def node_ports(spec: JsonObject) -> list[int]:
    """Return the node ports of its ports, those that are set."""
    return [get_int(port, "nodePort") for port in get_list(spec, "ports") if get_int(port, "nodePort")]
