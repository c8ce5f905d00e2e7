"""The serving certificate and the required token: read from files, and reloaded when they change."""

import hmac
import ssl
from pathlib import Path

import msgspec

from aiokube.tls_policy import restrict

# Metadata of the files that changes with their content.
_Signature = tuple[tuple[int, int, int], ...]


class ServingFileError(Exception):
    """A file is unusable. The text names it and the reason, and shows none of its content."""


class ServingFiles(msgspec.Struct, frozen=True):
    """The paths of the files, or ``""``."""

    certificate: str = ""
    private_key: str = ""
    token: str = ""


class ServingSecrets:
    """A TLS context and a token that are reloaded from their files.

    The constructor raises :class:`ServingFileError` for unusable files. Later, :meth:`refresh` replaces both
    or neither: a mismatched pair, as seen while files are being replaced, changes nothing.
    """

    def __init__(self, files: ServingFiles) -> None:
        if bool(files.certificate) != bool(files.private_key):
            given, missing = ("cert", "private-key") if files.certificate else ("private-key", "cert")
            raise ServingFileError(f"--tls-{given}-file requires --tls-{missing}-file")
        self._files = files
        self._paths = tuple(
            Path(path) for path in (files.certificate, files.private_key, files.token) if path
        )
        self._signature = self._read_signature()
        self._current = self._make_context()
        self._token = self._read_token()

    @property
    def requires_token(self) -> bool:
        """Whether metrics and the reasons of failed checks require the token."""
        return self._token is not None

    def server_context(self) -> ssl.SSLContext | None:
        """Return the context to serve with, or None for plain HTTP.

        Each handshake uses the newest certificate.
        """
        if self._current is None:
            return None
        context = self._current

        def newest(handshake: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext) -> None:
            if self._current is not None:
                handshake.context = self._current

        context.sni_callback = newest  # called with and without a name
        return context

    def admits(self, authorization: bytes) -> bool:
        """Return whether an Authorization header carries the token; compares in constant time."""
        if self._token is None:
            return True
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def refresh(self) -> bool:
        """Reload changed files and return whether any changed.

        Raises :class:`ServingFileError` and keeps the old ones.
        """
        signature = self._read_signature()
        if signature == self._signature:
            return False
        self._signature = signature  # report an unusable file once, not at each check
        context, token = self._make_context(), self._read_token()
        self._current, self._token = context, token
        return True

    def _read_signature(self) -> _Signature:
        try:
            return tuple(
                (seen.st_mtime_ns, seen.st_size, seen.st_ino)
                for seen in (path.stat() for path in self._paths)
            )
        except OSError as error:
            raise ServingFileError(f"cannot read {error.filename}: {error.strerror}") from error

    def _make_context(self) -> ssl.SSLContext | None:
        files = self._files
        if not files.certificate:
            return None
        context = restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        try:
            # OpenSSL would prompt on the terminal for the password of an encrypted key.
            context.load_cert_chain(files.certificate, files.private_key, password=lambda: "")
        except ssl.SSLError as error:
            reason = error.reason or "not PEM, or encrypted"
            raise ServingFileError(
                f"cannot serve with the certificate {files.certificate} and the key {files.private_key}: "
                f"{reason.lower().replace('_', ' ')}"
            ) from error
        except OSError as error:
            raise ServingFileError(
                f"cannot read {files.certificate} or {files.private_key}: {error.strerror}"
            ) from error
        return context

    def _read_token(self) -> bytes | None:
        if not self._files.token:
            return None
        path = Path(self._files.token)
        try:
            token = path.read_bytes().strip()
        except OSError as error:
            raise ServingFileError(f"cannot read {path}: {error.strerror}") from error
        if not token or len(token.split()) > 1:
            raise ServingFileError(f"{path} must contain one token and nothing else")
        return token
