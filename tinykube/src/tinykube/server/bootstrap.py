"""The initial contents of a cluster: four namespaces, and the service ``kubernetes`` with the server's address."""

import ipaddress

from tinykube.server.errors import StatusError
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, UserInfo
from tinykube.server.verbs.context import Backend, Caller, Target, new_request
from tinykube.server.verbs.options import WriteOptions
from tinykube.server.verbs.write import create, update

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_SERVER = Caller(UserInfo("system:apiserver", groups=("system:masters",)), "tinykube-apiserver")
_NAME = "kubernetes"
_LABELS = {"component": "apiserver", "provider": "kubernetes"}
_SKIP_MIRROR = {"endpointslice.kubernetes.io/skip-mirror": "true"}


async def bootstrap(backend: Backend, *, host: str, port: int, service_ip: str) -> None:
    """Create missing objects, and update the addresses of the service ``kubernetes``. Idempotent.

    Kinds that are not registered are skipped, and so is the service without a service IP. Endpoints must not
    be loopback addresses: on a server that only listens on loopback, the service has no endpoints.
    """
    for name in NAMESPACES:
        await _create(backend, "", "namespaces", {"metadata": {"name": name}})
    if service_ip:
        await _create(backend, "", "services", _service(service_ip), "default")
    if not service_ip:
        return
    address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    reachable = "" if address.is_loopback or address.is_unspecified else str(address)
    await _put(backend, "", "endpoints", _endpoints(reachable, port))
    await _put(backend, "discovery.k8s.io", "endpointslices", _slice(reachable, address.version, port))


def _service(service_ip: str) -> JsonObject:
    return {
        "metadata": {"name": _NAME, "labels": dict(_LABELS)},
        "spec": {
            "clusterIP": service_ip,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }


def _endpoints(address: str, port: int) -> JsonObject:
    endpoints: JsonObject = {"metadata": {"name": _NAME, "labels": dict(_SKIP_MIRROR)}}
    if address:
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        endpoints["subsets"] = [{"addresses": [{"ip": address}], "ports": ports}]
    return endpoints


def _slice(address: str, family: int, port: int) -> JsonObject:
    return {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": f"IPv{family}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}] if address else [],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


def _definition(backend: Backend, group: str, plural: str) -> Definition | None:
    for version in backend.registry.versions().get(group, ()):
        found = backend.registry.get(group, version, plural)
        if found is not None:
            return found
    return None


async def _create(backend: Backend, group: str, plural: str, body: JsonObject, namespace: str = "") -> None:
    definition = _definition(backend, group, plural)
    if definition is None:
        return
    request = new_request(backend, _SERVER, dry_run=False)
    name = body["metadata"]["name"]
    target = Target(definition, namespace)
    if backend.storage.head(target.key(name)) is not None:
        return
    try:
        await create(backend, target, request, WriteOptions(), body)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


async def _put(backend: Backend, group: str, plural: str, body: JsonObject) -> None:
    definition = _definition(backend, group, plural)
    if definition is None:
        return
    target = Target(definition, "default", _NAME)
    if backend.storage.head(target.key()) is None:
        await _create(backend, group, plural, body, "default")
        return
    request = new_request(backend, _SERVER, dry_run=False)
    await update(backend, target, request, WriteOptions(kind="UpdateOptions"), body)
