"""Service account tokens: issued by TokenRequest, accepted by the server, verified by TokenReview."""

import asyncio
import base64
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import kubernetes
import msgspec
import pytest
from kubernetes.config.incluster_config import InClusterConfigLoader
from msgspec.structs import replace

import tinykube
from aiokube import Client, NotFoundError, UnauthorizedError
from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.client.errors import ApiError
from aiokube.client.incluster import in_cluster_config
from aiokube.clock import SystemClock
from aiokube.testing.virtual_time import ManualClock
from tinykube import DEFAULT_SETTINGS, LoopApiServer, ThreadApiServer, running_api_server

ISSUER = "https://kubernetes.default.svc.cluster.local"
Json = dict[str, Any]


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def claims_of(token: str) -> Json:
    payload = token.split(".")[1]
    claims: Json = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def config_with(server: LoopApiServer, token: str) -> ClusterConfig:
    return ClusterConfig(
        server=server.url,
        tls=TlsConfig(ca_data=server.certificate_authority),
        credentials=StaticCredentials(Credential(authorization=bearer(token))),
        origin="a test",
    )


async def post(client: Client, path: str, body: Json) -> Json:
    answer: Json = msgspec.json.decode(await client.request("POST", path, body=msgspec.json.encode(body)))
    return answer


async def who_is(server: LoopApiServer, token: str) -> Json:
    async with Client.from_config(config_with(server, token), clock=SystemClock()) as client:
        answer = await post(client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    return dict(answer["status"]["userInfo"])


async def review(server: LoopApiServer, token: str, *audiences: str) -> Json:
    body = {"spec": {"token": token, "audiences": list(audiences)}}
    answer = await post(server.client, "/apis/authentication.k8s.io/v1/tokenreviews", body)
    return dict(answer["status"])


async def request_token(server: LoopApiServer, name: str = "default", **spec: Any) -> Json:
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    return await post(server.client, path, {"spec": spec})


def test_a_token_authenticates_as_its_service_account() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            user = await who_is(server, await server.service_account_token("robot"))
            assert user["username"] == "system:serviceaccount:default:robot"
            assert user["uid"] == (await server.get("v1", "ServiceAccount", "robot"))["metadata"]["uid"]
            assert user["groups"] == [
                "system:serviceaccounts",
                "system:serviceaccounts:default",
                "system:authenticated",
            ]

    run(scene())


def test_token_claims_match_those_of_kubernetes() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            token = await server.service_account_token("robot", lifetime_seconds=600)
            claims = claims_of(token)
            assert (claims["iss"], claims["aud"]) == (ISSUER, [ISSUER])
            assert claims["exp"] - claims["iat"] == 600
            assert claims["sub"] == "system:serviceaccount:default:robot"
            assert claims["kubernetes.io"]["serviceaccount"]["name"] == "robot"

    run(scene())


def test_an_expired_token_is_rejected() -> None:
    async def scene() -> None:
        clock = ManualClock()
        async with running_api_server(clock=clock) as server:
            status = (await post_token(server))["status"]["token"]
            assert (await review(server, status))["authenticated"]
            clock.advance(3600 + 61)
            assert "service account token has expired" in (await review(server, status))["error"]

    async def post_token(server: LoopApiServer) -> Json:
        await server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        return await request_token(server)

    run(scene())


def test_a_token_for_another_audience_is_valid_only_for_that_audience() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            token = await server.service_account_token(audiences=["vault"])
            with pytest.raises(UnauthorizedError):
                await who_is(server, token)
            assert not (await review(server, token)).get("authenticated")
            status = await review(server, token, "vault", "other")
            assert status["authenticated"]
            assert status["audiences"] == ["vault"]

    run(scene())


def test_a_token_is_invalid_after_its_account_is_deleted_or_recreated() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            token = await server.service_account_token("robot")
            await server.delete("v1", "ServiceAccount", "robot")
            assert 'serviceaccounts "robot" not found' in (await review(server, token))["error"]
            await server.service_account_token("robot")
            assert "does not match claim" in (await review(server, token))["error"]

    run(scene())


def test_a_pod_bound_token_names_the_pod_and_is_invalidated_with_it() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            await server.service_account_token()
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"},
            }
            await server.apply(pod)
            reference = {"apiVersion": "v1", "kind": "Pod", "name": "web"}
            token = (await request_token(server, boundObjectRef=reference))["status"]["token"]
            extra = (await who_is(server, token))["extra"]
            assert extra["authentication.kubernetes.io/pod-name"] == ["web"]
            assert extra["authentication.kubernetes.io/node-name"] == ["n1"]
            await server.delete("v1", "Pod", "web")
            assert "service account token has been invalidated" in (await review(server, token))["error"]

    run(scene())


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "none"}},
            404,
            'pods "none" not found',
        ),
        (
            {"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
    ],
)
def test_an_invalid_token_request_is_rejected(spec: Json, code: int, message: str) -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            await server.service_account_token()
            with pytest.raises(ApiError) as refused:
                await request_token(server, **spec)
            assert refused.value.code == code
            assert message in str(refused.value)

    run(scene())


