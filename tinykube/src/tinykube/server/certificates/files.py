"""A server's certificate, its key and its authority: made when they are missing, kept in the data directory."""

import contextlib
import errno
import os
import ssl
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from aiokube.clock import Clock
from tinykube.server.certificates.p256 import new_key
from tinykube.server.certificates.x509 import (
    authority_certificate,
    pem,
    private_key,
    server_certificate,
)

_AUTHORITY = "endpointd embedded API server"
_LIFETIME = timedelta(days=365)
_SKEW = timedelta(hours=1)
_RENEW_BEFORE = timedelta(days=30)
_FILE = "serving.json"


class ServingCertificate(msgspec.Struct, frozen=True):
    """What a server shows, and what its clients check it by (all PEM). ``private_key`` is a secret."""

    hosts: tuple[str, ...]
    expires: datetime
    authority: str
    certificate: str
    private_key: str

    def __repr__(self) -> str:
        """Return what may be printed."""
        return f"ServingCertificate(hosts={self.hosts!r}, expires={self.expires.isoformat()})"

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings of a server: TLS 1.2 at least."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # OpenSSL reads certificates from files only; this one is 0600 and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.certificate.encode() + self.private_key.encode())
            file.flush()
            context.load_cert_chain(file.name)
        return context


def make_certificate(hosts: Sequence[str], clock: Clock) -> ServingCertificate:
    """Make an authority and a certificate signed by it, for a year. The authority's key is thrown away at once."""
    begins = clock.wall() - _SKEW
    expires = begins + _LIFETIME
    authority_key, key = new_key(), new_key()
    authority = authority_certificate(_AUTHORITY, authority_key, begins, expires)
    certificate = server_certificate(hosts, key, _AUTHORITY, authority_key, begins, expires)
    return ServingCertificate(
        hosts=tuple(hosts),
        expires=expires,
        authority=pem("CERTIFICATE", authority).decode(),
        certificate=pem("CERTIFICATE", certificate).decode(),
        private_key=pem("PRIVATE KEY", private_key(key)).decode(),
    )


def kept_certificate(data_dir: Path, hosts: Sequence[str], clock: Clock) -> ServingCertificate:
    """Return the certificate kept in a directory, or make another one.

    That is if it is missing or damaged, for other hosts, not valid yet, or not for much longer. The file is 0600: it holds the key.
    """
    path = data_dir / _FILE
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=ServingCertificate)
    except (FileNotFoundError, msgspec.MsgspecError):
        kept = None
    if kept is not None and kept.hosts == tuple(hosts) and _is_usable(kept, clock):
        return kept
    made = make_certificate(hosts, clock)
    write_private(path, msgspec.json.encode(made))
    return made


def _is_usable(kept: ServingCertificate, clock: Clock) -> bool:
    left = kept.expires - clock.wall()
    if (
        not _RENEW_BEFORE < left <= _LIFETIME
    ):  # more than a lifetime: made while the clock was ahead, and not yet valid
        return False
    try:
        kept.context()
    except ssl.SSLError:
        return False
    return True


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all.

    It is written under a name that nobody can guess, and made then: a file or a link that lies in wait is never opened. Raises
    PermissionError where the file at ``path``, or the one that was made, belongs to another user (root may replace any).
    """
    with contextlib.suppress(FileNotFoundError):
        _check_owner(path, path.lstat())
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _check_owner(path, os.fstat(descriptor))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _check_owner(path: Path, found: os.stat_result) -> None:
    user = os.geteuid()
    if user not in (0, found.st_uid):
        raise PermissionError(errno.EPERM, f"it belongs to user {found.st_uid}, not to {user}", str(path))
