"""The server's certificate, key and CA: created when missing, kept in the data directory."""

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
from aiokube.tls_policy import restrict

_AUTHORITY = "tinykube"
_LIFETIME = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_FILE = "serving.json"


class ServingCertificate(msgspec.Struct, frozen=True):
    """A server's certificate and key, and the authority that its clients trust (all PEM). ``private_key`` is a secret."""

    hosts: tuple[str, ...]
    expires: datetime
    authority: str
    certificate: str
    private_key: str

    def __repr__(self) -> str:
        """Return a text without the private key."""
        return f"ServingCertificate(hosts={self.hosts!r}, expires={self.expires.isoformat()})"

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS context: TLS 1.2 or later."""
        context = restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        # The ssl module loads key pairs only from files; this one has mode 0600 and is removed immediately.
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.certificate.encode() + self.private_key.encode())
            file.flush()
            context.load_cert_chain(file.name)
        return context


def make_certificate(hosts: Sequence[str], clock: Clock) -> ServingCertificate:
    """Return a certificate valid for a year, signed by a new CA whose key is discarded."""
    from tinykube.server.certificates.authority import CertificateAuthority

    authority = CertificateAuthority(_AUTHORITY, clock=clock, lifetime=_LIFETIME)
    pair = authority.server(hosts)
    return ServingCertificate(
        hosts=tuple(hosts),
        expires=authority.expires,
        authority=authority.pem.decode(),
        certificate=pair.certificate.decode(),
        private_key=pair.private_key.decode(),
    )


def kept_certificate(data_dir: Path, hosts: Sequence[str], clock: Clock) -> ServingCertificate:
    """Return the certificate stored in a directory; replace it if it is unusable.

    It is replaced if it is missing or damaged, names other hosts, is not valid yet or expires within 30 days.
    The file has mode 0600, because it contains the key.
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
    if not _RENEW_BEFORE < left <= _LIFETIME:  # more than a lifetime: signed while the clock was ahead
        return False
    try:
        kept.context()
    except ssl.SSLError:
        return False
    return True


def write_private(path: Path, data: bytes) -> None:
    """Write a file atomically, readable only by its owner.

    The temporary file has an unpredictable name and is created exclusively: an existing file or symbolic link
    is never opened. Raises PermissionError if the file at ``path`` or the new one belongs to another user
    (root may replace any).
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