def test_a_token_request_for_a_missing_account_is_404() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            with pytest.raises(NotFoundError, match='serviceaccounts "missing" not found'):
                await request_token(server, "missing")

    run(scene())


def test_a_forged_or_modified_token_is_rejected() -> None:
    async def scene() -> None:
        async with running_api_server() as server, running_api_server() as other:
            await server.service_account_token()
            stranger = await other.service_account_token()
            head, payload, signature = (await server.service_account_token()).split(".")
            unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
            swapped = stranger.split(".")[1]
            for forged in (
                stranger,
                f"{head}.{swapped}.{signature}",
                f"{unsigned}.{payload}.",
                f"{head}.{payload}.{signature[:-4]}AAAA",
                "..",
                "a.b.c",
                "é.é.é",
            ):
                assert (await review(server, forged)).get("error") == "invalid bearer token"
            with pytest.raises(UnauthorizedError):
                await who_is(server, stranger)

    run(scene())


def test_the_admin_token_passes_token_review() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            status = await review(server, server.token)
            assert status["user"] == {
                "username": "tinykube-admin",
                "groups": ["system:masters", "system:authenticated"],
            }

    run(scene())


def test_tokens_survive_a_restart_with_the_same_data_directory(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = replace(DEFAULT_SETTINGS, data_dir=tmp_path / "data")
        async with running_api_server(settings) as server:
            token = await server.service_account_token("robot")
        async with running_api_server(settings) as server:
            assert (await who_is(server, token))["username"] == "system:serviceaccount:default:robot"
        assert (tmp_path / "data" / "service-account.key").stat().st_mode & 0o777 == 0o600

    run(scene())


def test_tokens_can_be_verified_with_the_published_keys() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    def number(text: str) -> int:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")

    async def scene() -> None:
        async with running_api_server() as server:
            token = await server.service_account_token()
            found = msgspec.json.decode(
                await server.client.request("GET", "/.well-known/openid-configuration")
            )
            assert found["issuer"] == ISSUER
            assert found["jwks_uri"] == f"{server.url}/openid/v1/jwks"
            key = msgspec.json.decode(await server.client.request("GET", "/openid/v1/jwks"))["keys"][0]
            public = ec.EllipticCurvePublicNumbers(
                number(key["x"]), number(key["y"]), ec.SECP256R1()
            ).public_key()
            signed, _, signature = token.rpartition(".")
            raw = number(signature).to_bytes(64, "big")
            encoded = utils.encode_dss_signature(
                int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
            )
            public.verify(encoded, signed.encode(), ec.ECDSA(hashes.SHA256()))

    run(scene())


def test_the_in_cluster_configuration_of_aiokube_works() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            pod = await server.in_cluster("robot", await server.new_namespace("shop"))
            config = in_cluster_config(clock=SystemClock(), environ=pod.environ, folder=pod.folder)
            assert config.namespace.startswith("shop-")
            async with Client.from_config(config, clock=SystemClock()) as client:
                answer = await post(client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
            name = answer["status"]["userInfo"]["username"]
            assert name == f"system:serviceaccount:{config.namespace}:robot"

    run(scene())


def test_the_in_cluster_configuration_of_the_official_client_works(api_server: ThreadApiServer) -> None:
    pod = api_server.in_cluster()
    load: Any = InClusterConfigLoader  # not typed
    loader = load(
        token_filename=str(pod.folder / "token"),
        cert_filename=str(pod.folder / "ca.crt"),
        environ=pod.environ,
    )
    configuration = kubernetes.client.Configuration()
    loader.load_and_set(configuration)
    with kubernetes.client.ApiClient(configuration) as client:
        namespaces: Any = kubernetes.client.CoreV1Api(client).list_namespace()
        review: Any = kubernetes.client.AuthenticationV1Api(client).create_self_subject_review(
            kubernetes.client.V1SelfSubjectReview()
        )
    assert "default" in [one.metadata.name for one in namespaces.items]
    assert review.status.user_info.username == "system:serviceaccount:default:default"


def test_namespace_defaults_are_created_before_readiness_only_if_enabled() -> None:
    async def scene() -> None:
        async with running_api_server() as server:
            assert await server.list_all("v1", "ServiceAccount") == []
        async with running_api_server(replace(DEFAULT_SETTINGS, namespace_defaults=True)) as server:
            found = [one["metadata"]["namespace"] for one in await server.list_all("v1", "ServiceAccount")]
            assert found == ["default", "kube-node-lease", "kube-public", "kube-system"]
            root = await server.get("v1", "ConfigMap", "kube-root-ca.crt")
            assert root["data"]["ca.crt"].encode() == server.certificate_authority

    run(scene())


def test_in_cluster_returns_the_public_type(api_server: ThreadApiServer) -> None:
    assert isinstance(api_server.in_cluster(), tinykube.InCluster)
