"""The bodies: valid, defaulted and invalid, for all kinds."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.kinds_driver import (
    Case,
    Step,
    case,
    change,
    create,
    delete,
    patch,
    put,
    read,
    table,
)
from tests.cluster.kinds_workload_cases import DAEMON_SETS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS

JSON = dict[str, Any]


def service(name: str, **spec: Any) -> JSON:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def ports(*numbers: int) -> list[JSON]:
    return [{"name": f"p{number}", "port": number} for number in numbers]


def spec_of(**members: Any) -> Any:
    def make(obj: JSON) -> None:
        for name, value in members.items():
            if value is None:
                obj["spec"].pop(name, None)
            else:
                obj["spec"][name] = value

    return make


def without(*names: str) -> Any:
    return spec_of(**dict.fromkeys(names))


def status_of(**members: Any) -> Any:
    def make(obj: JSON) -> None:
        obj.setdefault("status", {}).update(members)

    return make


def refused_services() -> list[Case]:
    wrong: Mapping[str, JSON] = {
        "no ports": service("s", ports=[]),
        "ports without names": service("s", ports=[{"port": 80}, {"port": 81}]),
        "two of a name": service("s", ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
        "two of a number": service("s", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
        "port 0": service("s", ports=[{"port": 0}]),
        "port 70000": service("s", ports=[{"port": 70000}]),
        "an unknown protocol": service("s", ports=[{"port": 80, "protocol": "QUIC"}]),
        "a bad target port": service("s", ports=[{"port": 80, "targetPort": "A_B"}]),
        "target port too large": service("s", ports=[{"port": 80, "targetPort": 99999}]),
        "a long target port": service("s", ports=[{"port": 80, "targetPort": "abcdefghijklmnop"}]),
        "a bad port name": service("s", ports=[{"port": 80, "name": "A"}]),
        "a port name with a dot": service("s", ports=[{"port": 80, "name": "a.b"}]),
        "a bad app protocol": service("s", ports=[{"port": 80, "appProtocol": "a/b/c"}]),
        "an unknown type": service("s", type="Cloud"),
        "a bad selector": service("s", selector={"a b": "c"}),
        "a bad selector value": service("s", selector={"a": "-"}),
        "unknown affinity": service("s", sessionAffinity="Cookie"),
        "an affinity of no time": service(
            "s", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}
        ),
        "an affinity of two days": service(
            "s", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 172800}}
        ),
        "a node port on ClusterIP": service("s", ports=[{"port": 80, "nodePort": 30001}]),
        "a node port out of range": service("s", type="NodePort", ports=[{"port": 80, "nodePort": 80}]),
        "headless NodePort": service("s", type="NodePort", clusterIP="None"),
        "headless LoadBalancer": service("s", type="LoadBalancer", clusterIP="None"),
        "ExternalName of nothing": service("s", type="ExternalName"),
        "ExternalName of a bad name": service("s", type="ExternalName", externalName="-x-"),
        "ExternalName with families": service(
            "s", type="ExternalName", externalName="a.b", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack"
        ),
        "ExternalName with an address": service(
            "s", type="ExternalName", externalName="a.b", clusterIP="10.96.0.77"
        ),
        "a cluster IP in use": service("s", clusterIP="10.96.0.1"),
        "a cluster IP of another network": service("s", clusterIP="192.168.0.1"),
        "the network's own address": service("s", clusterIP="10.96.0.0"),
        "an invalid cluster IP": service("s", clusterIP="nonsense"),
        "a cluster IP with zeros": service("s", clusterIP="010.096.000.077"),
        "a mapped cluster IP": service("s", clusterIP="::ffff:10.96.0.77"),
        "two of one family": service("s", clusterIPs=["10.96.0.78", "10.96.0.79"], clusterIP="10.96.0.78"),
        "three addresses": service(
            "s", clusterIP="10.96.0.78", clusterIPs=["10.96.0.78", "fd00:10:96::78", "10.96.0.79"]
        ),
        "the list without the first": service("s", clusterIPs=["10.96.0.78"]),
        "a list of another": service("s", clusterIP="10.96.0.78", clusterIPs=["10.96.0.79"]),
        "None and more": service("s", clusterIP="None", clusterIPs=["None", "10.96.0.78"]),
        "an unknown family": service("s", ipFamilies=["IPv5"]),
        "a duplicate family": service("s", ipFamilies=["IPv4", "IPv4"]),
        "an unknown policy": service("s", ipFamilyPolicy="Both"),
        "two families, one stack": service("s", ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="SingleStack"),
        "two families, no policy": service("s", ipFamilies=["IPv4", "IPv6"]),
        "an address of the other family": service("s", clusterIP="10.96.0.78", ipFamilies=["IPv6"]),
        "a bad external IP": service("s", externalIPs=["x"]),
        "a loopback external IP": service("s", externalIPs=["127.0.0.1"]),
        "an external policy inside": service("s", externalTrafficPolicy="Local"),
        "an unknown external policy": service("s", type="NodePort", externalTrafficPolicy="Near"),
        "an unknown internal policy": service("s", internalTrafficPolicy="Near"),
        "an unknown distribution": service("s", trafficDistribution="PreferFar"),
        "a health check port without need": service("s", type="NodePort", healthCheckNodePort=30055),
        "ranges without a balancer": service("s", loadBalancerSourceRanges=["10.0.0.0/8"]),
        "bad ranges": service(
            "s", type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0", "10.0.0.1/8", "a/8"]
        ),
        "a class without a balancer": service("s", loadBalancerClass="a/b"),
        "a bad class": service("s", type="LoadBalancer", loadBalancerClass="a b"),
        "allocation without a balancer": service("s", allocateLoadBalancerNodePorts=True),
        "a bad name": service("a.b"),
        "an upper case name": service("A"),
        "a name too long": service("a" * 64),
        "a bad label": {"metadata": {"name": "s", "labels": {"a": "b c"}}, "spec": {"ports": [{"port": 80}]}},
        "no spec": {"metadata": {"name": "s"}},
        # Both reject one without a name; the real server then refers to an IPAddress that it cannot name.
        "no name, no ports": {"spec": {"clusterIP": "None", "ports": [{"port": 0}]}},
        "conflicting annotations": {
            "metadata": {
                "name": "s",
                "annotations": {
                    "service.kubernetes.io/topology-mode": "a",
                    "service.kubernetes.io/topology-aware-hints": "b",
                },
            },
            "spec": {"ports": [{"port": 80}]},
        },
    }
    return [case(f"refused: {title}", create("services", body)) for title, body in wrong.items()]


def changed_services() -> list[Case]:
    s = "services"
    return [
        case("a digit first", create(s, service("1a"))),
        case(
            "defaults",
            create(s, service("s", selector={"a": "b"})),
            read(s, "s"),
            table(s, "s"),
            delete(s, "s"),
        ),
        case(
            "a named target",
            create(s, service("s", ports=[{"port": 80, "targetPort": "http", "protocol": "UDP"}])),
        ),
        case("affinity", create(s, service("s", sessionAffinity="ClientIP"))),
        case(
            "a chosen address",
            create(s, service("s", clusterIP="10.96.0.60")),
            create(s, service("t", clusterIP="10.96.0.60")),
            delete(s, "s"),
            create(s, service("t", clusterIP="10.96.0.60")),
            delete(s, "t"),
        ),
        case("prefer both", create(s, service("s", ipFamilyPolicy="PreferDualStack"))),
        case("require both", create(s, service("s", ipFamilyPolicy="RequireDualStack")), table(s, "s")),
        case(
            "require both, v6 first",
            create(s, service("s", ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv6"])),
        ),
        case("only v6", create(s, service("s", ipFamilies=["IPv6"]))),
        case("chosen v6", create(s, service("s", clusterIP="fd00:10:96::60"))),
        case(
            "chosen both",
            create(
                s,
                service(
                    "s",
                    clusterIP="10.96.0.61",
                    clusterIPs=["10.96.0.61", "fd00:10:96::61"],
                    ipFamilyPolicy="PreferDualStack",
                ),
            ),
        ),
        case("headless", create(s, service("s", clusterIP="None", selector={"a": "b"})), table(s, "s")),
        case("headless, no selector", create(s, service("s", clusterIP="None"))),
        case(
            "headless, no selector, single",
            create(s, service("s", clusterIP="None", ipFamilyPolicy="SingleStack")),
        ),
        case(
            "headless, no ports",
            create(s, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
        ),
        case(
            "headless, both",
            create(s, service("s", clusterIP="None", selector={"a": "b"}, ipFamilyPolicy="RequireDualStack")),
        ),
        case(
            "headless with affinity warns",
            create(s, service("s", clusterIP="None", sessionAffinity="ClientIP", externalIPs=["1.2.3.4"])),
        ),
        case(
            "ExternalName",
            create(s, service("s", type="ExternalName", externalName="a.example.")),
            table(s, "s"),
        ),
        case(
            "ExternalName without ports",
            create(s, {"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}),
            table(s, "s"),
        ),
        case("an external name that is ignored", create(s, service("s", externalName="a.b"))),
        case("external IPs", create(s, service("s", externalIPs=["1.2.3.4", "5.6.7.8"])), table(s, "s")),
        case("PreferClose warns", create(s, service("s", trafficDistribution="PreferClose"))),
        case("PreferSameNode", create(s, service("s", trafficDistribution="PreferSameNode"))),
        case(
            "hints warn",
            create(
                s,
                {
                    "metadata": {
                        "name": "s",
                        "annotations": {"service.kubernetes.io/topology-aware-hints": "auto"},
                    },
                    "spec": {"ports": [{"port": 80}]},
                },
            ),
        ),
        case("node ports", create(s, service("s", type="NodePort")), table(s, "s")),
        case(
            "a chosen node port",
            create(s, service("s", type="NodePort", ports=[{"port": 80, "nodePort": 30050}])),
            create(s, service("t", type="NodePort", ports=[{"port": 80, "nodePort": 30050}])),
            table(s, "s"),
            delete(s, "s"),
        ),
        case(
            "one node port, two protocols",
            create(
                s,
                service(
                    "s",
                    type="NodePort",
                    ports=[
                        {"name": "a", "port": 53, "nodePort": 30051},
                        {"name": "b", "port": 53, "protocol": "UDP"},
                    ],
                ),
            ),
            delete(s, "s"),
        ),
        case(
            "a node port twice",
            create(
                s,
                service(
                    "s",
                    type="NodePort",
                    ports=[
                        {"name": "a", "port": 53, "nodePort": 30052},
                        {"name": "b", "port": 54, "nodePort": 30052},
                    ],
                ),
            ),
        ),
        case(
            "a balancer",
            create(s, service("s", type="LoadBalancer")),
            table(s, "s"),
            change(
                s,
                "s",
                status_of(loadBalancer={"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a.b"}]}),
                "status",
            ),
            table(s, "s"),
            change(s, "s", spec_of(type="ClusterIP")),
            read(s, "s"),
        ),
        case(
            "a balancer without node ports",
            create(
                s,
                service(
                    "s", type="LoadBalancer", allocateLoadBalancerNodePorts=False, loadBalancerClass="x/y"
                ),
            ),
            change(s, "s", spec_of(loadBalancerClass="x/z")),
            change(s, "s", spec_of(type="NodePort")),
        ),
        case(
            "a local balancer",
            create(
                s, service("s", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30060)
            ),
            change(s, "s", spec_of(healthCheckNodePort=30061)),
            change(s, "s", without("healthCheckNodePort")),
            change(s, "s", spec_of(externalTrafficPolicy="Cluster")),
            delete(s, "s"),
        ),
        case(
            "a local balancer draws",
            create(s, service("s", type="LoadBalancer", externalTrafficPolicy="Local")),
        ),
        case(
            "ingress on ClusterIP",
            create(s, service("s")),
            change(s, "s", status_of(loadBalancer={"ingress": [{"ip": "1.2.3.4"}]}), "status"),
        ),
        case(
            "a bad ingress",
            create(s, service("s", type="LoadBalancer")),
            change(
                s,
                "s",
                status_of(
                    loadBalancer={
                        "ingress": [
                            {"ip": "x"},
                            {"hostname": "1.2.3.4"},
                            {"hostname": "a", "ipMode": "VIP"},
                            {"ip": "1.2.3.4", "ipMode": "Fast"},
                        ]
                    }
                ),
                "status",
            ),
        ),
        case(
            "the status subresource keeps the spec",
            create(s, service("s")),
            change(s, "s", spec_of(selector={"x": "y"}), "status"),
            read(s, "s"),
        ),
        case(
            "a plain PUT inherits",
            create(s, service("s", type="NodePort", ports=ports(80, 81))),
            put(s, "s", {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports(80, 82)}}),
            read(s, "s"),
        ),
        case(
            "a PUT creates", put(s, "new", service("new")), put(s, "new", service("new", selector={"a": "c"}))
        ),
        case("a PUT of another name", create(s, service("s")), put(s, "s", service("t"))),
        case("ports are required", create(s, service("s")), change(s, "s", spec_of(ports=[]))),
        case(
            "the cluster IP stays",
            create(s, service("s")),
            change(s, "s", spec_of(clusterIP="10.96.0.62", clusterIPs=["10.96.0.62"])),
        ),
        case(
            "clusterIP changed alone",
            create(s, service("s")),
            change(s, "s", spec_of(clusterIP="10.96.0.62")),
        ),
        case(
            "to None",
            create(s, service("s", clusterIP="10.96.0.63")),
            change(s, "s", spec_of(clusterIP="None", clusterIPs=["None"])),
        ),
        case(
            "from None",
            create(s, service("s", clusterIP="None", selector={"a": "b"})),
            change(s, "s", spec_of(clusterIP="10.96.0.63", clusterIPs=["10.96.0.63"])),
        ),
        case(
            "clearing the address inherits it",
            create(s, service("s")),
            change(s, "s", without("clusterIP", "clusterIPs")),
            change(s, "s", without("clusterIP")),
        ),
        case(
            "to ExternalName and back",
            create(s, service("s")),
            change(s, "s", spec_of(type="ExternalName", externalName="a.b")),
            change(s, "s", spec_of(type="ClusterIP", externalName=None)),
            read(s, "s"),
        ),
        case(
            "to NodePort and back",
            create(s, service("s")),
            change(s, "s", spec_of(type="NodePort")),
            change(s, "s", spec_of(type="ClusterIP")),
            read(s, "s"),
        ),
        case(
            "NodePort to ClusterIP with another port",
            create(s, service("s", type="NodePort", ports=[{"port": 80, "nodePort": 30053}])),
            change(s, "s", spec_of(type="ClusterIP", ports=[{"port": 80, "nodePort": 30054}])),
        ),
        case(
            "to ExternalName with another address",
            create(s, service("s")),
            change(s, "s", spec_of(type="ExternalName", externalName="a.b", clusterIP="10.96.0.64")),
        ),
        case(
            "up to two families",
            create(s, service("s")),
            change(s, "s", spec_of(ipFamilyPolicy="RequireDualStack")),
            change(s, "s", spec_of(ipFamilyPolicy="SingleStack")),
        ),
        case(
            "prefer two, then one",
            create(s, service("s", ipFamilyPolicy="PreferDualStack")),
            change(s, "s", spec_of(ipFamilyPolicy="SingleStack")),
            change(s, "s", spec_of(ipFamilyPolicy="PreferDualStack")),
            change(s, "s", without("ipFamilyPolicy")),
        ),
        case(
            "one less without an explicit choice",
            create(
                s,
                service(
                    "s",
                    ipFamilyPolicy="RequireDualStack",
                    clusterIP="10.96.0.65",
                    clusterIPs=["10.96.0.65", "fd00:10:96::65"],
                ),
            ),
            change(s, "s", spec_of(clusterIPs=["10.96.0.65"])),
            change(s, "s", spec_of(ipFamilies=["IPv4"])),
        ),
        case(
            "another first family",
            create(s, service("s", ipFamilyPolicy="RequireDualStack")),
            change(s, "s", spec_of(ipFamilies=["IPv6", "IPv4"])),
        ),
        case(
            "a second address chosen",
            create(s, service("s", clusterIP="10.96.0.66")),
            change(
                s, "s", spec_of(ipFamilyPolicy="PreferDualStack", clusterIPs=["10.96.0.66", "fd00:10:96::66"])
            ),
        ),
        case(
            "one stack with two addresses",
            create(s, service("s", clusterIP="10.96.0.67")),
            change(s, "s", spec_of(clusterIPs=["10.96.0.67", "fd00:10:96::67"])),
        ),
        case(
            "a merge patch of ports",
            create(s, service("s", type="NodePort")),
            patch(s, "s", {"spec": {"ports": [{"port": 81}]}}),
            read(s, "s"),
        ),
        case(
            "a dry run takes nothing",
            create(s, service("s", clusterIP="10.96.0.68"), "?dryRun=All"),
            create(s, service("s", clusterIP="10.96.0.68")),
        ),
        case(
            "a failed create takes nothing",
            create(s, service("s", clusterIP="10.96.0.69", externalIPs=["x"])),
            create(s, service("s", clusterIP="10.96.0.69")),
        ),
        case("no change, same generation", create(s, service("s")), change(s, "s", lambda obj: None)),
    ]


def slice_of(address_type: str = "IPv4", **members: Any) -> JSON:
    return {
        "metadata": {"name": "e"},
        "addressType": address_type,
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        **members,
    }


def endpoints(*addresses: Any, **members: Any) -> list[JSON]:
    return [{"addresses": list(addresses), **members}]


def endpoint_slices() -> list[Case]:
    e = "endpointslices"
    wrong: Mapping[str, JSON] = {
        "no address type": {"metadata": {"name": "e"}, "endpoints": []},
        "an unknown type": slice_of("IPX"),
        "no address": slice_of(endpoints=[{"addresses": []}]),
        "101 addresses": slice_of(endpoints=endpoints(*(f"10.0.0.{i}" for i in range(1, 102)))),
        "1001 endpoints": slice_of(endpoints=endpoints("10.0.0.1") * 1001),
        "v6 in v4": slice_of(endpoints=endpoints("fd00::1")),
        "v4 in v6": slice_of("IPv6", endpoints=endpoints("10.0.0.1")),
        "not canonical": slice_of("IPv6", endpoints=endpoints("fd00:0::1")),
        "zeros": slice_of(endpoints=endpoints("010.0.0.1")),
        "no address at all": slice_of(endpoints=endpoints("x")),
        "mapped": slice_of(endpoints=endpoints("::ffff:10.0.0.1")),
        "of no use to others": slice_of(
            endpoints=endpoints("127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.5")
        ),
        "v6 of no use to others": slice_of("IPv6", endpoints=endpoints("::1", "::", "fe80::1", "ff02::1")),
        "a bad name": slice_of("FQDN", endpoints=endpoints("a", "-.b", "")),
        "a bad hostname": slice_of(endpoints=endpoints("10.0.0.1", hostname="a.b")),
        "a bad node name": slice_of(endpoints=endpoints("10.0.0.1", nodeName="A")),
        "9 zones": slice_of(
            endpoints=endpoints("10.0.0.1", hints={"forZones": [{"name": f"z{i}"} for i in range(9)]})
        ),
        "a duplicate zone": slice_of(
            endpoints=endpoints(
                "10.0.0.1", hints={"forZones": [{"name": "z"}, {"name": "z"}, {"name": "a b"}]}
            )
        ),
        "a duplicate node": slice_of(
            endpoints=endpoints("10.0.0.1", hints={"forNodes": [{"name": "n"}, {"name": "n"}, {"name": "A"}]})
        ),
        "ports of one name": slice_of(ports=[{"port": 1}, {"port": 2}, {"name": "a"}, {"name": "a"}]),
        "a bad port": slice_of(ports=[{"port": 1, "name": "A", "protocol": "X", "appProtocol": "a b"}]),
    }
    return [
        *(case(f"refused: {title}", create(e, body)) for title, body in wrong.items()),
        case(
            "all of it",
            create(
                e,
                slice_of(
                    ports=[{"port": 80}, {"name": "u", "protocol": "UDP"}],
                    endpoints=[
                        {
                            "addresses": ["10.0.0.1"],
                            "conditions": {"ready": True, "serving": True, "terminating": False},
                            "hostname": "h",
                            "nodeName": "n",
                            "zone": "z",
                            "targetRef": {"kind": "Pod", "name": "p"},
                            "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]},
                            "deprecatedTopology": {"a": "b"},
                        }
                    ],
                ),
            ),
            table(e, "e"),
            read(e, "e"),
        ),
        case("empty", create(e, slice_of(endpoints=[])), table(e, "e")),
        case(
            "many",
            create(
                e,
                slice_of(
                    endpoints=[{"addresses": [f"10.0.0.{i}"]} for i in range(1, 6)],
                    ports=[{"name": f"p{i}", "port": i} for i in range(1, 6)],
                ),
            ),
            table(e, "e"),
        ),
        case(
            "FQDN warns",
            create(e, slice_of("FQDN", endpoints=endpoints("a.example.com"))),
            patch(e, "e", {"metadata": {"labels": {"a": "b"}}}),
        ),
        case(
            "the generation",
            create(e, slice_of()),
            patch(e, "e", {"metadata": {"annotations": {"a": "b"}}}),
            patch(e, "e", {"metadata": {"labels": {"a": "b"}}}),
            patch(e, "e", {"ports": [{"port": 1}]}),
            patch(e, "e", {"ports": [{"port": 1}]}),
            put(e, "e", {**slice_of(), "addressType": "IPv6", "endpoints": []}),
        ),
        case("no creation by PUT", put(e, "e", slice_of())),
    ]


def core_endpoints() -> list[Case]:
    e = "endpoints"

    def body(*subsets: JSON) -> JSON:
        return {"metadata": {"name": "e"}, "subsets": list(subsets)}

    one = {"addresses": [{"ip": "10.0.0.1"}]}
    wrong: Mapping[str, JSON] = {
        "no addresses": body({"ports": [{"port": 80}]}),
        "a bad address": body(
            {"addresses": [{"ip": "x"}, {"ip": "010.0.0.1"}, {"ip": "127.0.0.1"}, {"ip": ""}]}
        ),
        "bad names": body({"notReadyAddresses": [{"ip": "10.0.0.1", "hostname": "a.b", "nodeName": "A"}]}),
        "ports": body(
            {
                **one,
                "ports": [
                    {"port": 0},
                    {"port": 99999, "name": "A"},
                    {"port": 1, "name": "a", "protocol": "X"},
                ],
            }
        ),
        "an app protocol": body({**one, "ports": [{"port": 1, "appProtocol": "a b"}]}),
    }
    return [
        *(case(f"refused: {title}", create(e, wrong_body)) for title, wrong_body in wrong.items()),
        case(
            "all of it",
            create(
                e,
                body(
                    {
                        **one,
                        "notReadyAddresses": [{"ip": "10.0.0.2", "hostname": "h", "nodeName": "n"}],
                        "ports": [{"port": 80}],
                    }
                ),
            ),
            table(e, "e"),
            delete(e, "e"),
        ),
        case(
            "many",
            create(
                e,
                body(
                    {"addresses": [{"ip": f"10.0.0.{i}"} for i in range(1, 6)], "ports": ports(80, 81)},
                    {"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 1}]},
                ),
            ),
            table(e, "e"),
        ),
        case(
            "v6",
            create(e, body({"addresses": [{"ip": "fd00::1"}, {"ip": "FD00:0::2"}], "ports": [{"port": 1}]})),
            table(e, "e"),
        ),
        case("no subsets", put(e, "e", {"metadata": {"name": "e"}}), table(e, "e")),
        case(
            "only those that are not ready",
            create(e, body({"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]})),
            table(e, "e"),
        ),
    ]


def small_kinds() -> list[Case]:
    c, s, le, sa = "configmaps", "secrets", "leases", "serviceaccounts"

    def named(**members: Any) -> JSON:
        return {"metadata": {"name": "x"}, **members}

    def secret(kind: str, **data: str) -> JSON:
        return named(type=kind, data=data)

    return [
        case(
            "config: all",
            create(c, named(data={"a": "b"}, binaryData={"c": "AAE="})),
            table(c, "x"),
            delete(c, "x"),
        ),
        case(
            "config: bad keys", create(c, named(data={"a b": "", "..": "", "..x": ""}, binaryData={"/": ""}))
        ),
        case("config: both", create(c, named(data={"a": ""}, binaryData={"a": ""}))),
        case("config: too large", create(c, named(data={"a": "x" * 1048577}))),
        case(
            "config: immutable",
            create(c, named(data={"a": "b"}, immutable=True)),
            patch(c, "x", {"data": {"a": "c"}}),
            patch(c, "x", {"immutable": None}),
            patch(c, "x", {"binaryData": {"z": "AA=="}}),
            patch(c, "x", {"metadata": {"labels": {"a": "b"}}}),
        ),
        case(
            "config: a bad name",
            create(c, {"metadata": {"name": "A_b"}}),
            create(c, {"metadata": {"name": "a" * 254}}),
            create(c, {"metadata": {"name": "a."}}),
        ),
        case(
            "config: labels",
            create(
                c,
                {"metadata": {"name": "x", "labels": {"/x": "", "a": "-", "b" * 64: "x" * 64}}},
            ),
        ),
        case(
            "secret: text",
            create(s, named(stringData={"a": "b"}, data={"a": "eA==", "c": "eA=="})),
            table(s, "x"),
            patch(s, "x", {"type": "other"}),
            patch(s, "x", {"stringData": {"n": "m"}}),
        ),
        case("secret: keys", create(s, named(data={"a b": ""}))),
        case("secret: tls", create(s, secret("kubernetes.io/tls"))),
        case("secret: ssh", create(s, secret("kubernetes.io/ssh-auth"))),
        case("secret: basic", create(s, secret("kubernetes.io/basic-auth"))),
        case("secret: docker", create(s, secret("kubernetes.io/dockerconfigjson"))),
        case("secret: dockercfg", create(s, secret("kubernetes.io/dockercfg", **{".dockercfg": "e30="}))),
        case("secret: account", create(s, secret("kubernetes.io/service-account-token"))),
        case(
            "secret: immutable",
            create(s, named(data={"a": "eA=="}, immutable=True)),
            patch(s, "x", {"data": {"a": "eQ=="}}),
        ),
        case(
            "account",
            create(
                sa, named(secrets=[{"name": "a", "namespace": "b"}, {}], imagePullSecrets=[{"name": "p"}])
            ),
            table(sa, "x"),
            delete(sa, "x"),
        ),
        case(
            "lease",
            create(
                le,
                named(
                    spec={
                        "holderIdentity": "me",
                        "leaseDurationSeconds": 15,
                        "renewTime": "2024-01-01T00:00:00.000000Z",
                        "leaseTransitions": 1,
                        "strategy": "OldestEmulationVersion",
                        "preferredHolder": "p",
                    }
                ),
            ),
            table(le, "x"),
            put(le, "x", named()),
        ),
        case("lease: wrong", create(le, named(spec={"leaseDurationSeconds": 0, "leaseTransitions": -1}))),
        case("lease: by PUT", put(le, "x", named(spec={"holderIdentity": "a"})), table(le, "x")),
        case(
            "revision",
            create("controllerrevisions", named(data={"a": 1}, revision=3)),
            table("controllerrevisions", "x"),
            change("controllerrevisions", "x", lambda obj: obj.update(revision=4)),
            change("controllerrevisions", "x", lambda obj: obj.update(data={"a": 2})),
            change("controllerrevisions", "x", lambda obj: obj.update(revision=-1)),
        ),
        case(
            "revision: wrong",
            create("controllerrevisions", named(revision=-1)),
            create("controllerrevisions", named(data=[1], revision=1)),
        ),
        case(
            # Compared as created: its owner does not exist, so the embedded server garbage-collects it.
            "revision: owned",
            Step(
                "POST",
                "controllerrevisions",
                as_table=True,
                body={
                    "metadata": {
                        "name": "x",
                        "ownerReferences": [
                            {
                                "apiVersion": "apps/v1",
                                "kind": "DaemonSet",
                                "name": "d",
                                "uid": "1",
                                "controller": True,
                            }
                        ],
                    },
                    "data": {},
                    "revision": 0,
                },
            ),
        ),
    ]


def events() -> list[Case]:
    e, n = "events", "newevents"
    about = {"kind": "Pod", "name": "p", "namespace": "{ns}"}
    return [
        case(
            "core: elsewhere",
            create(e, {"metadata": {"name": "x"}, "involvedObject": {"namespace": "other"}}),
        ),
        case(
            "core: of the cluster",
            create(e, {"metadata": {"name": "x"}, "involvedObject": {"kind": "Node", "name": "n"}}),
        ),
        case(
            "core: new fields",
            create(
                e,
                {
                    "metadata": {"name": "x"},
                    "involvedObject": {"namespace": "other"},
                    "eventTime": "2024-01-01T00:00:00.000000Z",
                },
            ),
        ),
        case(
            "core: too long",
            create(
                e,
                {
                    "metadata": {"name": "x"},
                    "involvedObject": {"namespace": "other"},
                    "eventTime": "2024-01-01T00:00:00.000000Z",
                    "action": "a" * 129,
                    "reason": "r" * 129,
                    "reportingComponent": "a b",
                    "reportingInstance": "i" * 129,
                    "message": "m" * 1025,
                },
            ),
        ),
        case("new: nothing", create(n, {"metadata": {"name": "x"}})),
        case(
            "new: old fields",
            create(
                n,
                {
                    "metadata": {"name": "x"},
                    "regarding": {"namespace": "other"},
                    "type": "Odd",
                    "deprecatedCount": 1,
                    "deprecatedSource": {"component": "c"},
                    "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
                    "series": {"count": 1},
                },
            ),
        ),
        case(
            "new: a good one",
            create(
                n,
                {
                    "metadata": {"name": "x"},
                    "regarding": {"kind": "Pod", "name": "p", "namespace": "other"},
                    "type": "Normal",
                    "eventTime": "2024-01-01T00:00:00.000000Z",
                    "action": "a",
                    "reason": "r",
                    "reportingController": "c/d",
                    "reportingInstance": "i",
                    "note": "n",
                },
            ),
            read(e, "x"),
            read(n, "x"),
            table(e, "x"),
            table(n, "x"),
            patch(n, "x", {"note": "m"}),
            patch(n, "x", {"series": {"count": 1}}),
            patch(n, "x", {"series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:01.000000Z"}}),
            delete(n, "x"),
        ),
        case("an unused form", create(e, {"metadata": {"name": "x"}, "involvedObject": about})),
    ]


def namespaces() -> list[Case]:
    n = "namespaces"
    return [
        case(
            "defaults", create(n, {"metadata": {"name": "kinds-a"}}), table(n, "kinds-a"), read(n, "kinds-a")
        ),
        case(
            "labels are forced",
            create(n, {"metadata": {"name": "kinds-b", "labels": {"kubernetes.io/metadata.name": "x"}}}),
            patch(n, "kinds-b", {"metadata": {"labels": {"kubernetes.io/metadata.name": "y", "a": "b"}}}),
        ),
        case(
            "finalizers",
            create(n, {"metadata": {"name": "kinds-c"}, "spec": {"finalizers": ["a.b/c"]}}),
            patch(n, "kinds-c", {"spec": {"finalizers": []}}),
        ),
        case(
            "bad finalizers",
            create(n, {"metadata": {"name": "kinds-d"}, "spec": {"finalizers": ["x", "a b/c"]}}),
        ),
        case("a bad name", create(n, {"metadata": {"name": "a.b"}}), create(n, {"metadata": {"name": "A"}})),
        case(
            "protected namespaces", delete(n, "default"), delete(n, "kube-system"), delete(n, "kube-public")
        ),
        case(
            # Only the embedded server runs a namespace controller here, so the comparison ends with the deletion.
            "deletion",
            create(n, {"metadata": {"name": "kinds-e", "finalizers": ["a.b/c"]}}),
            delete(n, "kinds-e"),
            table(n, "kinds-e"),
            change(n, "kinds-e", status_of(phase="Active"), "status"),
        ),
        case(
            "no end by status",
            create(n, {"metadata": {"name": "kinds-f"}}),
            change(n, "kinds-f", status_of(phase="Terminating"), "status"),
            change(n, "kinds-f", status_of(conditions=[{"type": "A", "status": "True"}]), "status"),
        ),
        case(
            "finalize, wrongly",
            create(n, {"metadata": {"name": "kinds-g"}}),
            change(n, "kinds-g", spec_of(finalizers=["x"]), "finalize"),
            change(n, "kinds-g", spec_of(finalizers=["a.b/c"]), "finalize"),
        ),
    ]


def nodes() -> list[Case]:
    n = "nodes"

    def node(name: str, **members: Any) -> JSON:
        return {"metadata": {"name": name}, **members}

    return [
        case("defaults", create(n, node("kinds-1")), table(n, "kinds-1"), delete(n, "kinds-1")),
        case(
            "taints",
            create(n, node("kinds-2", spec={"taints": [{"key": "a", "effect": "NoExecute"}]})),
            change(n, "kinds-2", without("taints")),
            change(n, "kinds-2", spec_of(unschedulable=True)),
            table(n, "kinds-2"),
        ),
        case(
            "bad taints",
            create(
                n,
                node(
                    "kinds-3",
                    spec={
                        "taints": [
                            {"key": "a b", "effect": "X"},
                            {"key": "a", "value": "-", "effect": "NoExecute"},
                            {"key": "a", "effect": "NoExecute"},
                            {"key": "b", "effect": ""},
                        ]
                    },
                ),
            ),
        ),
        case(
            "networks",
            create(
                n,
                node(
                    "kinds-4", spec={"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a"}
                ),
            ),
            change(n, "kinds-4", spec_of(podCIDR="10.2.0.0/24", podCIDRs=["10.2.0.0/24"])),
            change(n, "kinds-4", spec_of(providerID="b")),
        ),
        case(
            "bad networks",
            create(n, node("kinds-5", spec={"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]})),
            create(n, node("kinds-5", spec={"podCIDRs": ["x"]})),
        ),
        case(
            "roles and states",
            create(
                n,
                {
                    "metadata": {
                        "name": "kinds-6",
                        "labels": {
                            "node-role.kubernetes.io/a": "",
                            "kubernetes.io/role": "b",
                            "node-role.kubernetes.io/": "",
                        },
                    }
                },
            ),
            change(
                n,
                "kinds-6",
                status_of(
                    conditions=[{"type": "Ready", "status": "True"}],
                    addresses=[
                        {"type": "InternalIP", "address": "1.2.3.4"},
                        {"type": "ExternalIP", "address": "5.6.7.8"},
                    ],
                    nodeInfo={
                        "osImage": "o",
                        "kernelVersion": "k",
                        "containerRuntimeVersion": "c",
                        "architecture": "amd64",
                        "kubeletVersion": "v1",
                        "machineID": "",
                        "systemUUID": "",
                        "bootID": "",
                        "kubeProxyVersion": "",
                        "operatingSystem": "",
                    },
                ),
                "status",
            ),
            table(n, "kinds-6"),
        ),
        case(
            "addresses twice",
            create(n, node("kinds-7")),
            change(
                n,
                "kinds-7",
                status_of(
                    addresses=[
                        {"type": "InternalIP", "address": "1.2.3.4"},
                        {"type": "InternalIP", "address": "1.2.3.4"},
                    ]
                ),
                "status",
            ),
        ),
        case("capacity", create(n, node("kinds-8", status={"capacity": {"cpu": "-1", "a/b": "500m"}}))),
        case("a bad name", create(n, node("A"))),
        case("an external ID warns", create(n, node("kinds-9", spec={"externalID": "x"}))),
        case(
            "the main resource keeps the status",
            create(n, node("kinds-10")),
            change(n, "kinds-10", status_of(phase="Running")),
        ),
    ]


AREAS: Mapping[str, Sequence[Case]] = {
    "services-refused": refused_services(),
    "services-changed": changed_services(),
    "endpointslices": endpoint_slices(),
    "endpoints": core_endpoints(),
    "small": small_kinds(),
    "events": events(),
    "namespaces": namespaces(),
    "nodes": nodes(),
    "pods": PODS,
    "deployments": DEPLOYMENTS,
    "replicasets": REPLICA_SETS,
    "statefulsets": STATEFUL_SETS,
    "daemonsets": DAEMON_SETS,
}
