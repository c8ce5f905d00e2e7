"""Certificates made of nothing but the standard library, judged by one that others trust."""

import os
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from tests.unit.client.support import FakeClock

from tinykube.server.certificates.files import kept_certificate, make_certificate, write_private
from tinykube.server.certificates.p256 import new_key, sign
from tinykube.server.certificates.x509 import private_key

HOSTS = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")


def test_a_signature_is_good_for_its_message_and_no_other() -> None:
    for number in range(8):
        key = new_key()
        message = bytes([number]) * number
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key.public_bytes)
        signature = utils.encode_dss_signature(*sign(key, message))
        public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        with pytest.raises(InvalidSignature):
            public.verify(signature, message + b"x", ec.ECDSA(hashes.SHA256()))


def test_a_key_is_read_by_others_as_the_same_key() -> None:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    key = new_key()
    loaded = load_der_private_key(private_key(key), None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    numbers = loaded.private_numbers()
    assert (numbers.private_value, numbers.public_numbers.x, numbers.public_numbers.y) == key


def test_the_server_is_vouched_for_by_an_authority_that_can_vouch_for_no_other_authority() -> None:
    made = make_certificate(HOSTS, FakeClock())
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


def test_the_certificate_is_kept_until_it_is_soon_over_or_for_other_hosts(tmp_path: Path) -> None:
    clock = FakeClock()
    first = kept_certificate(tmp_path, HOSTS, clock)
    clock.advance(300 * 86400)
    assert kept_certificate(tmp_path, HOSTS, clock) == first
    clock.advance(40 * 86400)
    second = kept_certificate(tmp_path, HOSTS, clock)
    assert second.authority != first.authority
    assert kept_certificate(tmp_path, HOSTS[:2], clock).hosts == HOSTS[:2]


def test_a_file_that_is_no_certificate_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "serving.json").write_text("{")
    assert kept_certificate(tmp_path, HOSTS, FakeClock()).hosts == HOSTS


def test_a_private_file_is_its_owners_alone_and_leaves_no_half(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", b"x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TypeError):
        write_private(tmp_path / "secret", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").read_bytes() == b"x"


def test_a_certificate_does_not_print_its_key() -> None:
    made = make_certificate(HOSTS, FakeClock())
    assert "PRIVATE" not in repr(made)


def test_a_file_that_lies_in_wait_is_never_written_to(tmp_path: Path) -> None:
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
