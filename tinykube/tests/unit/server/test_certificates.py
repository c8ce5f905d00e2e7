"""The server's certificate: its CA, lifetime and file permissions."""

import os
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from aiokube.testing.virtual_time import ManualClock
from tinykube.server.certificates.files import kept_certificate, make_certificate, write_private

HOSTS = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")


def test_the_ca_signs_the_server_certificate_and_cannot_sign_another_ca() -> None:
    made = make_certificate(HOSTS, ManualClock())
    authority = x509.load_pem_x509_certificate(made.authority.encode())
    server = x509.load_pem_x509_certificate(made.certificate.encode())
    server.verify_directly_issued_by(authority)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "kubernetes.default.svc"]
    subject = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    issuer = server.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert subject == issuer
    assert server.not_valid_after_utc - server.not_valid_before_utc == timedelta(days=365)
    assert made.context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_the_certificate_is_kept_until_near_expiry_or_a_change_of_hosts(tmp_path: Path) -> None:
    clock = ManualClock()
    first = kept_certificate(tmp_path, HOSTS, clock)
    clock.advance(300 * 86400)
    assert kept_certificate(tmp_path, HOSTS, clock) == first
    clock.advance(40 * 86400)
    second = kept_certificate(tmp_path, HOSTS, clock)
    assert second.authority != first.authority
    assert kept_certificate(tmp_path, HOSTS[:2], clock).hosts == HOSTS[:2]


def test_a_damaged_certificate_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "serving.json").write_text("{")
    assert kept_certificate(tmp_path, HOSTS, ManualClock()).hosts == HOSTS


def test_a_private_file_is_written_atomically_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", b"x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TypeError):
        write_private(tmp_path / "secret", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").read_bytes() == b"x"


def test_the_private_key_is_not_in_the_repr_of_a_certificate() -> None:
    made = make_certificate(HOSTS, ManualClock())
    assert "PRIVATE" not in repr(made)


def test_files_and_links_planted_by_an_attacker_are_not_written_to(tmp_path: Path) -> None:
    bait, linked = tmp_path / f".secret.{os.getpid()}", tmp_path / "elsewhere"
    bait.touch()
    bait.chmod(0o666)
    (tmp_path / "secret").symlink_to(linked)
    write_private(tmp_path / "secret", b"x")
    assert bait.read_bytes() == b""
    assert not linked.exists()
    assert not (tmp_path / "secret").is_symlink()
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [bait.name, "secret"]


def test_a_file_owned_by_another_user_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"theirs")
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "secret").stat().st_uid + 1)
    with pytest.raises(PermissionError, match="it belongs to user"):
        write_private(tmp_path / "secret", b"x")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"theirs"]
