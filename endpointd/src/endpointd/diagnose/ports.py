"""Check whether traffic for a service port reaches a container of one pod. Pure."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from aiokube.api.core import Pod, Service, ServicePort
from aiokube.api.discovery import EndpointPort
from endpointd.controllers.pods import resolve_target_port
from endpointd.diagnose.details import ContainerPort, PodDetails


class PortProblem(msgspec.Struct, frozen=True):
    """Why traffic for one service port does not arrive, or probably does not.

    ``code`` is ``PortNotFound`` (the port is not published for the pod, so no traffic arrives) or
    ``PortNotDeclared`` (it is published, but no container declares it; declaring is optional, so traffic may
    still arrive).
    """

    code: str
    port: str
    text: str
    fix: str

    @property
    def is_certain(self) -> bool:
        """Whether no traffic can arrive."""
        return self.code == "PortNotFound"


def port_problems(service: Service, pod: Pod, details: PodDetails | None) -> Iterator[PortProblem]:
    """Yield the problems of a service's ports on one pod. Numeric target ports need ``details``."""
    for port in service.ports:
        if resolve_target_port(pod, port) is None:
            yield _name_not_found(port, pod)
        elif isinstance(port.target_port, int) and details is not None:
            problem = _not_declared(port, port.target_port, details)
            if problem is not None:
                yield problem


def has_reachable_port(service: Service, pod: Pod) -> bool:
    """Return whether at least one port of the service is published for the pod; a service without ports needs none."""
    return not service.ports or any(resolve_target_port(pod, port) is not None for port in service.ports)


def port_name(port: ServicePort) -> str:
    """Return the name of a service port, or its number."""
    return port.name or str(port.port)


def _name_not_found(port: ServicePort, pod: Pod) -> PortProblem:
    known = [f"{one.name} ({one.protocol} {one.number})" for one in pod.named_ports]
    named = next((one for one in pod.named_ports if one.name == port.target_port), None)
    if named is not None:
        text = (
            f"service port {port_name(port)} is {port.protocol}, but the container port named {port.target_port} is "
            f"{named.protocol}"
        )
        fix = f"set protocol: {named.protocol} on the service port, or declare a {port.protocol} container port of that name"
        return PortProblem("PortNotFound", port_name(port), text, fix)
    text = f"service port {port_name(port)} has targetPort {port.target_port}, but no container port has this name"
    text += f"; named ports: {', '.join(sorted(set(known)))}" if known else "; no container port has a name"
    close = difflib.get_close_matches(str(port.target_port), [one.name for one in pod.named_ports], n=1)
    fix = (
        f"did you mean targetPort: {close[0]}?"
        if close
        else f"name a container port {port.target_port}, or set targetPort to the number"
    )
    return PortProblem("PortNotFound", port_name(port), text, fix)


def _not_declared(port: ServicePort, number: int, details: PodDetails) -> PortProblem | None:
    declared = [
        one for container in (*details.containers, *details.sidecars) for one in container.ports or ()
    ]
    if not declared:
        return None
    same_number = [one for one in declared if one.container_port == number]
    if any((one.protocol or "TCP") == port.protocol for one in same_number):
        return None
    if same_number:
        found = same_number[0].protocol or "TCP"
        return PortProblem(
            "PortNotDeclared",
            port_name(port),
            f"service port {port_name(port)} is {port.protocol}, but the containers declare port {number} only as {found}",
            f"set protocol: {found} on the service port, or declare {number}/{port.protocol}",
        )
    if port.protocol == "TCP" and number in set(_probed_ports(details)):
        return None
    candidates = [one for one in declared if (one.protocol or "TCP") == port.protocol] or declared
    return PortProblem(
        "PortNotDeclared",
        port_name(port),
        f"service port {port_name(port)} has targetPort {number}, but the containers declare "
        f"{', '.join(sorted({_declared_text(one) for one in declared}))}",
        f"did you mean targetPort: {candidates[0].container_port}? If the container does listen on {number}, declare it"
        if len({one.container_port for one in candidates}) == 1
        else f"use a declared port as targetPort; if the container does listen on {number}, declare it",
    )


def _declared_text(port: ContainerPort) -> str:
    text = f"{port.container_port}/{port.protocol or 'TCP'}"
    return f"{text} ({port.name})" if port.name else text


def _probed_ports(details: PodDetails) -> Iterator[int]:
    """Yield the ports of probes: a container listens on a port that is probed."""
    for container in (*details.containers, *details.sidecars):
        for probe in (container.readiness_probe, container.liveness_probe, container.startup_probe):
            for handler in ("httpGet", "tcpSocket", "grpc"):
                number = ((probe or {}).get(handler) or {}).get("port")
                if isinstance(number, int):
                    yield number


def ports_text(ports: Iterable[EndpointPort] | None) -> str:
    """Return the ports of a slice as one line."""
    texts = [
        f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol or 'TCP'}" for port in ports or ()
    ]
    return ", ".join(texts) or "none"


def probe_text(probe: dict[str, Any] | None) -> str:
    """Return a short description of a probe: ``GET :8080/healthz``, ``tcp :6379``, ``exec cat /tmp/ready``; ``""`` for none."""
    if not probe:
        return ""
    for handler, spec in probe.items():
        if not isinstance(spec, dict):
            continue
        if handler == "httpGet":
            scheme = "" if spec.get("scheme", "HTTP") == "HTTP" else "https "
            path = str(spec.get("path") or "/")
            return f"GET {scheme}:{spec.get('port')}{path if path.startswith('/') else '/' + path}"
        if handler == "tcpSocket":
            return f"tcp :{spec.get('port')}"
        if handler == "grpc":
            return f"grpc :{spec.get('port')}"
        if handler == "exec":
            return "exec " + " ".join(map(str, spec.get("command") or ()))
    return ""
