"""Warnings about pods that are valid but questionable."""

from tinykube.server.json_access import get_int, get_list, get_str
from tinykube.server.objects import JsonObject


def _containers(spec: JsonObject, path: str) -> list[tuple[str, JsonObject]]:
    return [
        (f"{path}.{name}[{index}]", container)
        for name in ("initContainers", "containers")
        for index, container in enumerate(get_list(spec, name))
    ]


def pod_warnings(path: str, spec: JsonObject) -> list[str]:
    """Return the warnings about a pod or template whose spec is at ``path``."""
    found = [
        f'volume "{get_str(volume, "name")}" (Projected) has no sources provided'
        for volume in get_list(spec, "volumes")
        if volume.get("projected") is not None and not get_list(volume["projected"], "sources")
    ]
    for field, container in _containers(spec, path):
        found += _environment_warnings(field, get_list(container, "env"))
    found += _port_warnings(spec, path)
    found += _port_name_warnings(spec, path)
    if get_int(spec, "terminationGracePeriodSeconds") < 0:
        found.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    return found


def _environment_warnings(field: str, variables: list[JsonObject]) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = get_str(variable, "name"), get_str(variable, "value")
        reference = f"$({name})"
        extends = reference in value and value != reference and variable.get("valueFrom") is None
        if name in seen and not extends:
            found.append(
                f'{field}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        seen.add(name)
    return found


def _port_warnings(spec: JsonObject, path: str) -> list[str]:
    found: list[str] = []
    ports: dict[tuple[int, str], list[tuple[str, JsonObject]]] = {}
    for field, container in _containers(spec, path):
        for index, port in enumerate(get_list(container, "ports")):
            here = f"{field}.ports[{index}]"
            others = ports.setdefault((get_int(port, "containerPort"), get_str(port, "protocol")), [])
            for other_field, other in others:
                how = _overlap(port, other)
                if how:
                    found.append(f"{here}: {how} with {other_field}")
            others.append((here, port))
    return found


def _overlap(port: JsonObject, other: JsonObject) -> str:
    ip, other_ip = get_str(port, "hostIP"), get_str(other, "hostIP")
    number_here, number_there = get_int(port, "hostPort"), get_int(other, "hostPort")
    if ip == other_ip and number_here == number_there:
        return "duplicate port definition"
    if not number_here or not number_there:
        return "overlapping port definition"
    if number_here == number_there and bool(ip) != bool(other_ip):
        return "dangerously ambiguous port definition"
    return ""


def _port_name_warnings(spec: JsonObject, path: str) -> list[str]:
    found: list[str] = []
    seen: dict[str, str] = {}
    for field, container in _containers(spec, path):
        for index, port in enumerate(get_list(container, "ports")):
            name, here = get_str(port, "name"), f"{field}.ports[{index}]"
            if not name:
                continue
            if name in seen:
                found.append(
                    f'{here}: duplicate port name "{name}" with {seen[name]}, services and probes that select ports by '
                    f"name will use {seen[name]}"
                )
            else:
                seen[name] = here
    return found
