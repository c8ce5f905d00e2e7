"""What the type of a service asks for, in a few questions."""

from tinykube.server.json_access import items, number, text
from tinykube.server.objects import JsonObject

HEADLESS = "None"
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"


def needs_cluster_ip(spec: JsonObject) -> bool:
    """Tell whether it has cluster addresses (or is headless): all types but ExternalName."""
    return text(spec, "type") != "ExternalName"


def needs_node_ports(spec: JsonObject) -> bool:
    """Tell whether its ports can have node ports."""
    return text(spec, "type") in ("NodePort", "LoadBalancer")


def draws_node_ports(spec: JsonObject) -> bool:
    """Tell whether ports that name no node port get one."""
    if text(spec, "type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts"))
    return text(spec, "type") == "NodePort"


def needs_health_check_port(spec: JsonObject) -> bool:
    """Tell whether load balancers ask its nodes for their health."""
    return text(spec, "type") == "LoadBalancer" and text(spec, "externalTrafficPolicy") == "Local"


def is_reached_from_outside(spec: JsonObject) -> bool:
    """Tell whether traffic from outside the cluster can come to it."""
    return needs_node_ports(spec) or (text(spec, "type") == "ClusterIP" and bool(items(spec, "externalIPs")))


def is_headless(spec: JsonObject) -> bool:
    """Tell whether it has no cluster address by choice."""
    return items(spec, "clusterIPs") == [HEADLESS]


def node_ports(spec: JsonObject) -> list[int]:
    """Return the node ports of its ports, those that are set."""
    return [number(port, "nodePort") for port in items(spec, "ports") if number(port, "nodePort")]
