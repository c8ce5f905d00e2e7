"""Behaviour with a mutating webhook, and with addresses that the API server rejects, on a real control plane."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from aiokube.clock import SystemClock
from tinykube.server.certificates.authority import CertificateAuthority
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

Json = dict[str, Any]
NAMESPACE = "admission"
RESTS_SECONDS = 5.0
CLOCK = SystemClock()


class _Handler(BaseHTTPRequestHandler):
    """Adds a hint to every endpoint of a slice, and a label to every Endpoints."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        item = request["object"]
        if item["kind"] == "EndpointSlice":
            hints = {"forZones": [{"name": "webhook"}]}
            count = len(item.get("endpoints") or ())
            patch = [{"op": "add", "path": f"/endpoints/{n}/hints", "value": hints} for n in range(count)]
        else:
            patch = [{"op": "add", "path": "/metadata/labels/mesh", "value": "on"}]
        response: Json = {"uid": request["uid"], "allowed": True}
        if patch:
            text = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": text}
        body = json.dumps(
            {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def webhook(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Run a mutating webhook for slices and Endpoints of the test's namespace."""
    authority = CertificateAuthority()
    pair = authority.server(["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    plane.kubectl(
        "apply",
        "-f",
        "-",
        document=json.dumps(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "endpoints"},
                "webhooks": [
                    {
                        "name": "endpoints.example.com",
                        "clientConfig": {
                            "url": f"https://127.0.0.1:{server.server_port}/",
                            "caBundle": base64.b64encode(authority.pem).decode(),
                        },
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                        "rules": [
                            {
                                "apiGroups": ["", "discovery.k8s.io"],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE", "UPDATE"],
                                "resources": ["endpoints", "endpointslices"],
                            }
                        ],
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                    }
                ],
            }
        ),
    )
    try:
        yield
    finally:
        plane.kubectl("delete", "mutatingwebhookconfiguration", "endpoints")
        server.shutdown()
        server.server_close()


def service(name: str, *, selector: bool = True) -> Json:
    spec: Json = {"ports": [{"port": 80}]} | ({"selector": {"app": name}} if selector else {})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def pod(name: str, app: str) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": app}}
    spec = {"nodeName": "admission-node", "containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Cluster:
    """A namespace of a control plane, as kubectl sees it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def apply(self, *items: Json) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self._plane.kubectl("apply", "-f", "-", document=document)

    def status(self, name: str, ip: str, *, ready: bool = True) -> None:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
        patch = json.dumps({"status": status})
        self._plane.kubectl("-n", NAMESPACE, "patch", "pod", name, "--subresource=status", "-p", patch)

    def get(self, what: str, *arguments: str) -> list[Json]:
        text = self._plane.kubectl("-n", NAMESPACE, "get", what, "-o", "json", *arguments)
        found: list[Json] = json.loads(text)["items"]
        return found

    def published(self, name: str) -> dict[str, bool]:
        return {
            endpoint["addresses"][0]: endpoint["conditions"]["ready"]
            for endpoint_slice in self.get("endpointslices", "-l", f"kubernetes.io/service-name={name}")
            for endpoint in endpoint_slice["endpoints"] or ()
        }

    def versions(self) -> dict[str, str]:
        return {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"]
            for what in ("endpointslices", "endpoints")
            for item in self.get(what)
        }

    def writes(self) -> list[str]:
        """Return the writes of slices and Endpoints in the namespace so far, from the server's audit log."""
        lines = map(json.loads, self._plane.audit_log_path.read_text().splitlines())
        refs = ((line["verb"], line["objectRef"]) for line in lines)
        return [
            verb
            for verb, ref in refs
            if ref.get("namespace") == NAMESPACE and ref["resource"] in ("endpointslices", "endpoints")
        ]

    @staticmethod
    async def wait_for(condition: Callable[[], bool]) -> None:
        deadline = CLOCK.monotonic() + 20.0
        while not condition():
            assert CLOCK.monotonic() < deadline
            await CLOCK.sleep(0.2)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    control_plane.kubectl("create", "namespace", NAMESPACE)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "admission-node"}}
    control_plane.kubectl("apply", "-f", "-", document=json.dumps(node))
    try:
        yield Cluster(control_plane)
    finally:
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        control_plane.kubectl("delete", "node", "admission-node")


async def test_a_mutating_webhook_is_not_fought_and_a_rejected_address_blocks_no_other(
    control_plane: ControlPlane, cluster: Cluster, endpointd_command: tuple[str, ...], tmp_path: Path
) -> None:
    command = [*endpointd_command, f"--kubeconfig={control_plane.kubeconfig_path}", "--leader-elect=false"]
    with webhook(control_plane, tmp_path), control_plane.start_child("endpointd-admission", command):
        cluster.apply(service("web"), service("plain", selector=False))
        cluster.apply(*(pod(f"web-{number}", "web") for number in (1, 2, 3)))
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {"name": "plain", "namespace": NAMESPACE, "labels": {"a": "b"}},
                "subsets": [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 80}]}],
            }
        )
        for number in (1, 2):
            cluster.status(f"web-{number}", f"10.9.1.{number}")
        await cluster.wait_for(lambda: cluster.published("web") == {"10.9.1.1": True, "10.9.1.2": True})
        await cluster.wait_for(lambda: cluster.published("plain") == {"10.9.0.1": True})
        await CLOCK.sleep(RESTS_SECONDS)
        before, written = cluster.versions(), len(cluster.writes())
        await CLOCK.sleep(RESTS_SECONDS)
        assert cluster.versions() == before
        assert cluster.writes()[written:] == []
        assert all(
            endpoint["hints"] == {"forZones": [{"name": "webhook"}]}
            for endpoint_slice in cluster.get("endpointslices")
            for endpoint in endpoint_slice["endpoints"] or ()
        )

        cluster.status("web-3", "169.254.9.9")
        cluster.status("web-1", "10.9.1.1", ready=False)
        await cluster.wait_for(lambda: cluster.published("web") == {"10.9.1.1": False, "10.9.1.2": True})
        await CLOCK.sleep(RESTS_SECONDS)
        assert sorted(cluster.writes()[written:]) == ["update", "update"], (
            "one of the slice, one of the Endpoints"
        )
        messages = {item["reason"]: item["message"] for item in cluster.get("events")}
        assert messages["EndpointRejected"] == (
            f"Pod {NAMESPACE}/web-3 is omitted because the API server rejects its endpoint:"
            " address 169.254.9.9 is link-local"
        )
