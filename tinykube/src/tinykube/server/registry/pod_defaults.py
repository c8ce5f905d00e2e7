"""What a pod (or the template of one) gets where it says nothing."""

import re
from typing import Any

from tinykube.server.json_access import align, fill, items, made, member, number, text
from tinykube.server.objects import JsonObject

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_HOST = re.compile(r"(?:[a-zA-Z0-9](?:[-.a-zA-Z0-9]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_IDENTIFIER = re.compile("[a-f0-9]{64}")  # the name of an image that is nowhere but here
_GRACE_SECONDS = 30
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("postStart", "preStop")
_VOLUMES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def pull_policy(image: str) -> str:
    """Return when an image is pulled by default: always, where its tag moves. What is no image name has no tag."""
    host, slash, rest = image.partition("/")
    if not slash or not (set(host) & {".", ":"} or host == "localhost" or host != host.lower()):
        host, rest = "", image
    named = _IMAGE.fullmatch(rest)
    if named is None or (slash and host and not _HOST.fullmatch(host)) or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    moves = named["tag"] == "latest" or (named["tag"] is None and named["digest"] is None)
    return "Always" if moves else "IfNotPresent"


def _default_get(action: JsonObject | None) -> None:
    if action is not None:
        fill(action, "path", "/")
        fill(action, "scheme", "HTTP")


def _default_field_ref(holder: JsonObject) -> None:
    reference = holder.get("fieldRef")
    if reference is not None:
        fill(reference, "apiVersion", "v1")


def _default_probe(probe: JsonObject) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not number(probe, name):
            probe[name] = value
    _default_get(probe.get("httpGet"))
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def default_container(container: JsonObject) -> None:
    """Fill in one container, of either kind."""
    fill(container, "terminationMessagePath", "/dev/termination-log")
    fill(container, "terminationMessagePolicy", "File")
    fill(container, "imagePullPolicy", pull_policy(text(container, "image")))
    made(container, "resources")
    for port in items(container, "ports"):
        fill(port, "protocol", "TCP")
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    for name in _HANDLERS:
        _default_get(member(member(container, "lifecycle"), name).get("httpGet"))
    for variable in items(container, "env"):
        _default_field_ref(member(variable, "valueFrom"))


def _default_volume(volume: JsonObject) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in _VOLUMES_WITH_MODE:
        if volume.get(name) is not None and volume[name].get("defaultMode") is None:
            volume[name]["defaultMode"] = _FILE_MODE
    for item in items(member(volume, "downwardAPI"), "items"):
        _default_field_ref(item)
    if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""
    for source in items(member(volume, "projected"), "sources"):
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = _TOKEN_SECONDS
        for item in items(member(source, "downwardAPI"), "items"):
            _default_field_ref(item)
    image = volume.get("image")
    if image is not None:
        fill(image, "pullPolicy", pull_policy(text(image, "reference")))


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in what pods and templates share."""
    fill(spec, "restartPolicy", "Always")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    fill(spec, "dnsPolicy", "ClusterFirst")
    made(spec, "securityContext")
    fill(spec, "schedulerName", "default-scheduler")
    # Two names of one thing: the older one follows.
    account = text(spec, "serviceAccountName") or text(spec, "serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in items(spec, "volumes"):
        _default_volume(volume)
    for name in ("containers", "initContainers"):
        for container in items(spec, name):
            default_container(container)


def default_template(template: JsonObject) -> None:
    """Fill in a pod template."""
    made(template, "metadata")
    default_pod_spec(made(template, "spec"))


def default_pod(pod: JsonObject) -> None:
    """Fill in a pod: what templates get, and what only pods do."""
    spec = made(pod, "spec")
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    align(made(pod, "status"), "podIP", "podIPs", "ip")
    for name in ("containers", "initContainers"):
        for container in items(spec, name):
            limits: dict[str, Any] = container["resources"].get("limits") or {}
            if limits:
                requests = made(container["resources"], "requests")
                for resource, value in limits.items():
                    requests.setdefault(resource, value)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for name in ("containers", "initContainers"):
            for container in items(spec, name):
                for port in items(container, "ports"):
                    if not number(port, "hostPort"):
                        port["hostPort"] = number(port, "containerPort")
