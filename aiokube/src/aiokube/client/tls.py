"""TLS contexts from certificates in files or memory, reloaded when a file changes."""

import hashlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokube.client.config import TlsConfig
from aiokube.client.credentials import CertificateData, CertificateFiles, ClientCertificate
from aiokube.client.errors import ConfigError
from aiokube.clock import Clock
from aiokube.tls_policy import restrict

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0

_Signature = tuple[tuple[Path, bytes], ...]


class TlsContexts:
    """Holds the TLS context for new connections, TLS 1.2 or later.

    Files are checked for changes by the first request ten seconds after the last check. After a change, new
    connections use a new context and open connections continue. Inconsistent files (still being written, for
    example) leave the old context in use with a warning, and are tried again.
    """

    def __init__(self, config: TlsConfig, *, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._certificate: ClientCertificate | None = None
        self._signature: _Signature = ()
        self._check_at = 0.0

    def context(self, certificate: ClientCertificate | None, *, check: bool = False) -> ssl.SSLContext:
        """Return the context for a client certificate; the same object until something changes.

        ``check`` checks the files immediately. Raises ConfigError if there is no previous context and none
        can be made, or if a new client certificate is unusable.
        """
        now = self._clock.monotonic()
        if (
            self._context is not None
            and certificate is self._certificate
            and now < self._check_at
            and not check
        ):
            return self._context
        self._check_at = now + CHECK_SECONDS
        signature = self._look(certificate)
        if self._context is not None and certificate == self._certificate:
            self._certificate = certificate
            if signature == self._signature:
                return self._context
            try:
                self._context = make_context(self._config, certificate)
            except ConfigError as error:
                log.warning("changed TLS files cannot be used, using the old ones: error=%s", error)
                return self._context
            log.info("TLS files have changed, new connections use them")
        else:
            self._context = make_context(self._config, certificate)
        self._certificate = certificate
        self._signature = signature
        return self._context

    def _look(self, certificate: ClientCertificate | None) -> _Signature:
        paths = []
        if self._config.ca_file is not None and self._config.ca_data is None:
            paths.append(self._config.ca_file)
        if isinstance(certificate, CertificateFiles):
            paths += [certificate.certificate, certificate.key]
        return tuple(_file_signature(path) for path in paths)


def _file_signature(path: Path) -> tuple[Path, bytes]:
    # The content, not the modification time: two writes within one tick of the file system's clock look the
    # same.
    try:
        return path, hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return path, b""


def make_context(config: TlsConfig, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Return a new context. Raises ConfigError, which names the unusable file.

    Intermediate authorities are trusted too, as in Go.
    """
    context = restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_authorities(context, config)
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_authorities(context: ssl.SSLContext, config: TlsConfig) -> None:
    if config.ca_data is None and config.ca_file is None:
        context.load_default_certs()
        return
    where = "the certificate authority data" if config.ca_data is not None else f"{config.ca_file}"
    try:
        pem = config.ca_data if config.ca_data is not None else (config.ca_file or Path()).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the certificate authority file {where} cannot be read: {error.strerror}"
        ) from None
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            f"{where} holds no certificates: expected PEM, lines between -----BEGIN CERTIFICATE----- "
            "and -----END CERTIFICATE-----"
        ) from None


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    if isinstance(certificate, CertificateData):
        with _private_files(certificate) as (certificate_path, key_path):
            _load_chain(context, certificate_path, key_path, "the client certificate and key data")
    else:
        where = f"the client certificate {certificate.certificate} with the key {certificate.key}"
        _load_chain(context, certificate.certificate, certificate.key, where)


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path, where: str) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except FileNotFoundError:
        missing = certificate if not certificate.exists() else key
        raise ConfigError(f"{where} cannot be used: there is no file {missing}") from None
    except ConfigError as error:
        raise ConfigError(f"{where} cannot be used: {error}") from None
    except ssl.SSLError as error:
        problem = (
            "the key does not belong to the certificate"
            if error.reason == "KEY_VALUES_MISMATCH"
            else ("not a PEM certificate and its PEM key")
        )
        raise ConfigError(f"{where} cannot be used: {problem}") from None
    except OSError as error:
        raise ConfigError(f"{where} cannot be used: {error.strerror}") from None


def _no_password() -> str:
    # Without this callback OpenSSL prompts on the terminal, and a daemon hangs.
    raise ConfigError("the key is encrypted, and there is no way to enter its password; decrypt it")


@contextmanager
def _private_files(certificate: CertificateData) -> Iterator[tuple[Path, Path]]:
    """Write the PEM to private files (0700, 0600) for OpenSSL, which needs files; delete them on exit."""
    with tempfile.TemporaryDirectory(prefix="aiokube-") as folder:
        paths = Path(folder, "certificate"), Path(folder, "key")
        for path, content in zip(paths, (certificate.certificate, certificate.key), strict=True):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        yield paths
