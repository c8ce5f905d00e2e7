"""Allocation of cluster IPs and node ports on create and update, and their release."""

import ipaddress
from collections.abc import Sequence
from functools import partial

from tinykube.server.errors import FieldError, internal, invalid, invalid_value
from tinykube.server.json_access import get_int, get_list, get_str, raw_json, set_or_remove, string_list
from tinykube.server.objects import JsonObject
from tinykube.server.registry.allocator import Allocator, address_allocator, port_allocator
from tinykube.server.registry.definition import Request
from tinykube.server.registry.ips import Family, family_of, parse_sloppy
from tinykube.server.registry.service_addresses import cluster_ip_errors
from tinykube.server.registry.service_spec import (
    HEADLESS,
    PREFER_DUAL,
    REQUIRE_DUAL,
    SINGLE,
    allocates_node_ports,
    needs_health_check_port,
    needs_node_ports,
    node_ports,
)

_OTHER: dict[str, Family] = {"IPv4": "IPv6", "IPv6": "IPv4"}


def _same(spec: JsonObject, old: JsonObject, name: str) -> bool:
    return get_list(spec, name) == get_list(old, name)


class ServiceAllocation:
    """The allocators of one server. Allocations of a write that does not happen are released."""

    def __init__(self, cidrs: Sequence[str], node_port_range: tuple[int, int]) -> None:
        networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
        self._networks = {("IPv4" if network.version == 4 else "IPv6"): network for network in networks}
        self._addresses: dict[str, Allocator] = {
            family: address_allocator(network) for family, network in self._networks.items()
        }
        self._families = tuple(self._addresses)
        self._ports = port_allocator(*node_port_range)

    # ------------------------------------------------------------------------------- public

    def for_create(self, request: Request, name: str, spec: JsonObject) -> None:
        """Set the families, and allocate for a new service. Raises 422, and 500 if a range is exhausted."""
        self._set_families(name, spec, None)
        self._take_cluster_ips(request, name, spec)
        if needs_node_ports(spec):
            self._take_node_ports(request, name, spec)
        if needs_health_check_port(spec):
            self._take_health_check_port(request, spec)

    def for_update(self, request: Request, name: str, spec: JsonObject, old: JsonObject) -> None:
        """Allocate addresses and ports that an update adds; release removed ones once it is durable."""
        self._set_families(name, spec, old)
        self._update_cluster_ips(request, name, spec, old)
        if needs_node_ports(old) and not needs_node_ports(spec):
            self._release_ports(request, node_ports(old))
        if needs_node_ports(spec):
            self._update_node_ports(request, name, spec, old)
        if needs_health_check_port(spec) and not needs_health_check_port(old):
            self._take_health_check_port(request, spec)
        elif needs_health_check_port(old) and not needs_health_check_port(spec):
            self._release_ports(request, [get_int(old, "healthCheckNodePort")])

    def record(self, spec: JsonObject) -> None:
        """Mark a stored service's addresses and ports as allocated (at start-up). Idempotent."""
        for ip in self._cluster_ips(spec):
            family = family_of(ip)
            if family in self._addresses:
                self._addresses[family].allocate(int(ipaddress.ip_address(ip)))
        for port in self._all_ports(spec):
            self._ports.allocate(port)

    def release(self, spec: JsonObject) -> None:
        """Release the addresses and ports of a removed service."""
        for ip in self._cluster_ips(spec):
            self._free_ip(ip)
        for port in self._all_ports(spec):
            self._ports.release(port)

    def _cluster_ips(self, spec: JsonObject) -> list[str]:
        return [ip for ip in get_list(spec, "clusterIPs") if ip != HEADLESS]

    def _all_ports(self, spec: JsonObject) -> list[int]:
        health = get_int(spec, "healthCheckNodePort") if needs_health_check_port(spec) else 0
        return [*node_ports(spec), *([health] if health else [])]

    def _free_ip(self, ip: str) -> None:
        family, address = family_of(ip), parse_sloppy(ip)
        if family in self._addresses and address is not None:
            self._addresses[family].release(int(address))

    # ------------------------------------------------------------------------------- families

    def _set_families(self, name: str, spec: JsonObject, old: JsonObject | None) -> None:
        if get_str(spec, "type") == "ExternalName" or (old is not None and _still_prefers_both(spec, old)):
            return
        selectorless_headless = get_str(spec, "clusterIP") == HEADLESS and not spec.get("selector")
        if spec.get("ipFamilyPolicy") is None:
            if old is not None and old.get("ipFamilyPolicy") is not None:
                spec["ipFamilyPolicy"] = old["ipFamilyPolicy"]
            else:
                spec["ipFamilyPolicy"] = REQUIRE_DUAL if selectorless_headless else SINGLE
        _refuse(name, cluster_ip_errors(spec, old))
        _refuse(name, _step_errors(spec, old))
        _refuse(name, self._derive_families(spec))
        families = get_list(spec, "ipFamilies")
        both = spec["ipFamilyPolicy"] != SINGLE
        if selectorless_headless:
            # Users manage its endpoints, so both families may be publishedon any cluster.
            families = families or [self._families[0]]
            if both and len(families) < 2:
                families = [*families, _OTHER[families[0]]]
            spec["ipFamilies"] = families
            return
        _refuse(name, self._configuration_errors(spec))
        families = families or [self._families[0]]
        if both and len(families) == 1 and len(self._families) == 2:
            families = [*families, _OTHER[families[0]]]
        spec["ipFamilies"] = families

    def _derive_families(self, spec: JsonObject) -> list[FieldError]:
        """Derive missing families from the requested cluster IPs."""
        errors = []
        policy, ips = spec["ipFamilyPolicy"], get_list(spec, "clusterIPs")
        if policy == SINGLE:
            text_of = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
            if len(ips) == 2:
                errors.append(invalid_value("spec.ipFamilyPolicy", policy, text_of.format("cluster IPs")))
            if len(get_list(spec, "ipFamilies")) == 2:
                errors.append(invalid_value("spec.ipFamilyPolicy", policy, text_of.format("IP families")))
        for index, ip in enumerate(ips):
            if ip == HEADLESS:
                break
            if index < len(get_list(spec, "ipFamilies")):
                continue
            family = family_of(ip)
            if family not in self._addresses:
                detail = f"{family} is not configured on this cluster"
                errors.append(invalid_value(f"spec.clusterIPs[{index}]", string_list(ips), detail))
            else:
                spec["ipFamilies"] = [*get_list(spec, "ipFamilies"), family]
        return errors

    def _configuration_errors(self, spec: JsonObject) -> list[FieldError]:
        errors = []
        policy = spec["ipFamilyPolicy"]
        if policy == REQUIRE_DUAL and len(self._families) < 2:
            detail = "this cluster is not configured for dual-stack services"
            errors.append(invalid_value("spec.ipFamilyPolicy", policy, detail))
        for index, family in enumerate(get_list(spec, "ipFamilies")):
            if family not in self._addresses:
                errors.append(
                    invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
                )
        return errors

    # ------------------------------------------------------------------------------- addresses

    def _take_cluster_ips(self, request: Request, name: str, spec: JsonObject) -> None:
        ips = get_list(spec, "clusterIPs")
        if get_str(spec, "type") == "ExternalName" or ips[:1] == [HEADLESS]:
            return
        families = get_list(spec, "ipFamilies")
        taken = [
            self._take_ip(request, name, family, ips[index] if index < len(ips) else "", ips)
            for index, family in enumerate(families)
        ]
        spec["clusterIPs"] = taken
        set_or_remove(spec, "clusterIP", taken[0] if taken else None)

    def _update_cluster_ips(self, request: Request, name: str, spec: JsonObject, old: JsonObject) -> None:
        if _still_prefers_both(spec, old):
            return
        was_external, is_external = (
            get_str(old, "type") == "ExternalName",
            get_str(spec, "type") == "ExternalName",
        )
        if was_external and not is_external:
            self._take_cluster_ips(request, name, spec)
            return
        old_ips = get_list(old, "clusterIPs")
        if old_ips[:1] == [HEADLESS]:
            return
        if is_external and not was_external:
            self._release_ips(request, old_ips)
            return
        before, after = len(get_list(old, "ipFamilies")), len(get_list(spec, "ipFamilies"))
        ips = get_list(spec, "clusterIPs")
        if (before, after) == (1, 2):
            requested = ips[1] if len(ips) > 1 else ""
            second = self._take_ip(request, name, get_list(spec, "ipFamilies")[1], requested, ips)
            spec["clusterIPs"] = [*ips[:1], second]
        elif (before, after) == (2, 1):
            self._release_ips(request, old_ips[1:2])

    def _take_ip(self, request: Request, name: str, family: str, requested: str, shown: Sequence[str]) -> str:
        pool = self._addresses[family]
        if not requested:
            allocated = pool.allocate_next(request.rng)
            if allocated is None:
                raise internal(f'failed to allocate a serviceIP for Service "{name}": range is full')
            request.on_failure.append(partial(pool.release, allocated))
            kind = ipaddress.IPv4Address if family == "IPv4" else ipaddress.IPv6Address
            return str(kind(allocated))
        address = parse_sloppy(requested)
        value = int(address) if address is not None else -1
        why = ""
        if value not in pool:
            why = "the provided network does not match the current range"
        elif not pool.allocate(value):
            why = "provided IP is already allocated"
        if why:
            padded = [*shown, *[""] * (len(shown) == 0)]
            detail = f"failed to allocate IP {requested}: {why}"
            raise invalid(
                "", "Service", name, [invalid_value("spec.clusterIPs", string_list(padded), detail)]
            )
        request.on_failure.append(partial(pool.release, value))
        return requested

    def _release_ips(self, request: Request, ips: Sequence[str]) -> None:
        for ip in ips:
            request.on_commit.append(partial(self._free_ip, ip))

    # ------------------------------------------------------------------------------- ports

    def _take_node_ports(self, request: Request, name: str, spec: JsonObject) -> None:
        """Allocate one node port per port for all its protocols: an explicit one applies to the others, too."""
        chosen: dict[int, int] = {}
        ports = get_list(spec, "ports")
        for index, port in enumerate(ports):
            requested, numbered = get_int(port, "nodePort"), get_int(port, "port")
            if not requested and not allocates_node_ports(spec):
                continue
            if numbered not in chosen:
                wanted = next(
                    (
                        get_int(one, "nodePort")
                        for one in ports
                        if get_int(one, "port") == numbered and get_int(one, "nodePort")
                    ),
                    0,
                )
                chosen[numbered] = self._take_port(request, name, index, wanted)
                port["nodePort"] = chosen[numbered]
            elif not requested:
                port["nodePort"] = chosen[numbered]
            elif requested != chosen[numbered]:
                self._take_port(request, name, index, requested)

    def _update_node_ports(self, request: Request, name: str, spec: JsonObject, old: JsonObject) -> None:
        before = set(node_ports(old)) if needs_node_ports(old) else set()
        taken: set[int] = set()
        for index, port in enumerate(get_list(spec, "ports")):
            requested = get_int(port, "nodePort")
            if requested and requested not in before and requested not in taken:
                taken.add(self._take_port(request, name, index, requested))
            elif not requested and allocates_node_ports(spec):
                port["nodePort"] = self._take_port(request, name, index, 0)
        self._release_ports(request, sorted(before - set(node_ports(spec))))

    def _take_port(self, request: Request, name: str, index: int, requested: int) -> int:
        if not requested:
            allocated = self._ports.allocate_next(request.rng)
            if allocated is None:
                raise internal("failed to allocate a nodePort: range is full")
            request.on_failure.append(partial(self._ports.release, allocated))
            return allocated
        problem = self._port_problem(requested)
        if problem:
            errors = [invalid_value(f"spec.ports[{index}].nodePort", requested, problem)]
            raise invalid("", "Service", name, errors)
        request.on_failure.append(partial(self._ports.release, requested))
        return requested

    def _port_problem(self, requested: int) -> str:
        if requested not in self._ports:
            valid = f"{self._ports.first}-{self._ports.last}"
            return f"provided port is not in the valid range. The range of valid ports is {valid}"
        return "" if self._ports.allocate(requested) else "provided port is already allocated"

    def _take_health_check_port(self, request: Request, spec: JsonObject) -> None:
        requested = get_int(spec, "healthCheckNodePort")
        if not requested:
            allocated = self._ports.allocate_next(request.rng)
            if allocated is None:
                raise internal("failed to allocate a HealthCheck NodePort 0: range is full")
            spec["healthCheckNodePort"] = requested = allocated
        elif problem := self._port_problem(requested):
            raise internal(f"failed to allocate requested HealthCheck NodePort {requested}: {problem}")
        request.on_failure.append(partial(self._ports.release, requested))

    def _release_ports(self, request: Request, ports: Sequence[int]) -> None:
        for port in ports:
            request.on_commit.append(partial(self._ports.release, port))


def _refuse(name: str, errors: Sequence[FieldError]) -> None:
    if errors:
        raise invalid("", "Service", name, errors)


def _still_prefers_both(spec: JsonObject, old: JsonObject) -> bool:
    """Return whether the addresses need no change: both families were preferred and still are."""
    return (
        spec.get("ipFamilyPolicy") == PREFER_DUAL
        and old.get("ipFamilyPolicy") in (None, PREFER_DUAL)
        and get_str(spec, "type") == get_str(old, "type")
        and get_str(spec, "type") in ("ClusterIP", "NodePort", "LoadBalancer")
        and _same(spec, old, "clusterIPs")
        and _same(spec, old, "ipFamilies")
    )


def _step_errors(spec: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Trim the secondary address when the policy becomes single-stack; return errors if it is removed otherwise."""
    if old is None:
        return []
    policy = spec["ipFamilyPolicy"]
    errors = []
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        values = get_list(spec, name)
        if policy == SINGLE:
            if _same(spec, old, name) and len(values) > 1:
                spec[name] = values[:1]
        elif values and len(values) < len(get_list(old, name)):
            detail = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(invalid_value("spec.ipFamilyPolicy", raw_json(policy), detail))
    return errors
