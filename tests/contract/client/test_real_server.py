"""The client's assumptions, verified on a real kube-apiserver."""

import asyncio
import base64
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from aiokube.api.config import CONFIG_MAPS, ConfigMap
from aiokube.api.core import PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, EndpointAddress, Endpoints, EndpointSubset
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.config import ClusterConfig, Impersonation, TlsConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.client.errors import (
    AlreadyExistsError,
    ApiError,
    ApplyConflictError,
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    ForbiddenError,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    ServerTimeoutError,
    TlsError,
    TransportError,
    UnauthorizedError,
)
from aiokube.client.incluster import in_cluster_config
from aiokube.client.load_config import load_config
from aiokube.client.rest import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Client
from aiokube.clock import SystemClock
from tinykube.testing.control_plane import ControlPlane

CLOCK = SystemClock()


def endpoints(name: str = "a", ip: str = "10.1.1.1", version: str = "") -> Endpoints:
    subset = EndpointSubset(addresses=(EndpointAddress(ip=ip),))
    return Endpoints(metadata=ObjectMeta(name=name, resource_version=version), subsets=(subset,))


def a_slice(name: str = "a", count: int = 1) -> EndpointSlice:
    items = tuple(
        Endpoint(addresses=(f"10.1.{number // 250}.{number % 250 + 1}",)) for number in range(count)
    )
    return EndpointSlice(metadata=ObjectMeta(name=name), address_type="IPv4", endpoints=items)


# ------------------------------------------------------------------------------------------------- writing


async def test_request_bodies_need_neither_kind_nor_api_version(client: Client, namespace: str) -> None:
    stored = await client.create(ENDPOINTS, endpoints(), namespace=namespace)
    assert (stored.kind, stored.api_version) == ("Endpoints", "v1")
    bare = msgspec.structs.replace(a_slice(), kind=None, api_version=None)
    assert (await client.create(ENDPOINT_SLICES, bare, namespace=namespace)).kind == "EndpointSlice"
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Service", "namespace": namespace, "name": "x"},
        "reason": "R",
        "message": "m",
        "type": "Warning",
    }
    await client.request("POST", f"/api/v1/namespaces/{namespace}/events", body=json.dumps(event).encode())


async def test_a_stale_update_and_a_create_of_an_existing_name_conflict(
    client: Client, namespace: str
) -> None:
    first = await client.create(ENDPOINTS, endpoints(), namespace=namespace)
    second = await client.update(
        ENDPOINTS, endpoints(ip="10.1.1.2", version=first.metadata.resource_version), key=first.metadata.key
    )
    assert second.subsets != first.subsets
    stale = endpoints(ip="10.1.1.3", version=first.metadata.resource_version)
    with pytest.raises(ConflictError, match="the object has been modified"):
        await client.update(ENDPOINTS, stale, key=first.metadata.key)
    with pytest.raises(AlreadyExistsError, match='endpoints "a" already exists'):
        await client.create(ENDPOINTS, endpoints(), namespace=namespace)


async def test_a_validation_error_names_the_field(client: Client, namespace: str) -> None:
    with pytest.raises(InvalidError) as raised:
        await client.create(ENDPOINTS, endpoints(ip="127.0.0.1"), namespace=namespace)
    details = raised.value.status.details
    assert details is not None
    assert details.causes is not None
    assert details.causes[0].field == "subsets[0].addresses[0].ip"
    with pytest.raises(BadRequestError):
        await client.request("POST", f"/api/v1/namespaces/{namespace}/endpoints", body=b"{")


async def test_an_object_above_the_size_limit_is_rejected_with_a_specific_error(
    client: Client, namespace: str
) -> None:
    huge = Endpoints(metadata=ObjectMeta(name="huge", annotations={"a": "x" * (4 * 1024 * 1024)}))
    with pytest.raises(ApiError) as raised:
        await client.create(ENDPOINTS, huge, namespace=namespace)
    assert raised.value.status.code == 413
    assert not raised.value.retryable


