"""The certificate that is served with and the token that is asked for: read from files, and again when these change."""

import hmac
import ssl
from pathlib import Path

import msgspec

from aiokube.tls_policy import restrict

# What the files look like from outside; it changes with their content.
_Signature = tuple[tuple[int, int, int], ...]


class ServingFileError(Exception):
    """A file that cannot be used; the text names it, says why, and holds nothing of its content."""


class ServingFiles(msgspec.Struct, frozen=True):
    """The files; ``""`` for those that are not given."""

    certificate: str = ""
    private_key: str = ""
    token: str = ""


class ServingSecrets:
    """A TLS context and a token that follow their files.

    Made at the start, it raises :class:`ServingFileError` for what cannot be used. Later, :meth:`refresh` takes over what
    has changed, as a whole or not at all: a pair that does not match, as while it is being replaced, changes nothing.
    """

    def __init__(self, files: ServingFiles) -> None:
        if bool(files.certificate) != bool(files.private_key):
            given, missing = ("cert", "private-key") if files.certificate else ("private-key", "cert")
            raise ServingFileError(f"--tls-{given}-file needs --tls-{missing}-file with it")
        self._files = files
        self._paths = tuple(
            Path(path) for path in (files.certificate, files.private_key, files.token) if path
        )
        self._signature = self._look()
        self._current = self._make_context()
        self._token = self._read_token()

    @property
    def asks_for_token(self) -> bool:
        """Whether metrics, and the causes of failed checks, are for those alone who have the token."""
        return self._token is not None

    def server_context(self) -> ssl.SSLContext | None:
        """Return the context to serve with: each handshake uses the newest certificate. None for plain HTTP."""
        if self._current is None:
            return None
        context = self._current

        def newest(handshake: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext) -> None:
            if self._current is not None:
                handshake.context = self._current

        context.sni_callback = newest  # called with and without a name
        return context

    def admits(self, authorization: bytes) -> bool:
        """Tell whether the value of an Authorization header carries the token, in a time that tells nothing of it."""
        if self._token is None:
            return True
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def refresh(self) -> bool:
        """Take over changed files; tell whether there were any. Raises :class:`ServingFileError`, with nothing changed."""
        signature = self._look()
        if signature == self._signature:
            return False
        self._signature = signature  # what cannot be used is told once, not at each look
        context, token = self._make_context(), self._read_token()
        self._current, self._token = context, token
        return True

    def _look(self) -> _Signature:
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
            # A key under a password would have OpenSSL ask for it on the terminal.
            context.load_cert_chain(files.certificate, files.private_key, password=lambda: "")
        except ssl.SSLError as error:
            reason = error.reason or "not PEM, or under a password"
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
            raise ServingFileError(f"{path} has to hold one token, and nothing else")
        return token
