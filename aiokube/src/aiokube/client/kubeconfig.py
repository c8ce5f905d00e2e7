"""From a kubeconfig context to the configuration of a client."""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiokube.client.config import ClusterConfig, Impersonation, TlsConfig
from aiokube.client.credentials import (
    CertificateData,
    CertificateFiles,
    ClientCertificate,
    Credential,
    Credentials,
    StaticCredentials,
    TokenFile,
    basic,
    bearer,
)
from aiokube.client.errors import ConfigError
from aiokube.client.exec_credentials import ExecCredentials, ExecPlugin
from aiokube.client.kubeconfig_file import (
    ClusterEntry,
    ContextEntry,
    ExecEntry,
    Kubeconfig,
    Located,
    UserEntry,
)
from aiokube.client.oidc import OidcCredentials, OidcSettings
from aiokube.client.proxy import checked_proxy, proxy_from_environment
from aiokube.clock import Clock

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def config_of(
    kubeconfig: Kubeconfig, *, clock: Clock, context: str = "", environ: Mapping[str, str] | None = None
) -> ClusterConfig:
    """Return the configuration of a context, the current one by default.

    Raises ConfigError, which names the file, the entry and the remedy. Certificate and token files are not
    read yet.
    """
    environ = os.environ if environ is None else environ
    name, chosen = _context(kubeconfig, context)
    where = f"context {name!r} in {chosen.file}"
    cluster_name, user_name = chosen.entry.cluster or "", chosen.entry.user or ""
    cluster = kubeconfig.clusters.get(cluster_name)
    if cluster is None:
        raise ConfigError(
            f"{where} names the cluster {cluster_name!r}, which is not defined: add it under clusters"
        )
    user = kubeconfig.users.get(user_name)
    if user is None and user_name:
        raise ConfigError(f"{where} names the user {user_name!r}, which is not defined: add it under users")
    cluster_at = f"cluster {cluster_name!r} in {cluster.file}"
    has_certificate = user is not None and bool(
        user.entry.client_certificate or user.entry.client_certificate_data
    )
    server = _server(cluster.entry, cluster_at, has_certificate=has_certificate)
    proxy = cluster.entry.proxy_url or ""
    tls = _tls(cluster, cluster_at)
    user = user or Located(UserEntry(), chosen.file)
    user_at = f"user {user_name!r} in {user.file}"
    return ClusterConfig(
        server=server,
        tls=tls,
        credentials=_credentials(user, user_at, cluster, server, tls, clock),
        impersonation=_impersonation(user.entry, user_at),
        proxy_url=checked_proxy(proxy, cluster_at) if proxy else proxy_from_environment(server, environ),
        namespace=chosen.entry.namespace or "default",
        compression=not cluster.entry.disable_compression,
        origin=where,
        identity=user_at if user_name else f"an anonymous user ({where} names no user)",
    )


def _context(kubeconfig: Kubeconfig, wanted: str) -> tuple[str, Located[ContextEntry]]:
    name = wanted or kubeconfig.current_context
    known = ", ".join(sorted(kubeconfig.contexts)) or "none"
    if not name:
        raise ConfigError(
            f"the kubeconfig has no current-context: set it, or name a context (known: {known})"
        )
    found = kubeconfig.contexts.get(name)
    if found is None:
        raise ConfigError(f"the kubeconfig has no context {name!r} (known: {known})")
    return name, found


# -------------------------------------------------------------------------------------------------- server


def _server(entry: ClusterEntry, where: str, *, has_certificate: bool) -> str:
    server = (entry.server or "").strip()
    if not server:
        raise ConfigError(f"{where} has no server: add its URL, such as https://10.0.0.1:6443")
    if not _SCHEME.match(server):
        secure = (
            entry.certificate_authority
            or entry.certificate_authority_data
            or entry.insecure_skip_tls_verify
            or has_certificate
        )
        server = f"{'https' if secure else 'http'}://{server}"
    return checked_server(server, where)


def checked_server(server: str, where: str) -> str:
    """Return the URL of a server. Raises ConfigError if it is invalid."""
    try:
        parts = urlsplit(server)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment or parts.username is not None:
        raise ConfigError(f"the server of {where} is not a URL like https://host:port: fix it")
    return server.rstrip("/")


def _tls(cluster: Located[ClusterEntry], where: str) -> TlsConfig:
    entry = cluster.entry
    if entry.insecure_skip_tls_verify and (entry.certificate_authority or entry.certificate_authority_data):
        raise ConfigError(
            f"{where} has a certificate authority and insecure-skip-tls-verify: these exclude each other, remove one"
        )
    data = None
    if entry.certificate_authority_data:
        data = _decoded(entry.certificate_authority_data, f"certificate-authority-data of {where}")
    return TlsConfig(
        ca_file=cluster.path(entry.certificate_authority) if entry.certificate_authority else None,
        ca_data=data,
        server_name=entry.tls_server_name or "",
        insecure=bool(entry.insecure_skip_tls_verify),
    )


# -------------------------------------------------------------------------------------------- credentials