async def test_a_delete_honours_its_preconditions(client: Client, namespace: str) -> None:
    stored = (await client.create(ENDPOINTS, endpoints(), namespace=namespace)).metadata
    with pytest.raises(ConflictError, match="UID"):
        await client.delete(ENDPOINTS, stored.key, uid="another")
    with pytest.raises(ConflictError, match="ResourceVersion"):
        await client.delete(ENDPOINTS, stored.key, resource_version="1")
    await client.delete(ENDPOINTS, stored.key, uid=stored.uid, resource_version=stored.resource_version)
    with pytest.raises(NotFoundError, match='endpoints "a" not found'):
        await client.delete(ENDPOINTS, stored.key)
    with pytest.raises(NotFoundError):
        await client.get(ENDPOINTS, stored.key)


async def test_each_patch_type_is_accepted(client: Client, namespace: str) -> None:
    key = (await client.create(ENDPOINTS, endpoints(), namespace=namespace)).metadata.key
    merged = await client.patch(ENDPOINTS, key, b'{"metadata":{"labels":{"m":"1"}}}', patch_type=MERGE_PATCH)
    json_patch = b'[{"op":"add","path":"/metadata/labels/j","value":"2"}]'
    patched = await client.patch(ENDPOINTS, key, json_patch, patch_type=JSON_PATCH)
    apply = b'{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"a","labels":{"s":"3"}}}'
    applied = await client.patch(
        ENDPOINTS, key, apply, patch_type=APPLY_PATCH, field_manager="me", force=True
    )
    assert merged.metadata.labels == {"m": "1"}
    assert patched.metadata.labels == {"m": "1", "j": "2"}
    assert applied.metadata.labels == {"m": "1", "j": "2", "s": "3"}


async def test_apply_keeps_fields_of_other_managers_and_names_conflicts(
    client: Client, namespace: str
) -> None:
    key = ObjectKey(namespace, "welcome")

    def text(value: str) -> ConfigMap:
        return ConfigMap(ObjectMeta(name=key.name, namespace=key.namespace), data={"text": value})

    await client.apply(CONFIG_MAPS, text("hello"), field_manager="me")
    await client.patch(CONFIG_MAPS, key, b'{"binaryData":{"logo":"aA=="}}', patch_type=MERGE_PATCH)
    applied = await client.apply(CONFIG_MAPS, text("bye"), field_manager="me")
    assert (applied.data, applied.binary_data) == ({"text": "bye"}, {"logo": b"h"})
    with pytest.raises(ApplyConflictError, match="force=True") as caught:
        await client.apply(CONFIG_MAPS, text("no"), field_manager="another")
    assert [conflict.field for conflict in caught.value.conflicts] == [".data.text"]
    taken = await client.apply(CONFIG_MAPS, text("no"), field_manager="another", force=True)
    assert (taken.data, taken.binary_data) == ({"text": "no"}, {"logo": b"h"})


async def test_an_unknown_resource_and_an_unsupported_verb_are_distinguished(
    client: Client,
) -> None:
    with pytest.raises(NotFoundError):
        await client.request("GET", "/apis/no.such.group/v1/things")
    with pytest.raises(NotFoundError):
        await client.request("GET", "/api/v1/things")
    with pytest.raises(MethodNotAllowedError):
        await client.request("PUT", "/api/v1/pods", body=b"{}")


# ------------------------------------------------------------------------------------------------- reading


async def test_all_pages_of_a_list_have_one_version(client: Client, namespace: str) -> None:
    for number in range(5):
        await client.create(ENDPOINTS, endpoints(f"e{number}"), namespace=namespace)
    pages = [await client.list_page(ENDPOINTS, namespace=namespace, limit=2)]
    while pages[-1].continue_token:
        page = await client.list_page(
            ENDPOINTS, namespace=namespace, limit=2, continue_token=pages[-1].continue_token
        )
        pages.append(page)
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert [item.metadata.name for page in pages for item in page.items] == [
        f"e{number}" for number in range(5)
    ]
    assert len({page.resource_version for page in pages}) == 1


