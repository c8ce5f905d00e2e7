"""Generated certificates and kubeconfigs are accepted by TLS and by a client."""

import base64
import ssl
import stat
from pathlib import Path

import msgspec
import pytest

from tinykube.server.certificates.authority import CertificateAuthority, KeyPair
from tinykube.testing.control_plane import AssetsMissingError, find_assets
from tinykube.testing.kubeconfig import write_kubeconfig


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def load(context: ssl.SSLContext, pair: KeyPair, folder: Path) -> None:
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.private_key)
    context.load_cert_chain(folder / "crt", folder / "key")


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Run a TLS handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    connecting = client.wrap_bio(to_client, to_server, server_hostname=host)
    pending = [connecting, serving]
    for _ in range(20):
        for side in tuple(pending):
            try:
                side.do_handshake()
                pending.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not pending
    return serving, connecting


def test_a_server_certificate_is_trusted_only_for_its_names(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(server, authority.server(["127.0.0.1", "localhost"]), tmp_path)
    client = ssl.create_default_context(cadata=authority.pem.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # later Python versions require this by default
    for host in ("127.0.0.1", "localhost"):
        shake_hands(server, client, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        shake_hands(server, client, "elsewhere")


def test_a_client_certificate_contains_the_user_and_all_groups(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    load(server, authority.server(["localhost"]), tmp_path)
    client = ssl.create_default_context(cadata=authority.pem.decode())
    load(client, authority.client("bob", ["dev", "ops"]), tmp_path)
    serving, _ = shake_hands(server, client, "localhost")
    certificate = serving.getpeercert()
    assert certificate is not None
    assert certificate["subject"] == (
        (("organizationName", "dev"),),
        (("organizationName", "ops"),),
        (("commonName", "bob"),),
    )


def test_a_kubeconfig_contains_the_given_values_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch(mode=0o644)
    write_kubeconfig(path, server="https://localhost:1", certificate_authority=b"CA", token="t", user="bob")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = msgspec.json.decode(path.read_bytes())
    assert config["users"] == [{"name": "bob", "user": {"token": "t"}}]
    assert base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]) == b"CA"
    assert config["contexts"][0]["context"] == {"cluster": "test", "user": "bob"}


def test_missing_programs_are_named_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        AssetsMissingError, match=r"^KUBEBUILDER_ASSETS is not set: .*etcd and kube-apiserver"
    ):
        find_assets({})
    with pytest.raises(AssetsMissingError, match="contains no executable etcd"):
        find_assets({"KUBEBUILDER_ASSETS": str(tmp_path)})
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o755)
    assert find_assets({"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path
