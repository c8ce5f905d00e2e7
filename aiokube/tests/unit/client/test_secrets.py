"""No secret is ever in a repr, an error or a log."""

import base64
import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.client.support import Server, client_of, failure, json_response

from aiokube.api.core import PODS
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.client.config import ClusterConfig
from aiokube.client.credentials import CertificateData, Credential, StaticCredentials, TokenFile, bearer
from aiokube.client.errors import ClientError
from aiokube.client.kubeconfig import config_of
from aiokube.client.kubeconfig_file import read_kubeconfig
from aiokube.client.oidc import OidcCredentials, OidcSettings
from aiokube.testing.virtual_time import ManualClock

SECRET = "hunter2"


def secrets_in(text: str) -> bool:
    return SECRET in text or base64.b64encode(SECRET.encode()).decode() in text


USERS: list[dict[str, Any]] = [
    {"token": SECRET},
    {"username": "me", "password": SECRET},
    {
        "client-certificate-data": base64.b64encode(SECRET.encode()).decode(),
        "client-key-data": base64.b64encode(SECRET.encode()).decode(),
    },
    {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "x",
            "args": [SECRET],
            "env": [{"name": "a", "value": SECRET}],
            "interactiveMode": "Never",
        }
    },
    {
        "auth-provider": {
            "name": "oidc",
            "config": {"id-token": SECRET, "client-secret": SECRET, "refresh-token": SECRET},
        }
    },
]


@pytest.mark.parametrize("user", USERS, ids=lambda user: next(iter(user)))
async def test_reprs_of_kubeconfig_objects_show_no_secret(
    tmp_path: Path, clock: ManualClock, user: dict[str, Any]
) -> None:
    path = tmp_path / "config"
    document = {
        "current-context": "x",
        "clusters": [
            {"name": "x", "cluster": {"server": "https://x", "proxy-url": f"http://me:{SECRET}@proxy"}}
        ],
        "users": [{"name": "x", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    write(path, json.dumps(document))
    kubeconfig = read_kubeconfig(path)
    config = config_of(kubeconfig, clock=clock, environ={})
    for thing in (kubeconfig, kubeconfig.users["x"], config, config.credentials):
        assert not secrets_in(repr(thing))
        assert not secrets_in(str(thing))
    assert not kubeconfig.users["x"].entry.__rich_repr__()
    if "exec" not in user:
        assert not secrets_in(repr(await config.credentials.current()))


def write(path: Path, text: str) -> None:
    path.write_text(text)


def test_reprs_of_credentials_show_no_secret(tmp_path: Path, clock: ManualClock) -> None:
    credential = Credential(bearer(SECRET), CertificateData(SECRET.encode(), SECRET.encode()))
    token_file = TokenFile(tmp_path / "token", clock=clock, fallback=SECRET)
    oidc = OidcCredentials(
        OidcSettings("w", "https://i", "c", SECRET), id_token=SECRET, refresh_token=SECRET, clock=clock
    )
    config = ClusterConfig(
        "https://x", credentials=StaticCredentials(credential), proxy_url=f"http://me:{SECRET}@p"
    )
    for thing in (credential, token_file, oidc, config, StaticCredentials(credential)):
        assert not secrets_in(repr(thing))
    assert asdict(credential)["authorization"] == f"Bearer {SECRET}"  # it is present but not shown


async def test_logs_and_errors_of_requests_show_no_secret(
    server: Server, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    credentials = StaticCredentials(Credential(bearer(SECRET)))
    body = Endpoints(metadata=ObjectMeta(annotations={"a": SECRET}))
    server.script(
        json_response("{}"),
        json_response('{"items":[]}'),
        failure(401, "Unauthorized"),
        failure(409, "Conflict"),
        web.Response(text=SECRET),
        web.Response(status=302, headers={"Location": f"https://x/?{SECRET}"}),
        json_response(f'{{"type":"ADDED","object":{{"metadata":{{"name":["{SECRET}"]}}}}}}\n'),
    )
    texts: list[str] = []
    async with client_of(server, clock, credentials=credentials) as client:
        await client.update(ENDPOINTS, body, key=ObjectKey("ns", "a"))
        await client.list_page(PODS, continue_token=SECRET, label_selector=f"a={SECRET}")
        for _ in range(4):
            with pytest.raises(ClientError) as raised:
                await client.update(ENDPOINTS, body, key=ObjectKey("ns", "a"))
            texts += [str(raised.value), repr(raised.value)]
        async with client.watch(PODS, field_selector=f"a={SECRET}") as batches:
            with pytest.raises(ClientError) as raised:
                await anext(batches)
            texts += [str(raised.value), repr(raised.value)]
    assert len(server.seen) == 7
    assert not any(map(secrets_in, texts))
    assert not secrets_in(caplog.text)


async def test_each_request_logs_one_debug_line_with_method_path_code_and_time(
    server: Server, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aiokube")
    server.script(failure(404, "NotFound"))
    async with client_of(server, clock) as client:
        with pytest.raises(ClientError):
            await client.get(PODS, ObjectKey("ns", "a"))
    assert [record.getMessage() for record in caplog.records] == [
        "request: verb=GET path=/api/v1/namespaces/ns/pods/a outcome=404 milliseconds=0.0"
    ]