def _credentials(
    user: Located[UserEntry],
    where: str,
    cluster: Located[ClusterEntry],
    server: str,
    tls: TlsConfig,
    clock: Clock,
) -> Credentials:
    entry = user.entry
    methods = [
        name
        for name, given in (
            ("token", entry.token or entry.token_file),
            ("username", entry.username or entry.password),
            ("auth-provider", entry.auth_provider),
            ("exec", entry.exec),
        )
        if given
    ]
    if len(methods) > 1:
        raise ConfigError(
            f"{where} identifies itself in {len(methods)} ways ({', '.join(methods)}): keep one"
        )
    certificate = _certificate(user, where)
    if entry.exec is not None:
        plugin = _plugin(user, entry.exec, where)
        told = None
        if entry.exec.provide_cluster_info:
            told = _cluster_info(cluster, server, tls)
        return ExecCredentials(plugin, clock=clock, certificate=certificate, cluster=told)
    if entry.auth_provider is not None:
        return _oidc(user, where, certificate, clock)
    if entry.token_file:
        return TokenFile(
            user.path(entry.token_file),
            clock=clock,
            certificate=certificate,
            fallback=entry.token or "",
            what=f"the tokenFile of {where},",
        )
    authorization = None
    if entry.token:
        authorization = bearer(entry.token)
    elif entry.username or entry.password:
        authorization = basic(entry.username or "", entry.password or "")
    return StaticCredentials(Credential(authorization, certificate))


def _certificate(user: Located[UserEntry], where: str) -> ClientCertificate | None:
    entry = user.entry
    has_certificate = bool(entry.client_certificate_data or entry.client_certificate)
    has_key = bool(entry.client_key_data or entry.client_key)
    if not has_certificate and not has_key:
        return None
    if not has_certificate or not has_key:
        missing = "client-key" if has_certificate else "client-certificate"
        raise ConfigError(
            f"{where} has only one half of a client certificate: add {missing} or {missing}-data"
        )
    if (
        entry.client_certificate
        and entry.client_key
        and not (entry.client_certificate_data or entry.client_key_data)
    ):
        return CertificateFiles(user.path(entry.client_certificate), user.path(entry.client_key))
    return CertificateData(
        _data_or_file(
            user, entry.client_certificate_data, entry.client_certificate, f"client-certificate of {where}"
        ),
        _data_or_file(user, entry.client_key_data, entry.client_key, f"client-key of {where}"),
    )


def _data_or_file(user: Located[UserEntry], data: str | None, file: str | None, what: str) -> bytes:
    if data:
        return _decoded(data, what)
    path = user.path(file or "")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the {what} cannot be read: {path}: {error.strerror}") from None


def _decoded(data: str, what: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"the {what} is not base64: encode the PEM file with base64") from None


def _impersonation(entry: UserEntry, where: str) -> Impersonation | None:
    rest = entry.impersonate_uid or entry.impersonate_groups or entry.impersonate_extra
    if not entry.impersonate_user:
        if rest:
            raise ConfigError(f"{where} impersonates a uid, groups or extra without a user: add 'as'")
        return None
    return Impersonation(
        user=entry.impersonate_user,
        uid=entry.impersonate_uid or "",
        groups=tuple(entry.impersonate_groups or ()),
        extra={key: tuple(values) for key, values in (entry.impersonate_extra or {}).items()},
    )


def _plugin(user: Located[UserEntry], entry: ExecEntry, where: str) -> ExecPlugin:
    command = entry.command or ""
    if "/" in command:
        command = str(user.path(command))
    return ExecPlugin.checked(
        where=f"exec of {where}",
        command=command,
        arguments=tuple(entry.args or ()),
        environment={variable.name: variable.value or "" for variable in entry.env or ()},
        api_version=entry.api_version or "",
        install_hint=entry.install_hint or "",
        interactive_mode=entry.interactive_mode or "",
    )


def _cluster_info(cluster: Located[ClusterEntry], server: str, tls: TlsConfig) -> dict[str, Any]:
    """Return the cluster information for an exec plugin (``provideClusterInfo``)."""
    entry = cluster.entry
    authority = tls.ca_data
    if authority is None and tls.ca_file is not None:
        try:
            authority = tls.ca_file.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"the certificate authority file {tls.ca_file} cannot be read: {error.strerror}"
            ) from None
    told: dict[str, Any] = {"server": server}
    if tls.server_name:
        told["tls-server-name"] = tls.server_name
    if tls.insecure:
        told["insecure-skip-tls-verify"] = True
    if authority:
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    if entry.proxy_url:
        told["proxy-url"] = entry.proxy_url
    if entry.disable_compression:
        told["disable-compression"] = True
    for extension in entry.extensions or ():
        if extension.name == _EXEC_EXTENSION:
            told["config"] = extension.extension
    return told


def _oidc(
    user: Located[UserEntry], where: str, certificate: ClientCertificate | None, clock: Clock
) -> OidcCredentials:
    provider = user.entry.auth_provider
    if provider is None or provider.name != "oidc":
        name = provider.name if provider is not None else ""
        raise ConfigError(
            f"{where} uses the auth-provider {name!r}, which Kubernetes no longer supports: "
            "use the exec plugin of your provider (gke-gcloud-auth-plugin, kubelogin, ...)"
        )
    given = provider.config or {}
    ca_data = given.get("idp-certificate-authority-data")
    ca_file = given.get("idp-certificate-authority")
    return OidcCredentials(
        OidcSettings(
            where=where,
            issuer=given.get("idp-issuer-url", ""),
            client_id=given.get("client-id", ""),
            client_secret=given.get("client-secret", ""),
            tls=TlsConfig(
                ca_file=user.path(ca_file) if ca_file else None,
                ca_data=_decoded(ca_data, f"idp-certificate-authority-data of {where}") if ca_data else None,
            ),
        ),
        id_token=given.get("id-token", ""),
        refresh_token=given.get("refresh-token", ""),
        certificate=certificate,
        clock=clock,
    )


def kubeconfig_paths(environ: Mapping[str, str]) -> list[Path]:
    """Return the files that KUBECONFIG lists, without duplicates; empty if it is not set."""
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return list(dict.fromkeys(listed))
