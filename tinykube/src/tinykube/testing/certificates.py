"""A certificate authority made on the spot: server and client certificates for a control plane of one's own.

Needs the ``cryptography`` package, which the development dependencies bring; it is imported when used.
"""

import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from aiokube.clock import Clock, SystemClock

_LIFETIME = timedelta(days=2)
_SKEW = timedelta(hours=1)


class KeyPair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    private_key: bytes


class CertificateAuthority:
    """Signs certificates for two days; its own key never leaves the process.

    Raises RuntimeError where ``cryptography`` is not installed.
    """

    def __init__(self, name: str = "endpointd test authority", *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._x509 = _cryptography()
        self._key = _new_key()
        self._name = self._subject(name, ())
        usage = self._x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            self._builder(self._name, self._key)
            .add_extension(self._x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        self._certificate = builder.sign(self._key, _sha256())
        self.pem: bytes = _pem(self._certificate)

    def server(self, hosts: Sequence[str]) -> KeyPair:
        """Return a certificate for a server reached under these DNS names and IP addresses."""
        names = [self._general_name(host) for host in hosts]
        usage = self._x509.oid.ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(hosts[0], (), usage, self._x509.SubjectAlternativeName(names))

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Return a certificate that makes its holder this user, in these groups, to an API server."""
        return self._issue(user, groups, self._x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(self, user: str, groups: Sequence[str], usage: Any, names: Any) -> KeyPair:
        key = _new_key()
        builder = self._builder(self._subject(user, groups), key)
        builder = builder.add_extension(self._x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_pem(builder.sign(self._key, _sha256())), key_pem(key))

    def _builder(self, subject: Any, key: Any) -> Any:
        now = self._clock.wall()
        return (
            self._x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(self._x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + _LIFETIME)
            .add_extension(self._x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                self._x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )

    def _subject(self, common_name: str, organizations: Sequence[str]) -> Any:
        oid = self._x509.oid.NameOID
        parts = [self._x509.NameAttribute(oid.ORGANIZATION_NAME, group) for group in organizations]
        return self._x509.Name([*parts, self._x509.NameAttribute(oid.COMMON_NAME, common_name)])

    def _general_name(self, host: str) -> Any:
        try:
            return self._x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return self._x509.DNSName(host)


def new_signing_key() -> bytes:
    """Return a new private key (PEM), for signing service account tokens say."""
    _cryptography()
    return key_pem(_new_key())


def key_pem(key: Any) -> bytes:
    """Return a private key of ``cryptography`` as unencrypted PEM, in the form that kube-apiserver reads too."""
    from cryptography.hazmat.primitives import serialization

    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return pem


def _cryptography() -> Any:
    try:
        from cryptography import x509
    except ImportError as error:
        raise RuntimeError(
            "a control plane of one's own needs the 'cryptography' package to make its certificates: "
            "install the development dependencies (requirements/dev.lock)"
        ) from error
    return x509


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _sha256() -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    pem: bytes = certificate.public_bytes(Encoding.PEM)
    return pem