async def test_a_gzipped_list_is_decoded_completely(client: Client, namespace: str) -> None:
    for number in range(8):
        await client.create(ENDPOINT_SLICES, a_slice(f"s{number}", 900), namespace=namespace)
    page = await client.list_page(ENDPOINT_SLICES, namespace=namespace)
    assert [len(item.endpoints or ()) for item in page.items] == [900] * 8


async def test_selectors_filter_a_list(client: Client, namespace: str) -> None:
    labelled = msgspec.structs.replace(endpoints("a"), metadata=ObjectMeta(name="a", labels={"x": "y"}))
    await client.create(ENDPOINTS, labelled, namespace=namespace)
    await client.create(ENDPOINTS, endpoints("b"), namespace=namespace)

    async def names(**narrowed: str) -> list[str]:
        page = await client.list_page(ENDPOINTS, namespace=namespace, **narrowed)  # type: ignore[arg-type]
        return [item.metadata.name for item in page.items]

    assert await names(label_selector="x in (y,z)") == ["a"]
    assert await names(label_selector="!x") == ["b"]
    assert await names(field_selector="metadata.name=b") == ["b"]


@pytest.mark.slow
async def test_a_version_ahead_of_the_server_raises_too_large_resource_version(client: Client) -> None:
    with pytest.raises(ServerTimeoutError, match="Too large resource version") as raised:
        await client.list_page(SERVICES, resource_version="99999999", resource_version_match="NotOlderThan")
    assert raised.value.is_too_large_resource_version
    assert raised.value.retry_after_seconds == 1


# ------------------------------------------------------------------------------------------------ watching


@pytest.mark.usefixtures("watch_list")
async def test_a_watch_starts_with_the_state_and_continues_with_every_change_in_order(
    client: Client, namespace: str
) -> None:
    await client.create(ENDPOINTS, endpoints("a"), namespace=namespace)
    seen: list[tuple[str, str]] = []
    versions: list[int] = []
    async with client.watch(ENDPOINTS, namespace=namespace, send_initial_events=True) as batches:
        async for batch in batches:
            for event in batch:
                if isinstance(event, WatchEvent):
                    seen.append((event.type, event.item.metadata.name))
                    versions.append(int(event.item.metadata.resource_version))
                elif isinstance(event, Bookmark) and event.initial_events_end:
                    seen.append(("END", ""))
                    await client.create(ENDPOINTS, endpoints("b"), namespace=namespace)
                    await client.update(
                        ENDPOINTS, endpoints("b", ip="10.1.1.9"), key=ObjectKey(namespace, "b")
                    )
                    await client.delete(ENDPOINTS, ObjectKey(namespace, "a"))
            if ("DELETED", "a") in seen:
                break
    assert seen == [("ADDED", "a"), ("END", ""), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]
    assert versions == sorted(versions)


async def test_a_watch_ends_normally_at_its_timeout(client: Client) -> None:
    async with client.watch(PODS, timeout_seconds=1) as batches:
        async with asyncio.timeout(30):
            assert [
                event async for batch in batches for event in batch if isinstance(event, WatchEvent)
            ] == []


@pytest.mark.usefixtures("watch_list")
async def test_a_source_lists_and_watches_the_same_objects(client: Client, namespace: str) -> None:
    await client.create(ENDPOINTS, endpoints("a"), namespace=namespace)
    source = client.source(ENDPOINTS, namespace=namespace)
    page = await source.list_page(resource_version="0")
    async with source.watch(send_initial_events=True, timeout_seconds=30) as batches:
        (event, *_) = await anext(batches)
    assert isinstance(event, WatchEvent)
    assert event.item.metadata in [item.metadata for item in page.items]


# ---------------------------------------------------------------------------------------------- authentication


async def whoami(config: ClusterConfig) -> str:
    async with Client.from_config(config, clock=CLOCK) as client:
        answer = await client.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            body=b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}',
        )
    return str(json.loads(answer)["status"]["userInfo"]["username"])


async def test_a_kubeconfig_with_a_client_certificate_authenticates(control_plane: ControlPlane) -> None:
    config = load_config(control_plane.kubeconfig_for("jane"), clock=CLOCK, environ={})
    assert await whoami(config) == "jane"
    async with Client.from_config(config, clock=CLOCK) as client:
        with pytest.raises(ForbiddenError, match='User "jane" cannot list resource "pods"'):
            await client.list_page(PODS)


