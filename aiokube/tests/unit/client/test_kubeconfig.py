"""From a context to a configuration: all forms of servers and credentials."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aiokube.client.config import ClusterConfig, Impersonation, TlsConfig
from aiokube.client.credentials import CertificateData, CertificateFiles
from aiokube.client.errors import ConfigError
from aiokube.client.kubeconfig import config_of
from aiokube.client.kubeconfig_file import read_kubeconfig
from aiokube.testing.virtual_time import ManualClock


def resolve(
    folder: Path,
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
) -> ClusterConfig:
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "dev",
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}
                ],
                "users": [{"name": "u", "user": user or {}}],
                "contexts": [{"name": "dev", "context": context or {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return config_of(read_kubeconfig(path), clock=ManualClock(), environ=environ or {})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def header(config: ClusterConfig) -> str | None:
    return (await config.credentials.current()).authorization


# ---------------------------------------------------------------------------------------------- the context


def test_a_context_determines_server_namespace_and_origin(tmp_path: Path) -> None:
    config = resolve(tmp_path, context={"cluster": "c", "user": "u", "namespace": "team"})
    assert (config.server, config.namespace) == ("https://10.0.0.1:6443", "team")
    assert config.origin == f"context 'dev' in {tmp_path / 'config'}"
    assert resolve(tmp_path).namespace == "default"


def test_another_context_can_be_selected(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: a\n"
        "clusters: [{name: a, cluster: {server: https://a}}, {name: b, cluster: {server: https://b}}]\n"
        "contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\n"
    )
    kubeconfig = read_kubeconfig(path)
    assert config_of(kubeconfig, clock=ManualClock(), environ={}).server == "https://a"
    assert config_of(kubeconfig, clock=ManualClock(), context="b", environ={}).server == "https://b"
    with pytest.raises(ConfigError, match=r"no context 'c' \(known: a, b\)"):
        config_of(kubeconfig, clock=ManualClock(), context="c", environ={})


def test_a_context_must_be_named_if_there_is_no_current_context(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [{name: a, context: {cluster: a}}]")
    with pytest.raises(ConfigError, match=r"no current-context: set it, or name a context \(known: a\)"):
        config_of(read_kubeconfig(path), clock=ManualClock(), environ={})


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"cluster": "x", "user": "u"}, "names the cluster 'x', which is not defined: add it under clusters"),
        ({"user": "u"}, "names the cluster '', which is not defined"),
        ({"cluster": "c", "user": "x"}, "names the user 'x', which is not defined: add it under users"),
    ],
)
def test_a_context_with_an_unknown_cluster_or_user_is_reported(
    tmp_path: Path, context: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        resolve(tmp_path, context=context)
    assert str(raised.value).startswith(f"context 'dev' in {tmp_path / 'config'} {words}")


async def test_a_context_without_a_user_is_valid(tmp_path: Path) -> None:
    config = resolve(tmp_path, context={"cluster": "c"})
    assert await header(config) is None


# ----------------------------------------------------------------------------------------------- the server


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        ({"server": "https://host/"}, "https://host"),
        ({"server": "https://host:1/k8s/c-1/"}, "https://host:1/k8s/c-1"),
        ({"server": "http://[fd00::1]:8080"}, "http://[fd00::1]:8080"),
        ({"server": "localhost:8080"}, "http://localhost:8080"),
        ({"server": "host:6443", "insecure-skip-tls-verify": True}, "https://host:6443"),
        ({"server": "host:6443", "certificate-authority": "ca.crt"}, "https://host:6443"),
    ],
)
def test_the_server_url_is_interpreted_as_in_kubectl(
    tmp_path: Path, cluster: dict[str, Any], server: str
) -> None:
    assert resolve(tmp_path, cluster=cluster).server == server


@pytest.mark.parametrize(
    "server",
    ["ftp://host", "https://", "https://host:port", "https://host:99999", "https://h?x=1", "https://u:p@h"],
)
def test_an_invalid_server_url_is_reported_but_not_shown(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigError, match=r"the server of cluster 'c' in .*/config is not a URL"):
        resolve(tmp_path, cluster={"server": server})


def test_a_cluster_without_a_server_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no server: add its URL"):
        resolve(tmp_path, cluster={"server": None})


def test_tls_trust_is_configured_by_file_data_server_name_or_disabled(tmp_path: Path) -> None:
    def tls(**cluster: Any) -> TlsConfig:
        return resolve(tmp_path, cluster={key.replace("_", "-"): value for key, value in cluster.items()}).tls

    assert tls(certificate_authority="pki/ca.crt") == TlsConfig(ca_file=tmp_path / "pki/ca.crt")
    assert tls(certificate_authority_data=encoded("PEM")) == TlsConfig(ca_data=b"PEM")
    assert tls(tls_server_name="kubernetes") == TlsConfig(server_name="kubernetes")
    assert tls(insecure_skip_tls_verify=True) == TlsConfig(insecure=True)
    with pytest.raises(ConfigError, match="these exclude each other"):
        tls(insecure_skip_tls_verify=True, certificate_authority="ca.crt")
    with pytest.raises(ConfigError, match=r"certificate-authority-data of cluster 'c' in .* is not base64"):
        tls(certificate_authority_data="%%%")


def test_a_configured_proxy_takes_precedence_over_the_environment(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://from-env:3128"}
    assert resolve(tmp_path, environ=environ).proxy_url == "http://from-env:3128"
    given = {"proxy-url": "http://given:3128"}
    assert resolve(tmp_path, cluster=given, environ=environ).proxy_url == "http://given:3128"
    with pytest.raises(ConfigError, match="uses socks5: only http and https"):
        resolve(tmp_path, cluster={"proxy-url": "socks5://user:hunter2@given:1080"})


def test_compression_is_enabled_unless_the_cluster_disables_it(tmp_path: Path) -> None:
    assert resolve(tmp_path).compression
    assert not resolve(tmp_path, cluster={"disable-compression": True}).compression


# ------------------------------------------------------------------------------------------------- the user


async def test_users_authenticate_by_token_or_password_or_not_at_all(tmp_path: Path) -> None:
    assert await header(resolve(tmp_path, user={"token": "t"})) == "Bearer t"
    assert await header(resolve(tmp_path, user={"username": "a", "password": "b"})) == "Basic YTpi"
    assert await header(resolve(tmp_path)) is None


async def test_a_token_file_path_is_relative_to_the_kubeconfig_and_overrides_the_token(
    tmp_path: Path,
) -> None:
    config = resolve(tmp_path, user={"tokenFile": "token", "token": "given"})
    assert await header(config) == "Bearer given"
    put(tmp_path / "token", "file's")
    config = resolve(tmp_path, user={"tokenFile": "token", "token": "given"})
    assert await header(config) == "Bearer file's"
    with pytest.raises(ConfigError, match=r"the tokenFile of user 'u' in .*/config, .*/none cannot be used"):
        await header(resolve(tmp_path, user={"tokenFile": "none"}))


def put(path: Path, text: str) -> None:
    path.write_text(text)


async def test_a_client_certificate_is_loaded_from_files_data_or_both(tmp_path: Path) -> None:
    async def certificate(**user: str) -> Any:
        entry = {key.replace("_", "-"): value for key, value in user.items()}
        return (await resolve(tmp_path, user=entry).credentials.current()).certificate

    put(tmp_path / "c", "CERT")
    put(tmp_path / "k", "KEY")
    data = CertificateData(b"CERT", b"KEY")
    files = CertificateFiles(tmp_path / "c", tmp_path / "k")
    assert await certificate(client_certificate="c", client_key="k") == files
    cert, key = encoded("CERT"), encoded("KEY")
    assert await certificate(client_certificate_data=cert, client_key_data=key) == data
    assert await certificate(client_certificate_data=cert, client_certificate="none", client_key="k") == data
    assert await certificate(client_certificate="c", client_key_data=key) == data
    with pytest.raises(
        ConfigError, match="one half of a client certificate: add client-key or client-key-data"
    ):
        await certificate(client_certificate="c")
    with pytest.raises(ConfigError, match="add client-certificate or"):
        await certificate(client_key_data=key)
    with pytest.raises(
        ConfigError, match=r"client-key of user 'u' in .* cannot be read: .*/none: No such file"
    ):
        await certificate(client_certificate_data=cert, client_key="none")


@pytest.mark.parametrize(
    ("user", "ways"),
    [
        ({"token": "t", "username": "n"}, "token, username"),
        ({"token": "t", "exec": {"command": "x"}}, "token, exec"),
        ({"auth-provider": {"name": "oidc"}, "exec": {"command": "x"}}, "auth-provider, exec"),
    ],
)
def test_two_authentication_methods_for_one_user_are_rejected(
    tmp_path: Path, user: dict[str, Any], ways: str
) -> None:
    with pytest.raises(ConfigError, match=rf"user 'u' in .* in 2 ways \({ways}\): keep one"):
        resolve(tmp_path, user=user)


def test_impersonation_settings_are_read(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "1", "as-groups": ["a", "b"], "as-user-extra": {"k": ["v", "w"]}}
    expected = Impersonation("jane", "1", ("a", "b"), {"k": ("v", "w")})
    assert resolve(tmp_path, user=user).impersonation == expected
    assert resolve(tmp_path).impersonation is None
    with pytest.raises(ConfigError, match="without a user: add 'as'"):
        resolve(tmp_path, user={"as-groups": ["a"]})


@pytest.mark.parametrize("name", ["gcp", "azure"])
def test_a_removed_auth_provider_is_reported_with_its_replacement(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"auth-provider '{name}', which Kubernetes no longer supports: use the exec plugin"
    ):
        resolve(tmp_path, user={"auth-provider": {"name": name}})


# ------------------------------------------------------------------------------------------------- plugins


def plugin_entry(**more: Any) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "interactiveMode": "Never",
            "env": [{"name": "WHO", "value": "me"}],
            "args": ["--flag"],
            **more,
        }
    }


def write_plugin(folder: Path) -> None:
    script = folder / "plugin"
    script.write_text(
        f"#!{sys.executable} -SE\n"
        "import json, os, sys\n"
        "open(os.path.join(os.path.dirname(__file__), 'told'), 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = os.environ['WHO'] + ''.join(sys.argv[1:])\n"
        "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'status': {'token': token}}))\n"
    )
    script.chmod(0o755)


def exec_info(folder: Path) -> Any:
    return json.loads((folder / "told").read_text())


async def test_a_plugin_path_is_relative_to_the_kubeconfig_and_gets_arguments_and_environment(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path)
    config = resolve(tmp_path, user=plugin_entry())
    assert await header(config) == "Bearer me--flag"
    assert "cluster" not in exec_info(tmp_path)["spec"]


async def test_a_plugin_receives_the_cluster_if_it_requests_it(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    put(tmp_path / "ca.crt", "PEM")
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "extensions": [
            {"name": "other", "extension": {"b": 2}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        ],
    }
    await header(resolve(tmp_path, cluster=cluster, user=plugin_entry(provideClusterInfo=True)))
    assert exec_info(tmp_path)["spec"]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": encoded("PEM"),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "config": {"audience": "x"},
    }
    insecure = {"insecure-skip-tls-verify": True}
    await header(resolve(tmp_path, cluster=insecure, user=plugin_entry(provideClusterInfo=True)))
    assert exec_info(tmp_path)["spec"]["cluster"]["insecure-skip-tls-verify"] is True


def test_an_unreadable_authority_for_the_plugins_cluster_info_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/none cannot be read: No such file"):
        resolve(
            tmp_path, cluster={"certificate-authority": "none"}, user=plugin_entry(provideClusterInfo=True)
        )


def test_an_invalid_plugin_entry_is_reported_with_user_and_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^exec of user 'u' in .*/config has the apiVersion ''"):
        resolve(tmp_path, user={"exec": {"command": "x"}})
