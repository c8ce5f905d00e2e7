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


def test_the_authority_signs_the_server_and_cannot_sign_another_authority() -> None:
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


def test_the_certificate_is_kept_until_it_nearly_expires_or_the_hosts_change(tmp_path: Path) -> None:
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


def test_a_private_file_is_written_whole_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", b"x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TypeError):
        write_private(tmp_path / "secret", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").read_bytes() == b"x"


def test_a_certificate_does_not_print_its_key() -> None:
    made = make_certificate(HOSTS, ManualClock())
    assert "PRIVATE" not in repr(made)


def test_a_file_or_link_placed_by_an_attacker_is_never_written_to(tmp_path: Path) -> None:
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


def test_a_file_of_another_user_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_bytes(b"theirs")
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "secret").stat().st_uid + 1)
    with pytest.raises(PermissionError, match="it belongs to user"):
        write_private(tmp_path / "secret", b"x")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"theirs"]