async def test_a_wrong_token_is_rejected(control_plane: ControlPlane) -> None:
    tls = TlsConfig(ca_data=control_plane.certificate_authority)
    wrong = ClusterConfig(control_plane.url, tls, StaticCredentials(Credential(bearer("wrong"))))
    async with Client.from_config(wrong, clock=CLOCK) as client:
        with pytest.raises(UnauthorizedError):
            await client.list_page(PODS)


async def test_impersonation_takes_effect(control_plane: ControlPlane) -> None:
    admin = control_plane.client_config()
    who = Impersonation("joe", "u-1", ("g",), {"example.com/a": ("b",)})
    config = ClusterConfig(admin.server, admin.tls, admin.credentials, who)
    assert await whoami(config) == "joe"


async def test_an_in_cluster_service_account_authenticates(
    control_plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    await client.request("POST", accounts, body=b'{"metadata":{"name":"me"}}')
    request = b'{"spec":{"expirationSeconds":600}}'
    answer = json.loads(await client.request("POST", f"{accounts}/me/token", body=request))
    write(tmp_path / "token", answer["status"]["token"].encode())
    write(tmp_path / "ca.crt", control_plane.certificate_authority)
    host, _, port = control_plane.url.removeprefix("https://").rpartition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    config = in_cluster_config(clock=CLOCK, environ=environ, folder=tmp_path)
    assert await whoami(config) == "system:serviceaccount:kube-system:me"


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_a_client_certificate_from_an_exec_plugin_authenticates(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    pair = control_plane.client_certificate("plug")
    status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.private_key.decode()}
    credential = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}
    write(tmp_path / "credential", json.dumps(credential).encode())
    authority = base64.b64encode(control_plane.certificate_authority).decode()
    kubeconfig = {
        "current-context": "x",
        "clusters": [
            {"name": "x", "cluster": {"server": control_plane.url, "certificate-authority-data": authority}}
        ],
        "users": [
            {
                "name": "x",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "command": sys.executable,
                        "args": ["-c", f"print(open({str(tmp_path / 'credential')!r}).read())"],
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    write(tmp_path / "config", json.dumps(kubeconfig).encode())
    assert await whoami(load_config(tmp_path / "config", clock=CLOCK, environ=dict(os.environ))) == "plug"


async def test_a_server_certificate_of_another_authority_is_not_trusted(control_plane: ControlPlane) -> None:
    async with Client.from_config(ClusterConfig(control_plane.url), clock=CLOCK) as client:
        with pytest.raises(TlsError, match="not trusted"):
            await client.list_page(PODS)


# --------------------------------------------------------------------------------------------- server restarts


@pytest.mark.slow
async def test_a_client_survives_a_server_restart_and_reports_an_expired_watch_version(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    first = (await client.create(ENDPOINTS, endpoints("a"), namespace=namespace)).metadata
    async with AsyncExitStack() as stack:
        batches = await stack.enter_async_context(
            client.watch(ENDPOINTS, resource_version=first.resource_version)
        )
        await asyncio.to_thread(control_plane.kill_apiserver)
        with pytest.raises(TransportError, match="broke within the response"):
            await drain(batches)
    with pytest.raises(ConnectionFailedError, match="Connection refused"):
        await client.get(ENDPOINTS, first.key)
    control_plane.start_apiserver()  # in this thread: a child process ends with the thread that started it
    assert (await client.get(ENDPOINTS, first.key)).metadata == first
    for number in range(3):
        await client.create(ENDPOINTS, endpoints(f"b{number}"), namespace=namespace)
    # The restarted server's watch cache has no earlier history.
    async with client.watch(ENDPOINTS, resource_version="1", timeout_seconds=5) as batches:
        (event,) = await anext(batches)
    assert isinstance(event, WatchError)
    assert (event.status.code, event.status.reason) == (410, "Expired")


async def drain(batches: object) -> None:
    async for _ in batches:  # type: ignore[attr-defined]
        pass
