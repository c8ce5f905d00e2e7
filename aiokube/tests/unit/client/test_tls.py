"""TLS: trust, client certificates, and their rotation at run time."""

import asyncio
import os
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from tests.unit.client.support import (
    client_of,
    failure,
    json_response,
    running_server,
    server_context,
)

from aiokube.api.core import PODS
from aiokube.client import network
from aiokube.client import tls as tls_module
from aiokube.client.config import TlsConfig
from aiokube.client.credentials import (
    CertificateData,
    CertificateFiles,
    Credential,
    Credentials,
    StaticCredentials,
)
from aiokube.client.errors import ConfigError, TlsError
from aiokube.client.tls import TlsContexts, make_context
from aiokube.testing.virtual_time import ManualClock


def pem_of(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


def certificate_for(authority: trustme.CA, user: str) -> CertificateData:
    leaf = authority.issue_cert(common_name=user, key_type=trustme.KeyType.ECDSA)
    return CertificateData(
        b"".join(blob.bytes() for blob in leaf.cert_chain_pems), leaf.private_key_pem.bytes()
    )


def write(certificate: CertificateData, folder: Path) -> CertificateFiles:
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
    files.certificate.write_bytes(certificate.certificate)
    files.key.write_bytes(certificate.key)
    return files


def with_certificate(certificate: CertificateData | CertificateFiles) -> Credentials:
    return StaticCredentials(Credential(None, certificate))


async def test_a_server_is_verified_against_an_authority_from_data_or_file(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(pem_of(authority))
    async with running_server(server_context(authority)) as server:
        for tls in (TlsConfig(ca_data=pem_of(authority)), TlsConfig(ca_file=file)):
            async with client_of(server, clock, tls=tls) as client:
                await client.list_page(PODS)


async def test_a_server_with_an_unknown_authority_is_rejected_with_a_reason(
    authority: trustme.CA, clock: ManualClock
) -> None:
    stranger = trustme.CA(key_type=trustme.KeyType.ECDSA)
    tls = TlsConfig(ca_data=pem_of(authority))
    async with (
        running_server(server_context(stranger)) as server,
        client_of(server, clock, tls=tls) as client,
    ):
        with pytest.raises(TlsError, match=r"TLS with 127\.0\.0\.1:\d+ failed: .* not trusted: ") as raised:
            await client.list_page(PODS)
    assert not raised.value.may_have_acted
    assert server.seen == []


async def test_the_systems_authorities_are_the_default(authority: trustme.CA, clock: ManualClock) -> None:
    async with running_server(server_context(authority)) as server, client_of(server, clock) as client:
        with pytest.raises(TlsError):
            await client.list_page(PODS)


async def test_insecure_mode_accepts_any_certificate(authority: trustme.CA, clock: ManualClock) -> None:
    context = server_context(authority, "elsewhere.example")
    tls = TlsConfig(insecure=True)
    async with running_server(context) as server, client_of(server, clock, tls=tls) as client:
        await client.list_page(PODS)


async def test_the_expected_server_name_can_be_configured(authority: trustme.CA, clock: ManualClock) -> None:
    async with running_server(server_context(authority, "kubernetes.example")) as server:
        pem = pem_of(authority)
        named = TlsConfig(ca_data=pem, server_name="kubernetes.example")
        async with client_of(server, clock, tls=named) as client:
            await client.list_page(PODS)
        async with client_of(server, clock, tls=TlsConfig(ca_data=pem)) as client:
            with pytest.raises(TlsError, match="not valid for '127"):
                await client.list_page(PODS)


async def test_an_intermediate_authority_can_be_trusted_by_itself(
    authority: trustme.CA, clock: ManualClock
) -> None:
    child = authority.create_child_ca(key_type=trustme.KeyType.ECDSA)
    tls = TlsConfig(ca_data=pem_of(child))
    async with running_server(server_context(child)) as server, client_of(server, clock, tls=tls) as client:
        await client.list_page(PODS)


async def test_plain_http_instead_of_tls_is_reported(authority: trustme.CA, clock: ManualClock) -> None:
    async with running_server() as server:
        server.url = server.url.replace("http://", "https://")
        async with client_of(server, clock, tls=TlsConfig(ca_data=pem_of(authority))) as client:
            with pytest.raises(TlsError, match=r"TLS with .* failed: the server does not speak TLS there"):
                await client.list_page(PODS)


def test_tls_versions_before_1_2_are_not_used() -> None:
    assert make_context(TlsConfig(), None).minimum_version is ssl.TLSVersion.TLSv1_2


# -------------------------------------------------------------------------------------- client certificates


@pytest.mark.parametrize("from_files", [False, True])
async def test_a_client_certificate_authenticates_the_client(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path, from_files: bool
) -> None:
    data = certificate_for(authority, "jane")
    certificate = write(data, tmp_path) if from_files else data
    async with running_server(server_context(authority, clients=authority, demand=True)) as server:
        tls = TlsConfig(ca_data=pem_of(authority))
        async with client_of(server, clock, tls=tls, credentials=with_certificate(certificate)) as client:
            await client.list_page(PODS)
    assert "jane" in server.seen[0].subject


def test_in_memory_keys_are_on_disk_only_while_loading_and_readable_only_by_the_owner(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    load = tls_module._load_chain

    def spying(context: ssl.SSLContext, certificate: Path, key: Path, where: str) -> None:
        modes.extend(path.stat().st_mode & 0o777 for path in (certificate, key, key.parent))
        load(context, certificate, key, where)

    monkeypatch.setattr(tls_module, "_load_chain", spying)
    before = os.umask(0)
    try:
        make_context(TlsConfig(), certificate_for(authority, "jane"))
        with pytest.raises(ConfigError):
            make_context(TlsConfig(), CertificateData(b"no certificate", b"no key"))
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600, 0o700] * 2
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------- invalid files


def test_an_invalid_authority_is_reported_with_its_origin(tmp_path: Path) -> None:
    bad = tmp_path / "ca.crt"
    bad.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca\.crt holds no certificates"):
        make_context(TlsConfig(ca_file=bad), None)
    with pytest.raises(ConfigError, match="certificate authority data holds no certificates"):
        make_context(TlsConfig(ca_data=b""), None)
    with pytest.raises(ConfigError, match=r"gone\.crt cannot be read: No such file"):
        make_context(TlsConfig(ca_file=tmp_path / "gone.crt"), None)


def test_an_unusable_client_certificate_is_reported_with_its_origin(
    authority: trustme.CA, tmp_path: Path
) -> None:
    jane, joe = certificate_for(authority, "jane"), certificate_for(authority, "joe")
    with pytest.raises(ConfigError, match="the key does not belong to the certificate"):
        make_context(TlsConfig(), CertificateData(jane.certificate, joe.key))
    files = write(jane, tmp_path)
    with pytest.raises(ConfigError, match=r"there is no file .*gone\.key"):
        make_context(TlsConfig(), CertificateFiles(files.certificate, tmp_path / "gone.key"))
    files.key.write_text("nonsense")
    with pytest.raises(ConfigError, match=r"tls\.key cannot be used: not a PEM certificate"):
        make_context(TlsConfig(), files)


def test_an_encrypted_key_is_rejected_without_a_prompt(authority: trustme.CA) -> None:
    from cryptography.hazmat.primitives import serialization

    jane = certificate_for(authority, "jane")
    key = serialization.load_pem_private_key(jane.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(ConfigError, match="the key is encrypted"):
        make_context(TlsConfig(), CertificateData(jane.certificate, locked))


# ------------------------------------------------------------------------------------------------- rotation


def test_the_tls_context_is_reused_until_a_file_changes_checked_every_ten_seconds(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path
) -> None:
    files = write(certificate_for(authority, "jane"), tmp_path)
    contexts = TlsContexts(TlsConfig(), clock=clock)
    first = contexts.context(files)
    clock.advance(11)
    assert contexts.context(files) is first
    write(certificate_for(authority, "joe"), tmp_path)
    clock.advance(9.9)
    assert contexts.context(files) is first
    clock.advance(0.2)
    second = contexts.context(files)
    assert second is not first
    clock.advance(11)
    assert contexts.context(files) is second


def test_partially_written_files_keep_the_old_tls_context_and_are_retried(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = write(certificate_for(authority, "jane"), tmp_path)
    contexts = TlsContexts(TlsConfig(), clock=clock)
    first = contexts.context(files)
    joe = certificate_for(authority, "joe")
    files.certificate.write_bytes(joe.certificate)  # and the key is still jane's
    assert contexts.context(files, check=True) is first
    assert "using the old ones" in caplog.text
    files.key.write_bytes(joe.key)
    assert contexts.context(files, check=True) is not first


def test_a_different_client_certificate_gets_a_new_tls_context_immediately(
    authority: trustme.CA, clock: ManualClock
) -> None:
    contexts = TlsContexts(TlsConfig(), clock=clock)
    jane, joe = certificate_for(authority, "jane"), certificate_for(authority, "joe")
    first = contexts.context(jane)
    assert contexts.context(CertificateData(jane.certificate, jane.key)) is first
    assert contexts.context(joe) is not first


async def test_a_new_authority_is_loaded_when_the_handshake_fails(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(pem_of(authority))
    newer = trustme.CA(key_type=trustme.KeyType.ECDSA)
    tls = TlsConfig(ca_file=file)
    async with running_server(server_context(newer)) as server, client_of(server, clock, tls=tls) as client:
        with pytest.raises(TlsError):
            await client.list_page(PODS)
        file.write_bytes(pem_of(newer))
        await client.list_page(PODS)  # no time has passed: the failure triggered the check
    assert len(server.seen) == 1


async def test_a_rotated_client_certificate_is_used_for_new_connections_without_a_restart(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path
) -> None:
    files = write(certificate_for(authority, "jane"), tmp_path)
    async with running_server(server_context(authority, clients=authority)) as server:
        tls = TlsConfig(ca_data=pem_of(authority))
        async with client_of(server, clock, tls=tls, credentials=with_certificate(files)) as client:
            await client.list_page(PODS)
            write(certificate_for(authority, "joe"), tmp_path)
            clock.advance(11)
            await client.list_page(PODS)
    assert ["joe" in seen.subject for seen in server.seen] == [False, True]


async def test_401_reloads_a_rotated_client_certificate_and_retries_once(
    authority: trustme.CA, clock: ManualClock, tmp_path: Path
) -> None:
    files = write(certificate_for(authority, "jane"), tmp_path)
    async with running_server(server_context(authority, clients=authority)) as server:
        tls = TlsConfig(ca_data=pem_of(authority))
        async with client_of(server, clock, tls=tls, credentials=with_certificate(files)) as client:
            await client.list_page(PODS)
            write(certificate_for(authority, "joe"), tmp_path)
            server.script(failure(401, "Unauthorized"), json_response('{"items":[]}'))
            await client.list_page(PODS)  # no time has passed: the refusal triggered the check
    assert ["joe" in seen.subject for seen in server.seen] == [False, False, True]


async def test_leaving_a_watch_over_tls_does_not_wait_for_an_unresponsive_server(
    authority: trustme.CA, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop_reading(request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n')
        transport.pause_reading()
        try:
            await asyncio.Event().wait()
        finally:
            transport.abort()
        return response

    sockets: list[socket.socket] = []
    make = network._probing_socket

    def remembered(address: Any) -> socket.socket:
        sockets.append(make(address))
        return sockets[-1]

    monkeypatch.setattr(network, "_probing_socket", remembered)
    tls = TlsConfig(ca_data=pem_of(authority))
    async with running_server(server_context(authority)) as server:
        server.script(stop_reading)
        async with client_of(server, clock, tls=tls) as client, client.watch(PODS) as batches:
            await anext(batches)
        await asyncio.sleep(0)
        assert [one.fileno() for one in sockets] == [-1]


def test_sockets_use_keep_alive_probes() -> None:
    with network._probing_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 14_000
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
