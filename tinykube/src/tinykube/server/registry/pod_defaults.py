"""Default values of pods and pod templates."""

import re
from typing import Any

from tinykube.server.json_access import (
    align_list_with_field,
    ensure_object,
    get_int,
    get_list,
    get_object,
    get_str,
    set_if_empty,
)
from tinykube.server.objects import JsonObject

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_HOST = re.compile(r"(?:[a-zA-Z0-9](?:[-.a-zA-Z0-9]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_IDENTIFIER = re.compile("[a-f0-9]{64}")  # an image ID: it exists only on this machine
_GRACE_SECONDS = 30
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("postStart", "preStop")
_VOLUMES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def pull_policy(image: str) -> str:
    """Return the default image pull policy: Always for moving tags. Invalid image names have no tag."""
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
        set_if_empty(action, "path", "/")
        set_if_empty(action, "scheme", "HTTP")


def _default_field_ref(holder: JsonObject) -> None:
    reference = holder.get("fieldRef")
    if reference is not None:
        set_if_empty(reference, "apiVersion", "v1")


def _default_probe(probe: JsonObject) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not get_int(probe, name):
            probe[name] = value
    _default_get(probe.get("httpGet"))
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def default_container(container: JsonObject) -> None:
    """Set the defaults of a container or init container."""
    set_if_empty(container, "terminationMessagePath", "/dev/termination-log")
    set_if_empty(container, "terminationMessagePolicy", "File")
    set_if_empty(container, "imagePullPolicy", pull_policy(get_str(container, "image")))
    ensure_object(container, "resources")
    for port in get_list(container, "ports"):
        set_if_empty(port, "protocol", "TCP")
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    for name in _HANDLERS:
        _default_get(get_object(get_object(container, "lifecycle"), name).get("httpGet"))
    for variable in get_list(container, "env"):
        _default_field_ref(get_object(variable, "valueFrom"))


def _default_volume(volume: JsonObject) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in _VOLUMES_WITH_MODE:
        if volume.get(name) is not None and volume[name].get("defaultMode") is None:
            volume[name]["defaultMode"] = _FILE_MODE
    for item in get_list(get_object(volume, "downwardAPI"), "items"):
        _default_field_ref(item)
    if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""
    for source in get_list(get_object(volume, "projected"), "sources"):
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = _TOKEN_SECONDS
        for item in get_list(get_object(source, "downwardAPI"), "items"):
            _default_field_ref(item)
    image = volume.get("image")
    if image is not None:
        set_if_empty(image, "pullPolicy", pull_policy(get_str(image, "reference")))


def default_pod_spec(spec: JsonObject) -> None:
    """Set the defaults that pods and templates share."""
    set_if_empty(spec, "restartPolicy", "Always")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    set_if_empty(spec, "dnsPolicy", "ClusterFirst")
    ensure_object(spec, "securityContext")
    set_if_empty(spec, "schedulerName", "default-scheduler")
    # The deprecated serviceAccount follows serviceAccountName.
    account = get_str(spec, "serviceAccountName") or get_str(spec, "serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in get_list(spec, "volumes"):
        _default_volume(volume)
    for name in ("containers", "initContainers"):
        for container in get_list(spec, name):
            default_container(container)


def default_template(template: JsonObject) -> None:
    """Set the defaults of a pod template."""
    ensure_object(template, "metadata")
    default_pod_spec(ensure_object(template, "spec"))


def default_pod(pod: JsonObject) -> None:
    """Set the defaults of a pod: those of templates, and those only for pods."""
    spec = ensure_object(pod, "spec")
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    align_list_with_field(ensure_object(pod, "status"), "podIP", "podIPs", "ip")
    for name in ("containers", "initContainers"):
        for container in get_list(spec, name):
            limits: dict[str, Any] = container["resources"].get("limits") or {}
            if limits:
                requests = ensure_object(container["resources"], "requests")
                for resource, value in limits.items():
                    requests.setdefault(resource, value)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for name in ("containers", "initContainers"):
            for container in get_list(spec, name):
                for port in get_list(container, "ports"):
                    if not get_int(port, "hostPort"):
                        port["hostPort"] = get_int(port, "containerPort")
