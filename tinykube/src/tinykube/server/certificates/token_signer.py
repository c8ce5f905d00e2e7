"""Signed tokens (JWT, ES256): issued and verified with one private key. ``cryptography`` is imported on first use."""

import base64
import binascii
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tinykube.server.certificates.files import write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ALGORITHM = "ES256"
Claims = dict[str, Any]

_COORDINATE_BYTES = 32
_MAX_TOKEN_BYTES = 16 * 1024
_MAX_KNOWN_TOKENS = 1_000
_FILE = "service-account.key"


class TokenSigner:
    """Signs claims and verifies signatures. ``load_key`` returns the private key (PEM); it is called once, on demand."""

    def __init__(self, load_key: Callable[[], bytes]) -> None:
        self._load_key = load_key
        self._loaded: EllipticCurvePrivateKey | None = None
        self._key_id = ""
        self._known: dict[str, Claims] = {}

    def sign(self, claims: Claims) -> str:
        """Return a compact JWT with these claims."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        key = self._key()
        head = _encoded(msgspec.json.encode({"alg": ALGORITHM, "kid": self.key_id}))
        signed = f"{head}.{_encoded(msgspec.json.encode(claims))}"
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")
        return f"{signed}.{_encoded(signature)}"

    def claims_of(self, token: str) -> Claims | None:
        """Return the claims of a token signed by this key, None for any other text. Times are not checked."""
        known = self._known.get(token)
        if known is not None:
            return known
        claims = self._checked(token)
        if claims is not None:
            if len(self._known) >= _MAX_KNOWN_TOKENS:
                self._known.clear()
            self._known[token] = claims
        return claims

    @property
    def key_id(self) -> str:
        """The key id: a hash of the public key, computed as in Kubernetes."""
        if not self._key_id:
            from cryptography.hazmat.primitives import serialization

            public = self._key().public_key()
            encoded = public.public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            self._key_id = _encoded(hashlib.sha256(encoded).digest())
        return self._key_id

    def public_keys(self) -> Claims:
        """Return the JSON Web Key Set for verifying tokens."""
        numbers = self._key().public_key().public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _encoded(numbers.x.to_bytes(_COORDINATE_BYTES, "big")),
            "y": _encoded(numbers.y.to_bytes(_COORDINATE_BYTES, "big")),
        }
        return {"keys": [key]}

    def _checked(self, token: str) -> Claims | None:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(token) > _MAX_TOKEN_BYTES or token.count(".") != 2:
            return None
        signed, _, signature_text = token.rpartition(".")
        head_text, _, claims_text = signed.partition(".")
        try:
            head: Any = msgspec.json.decode(_decoded(head_text))
            signature = _decoded(signature_text)
            if not isinstance(head, dict) or head.get("alg") != ALGORITHM:
                return None
            if len(signature) != 2 * _COORDINATE_BYTES:
                return None
            encoded = utils.encode_dss_signature(
                int.from_bytes(signature[:_COORDINATE_BYTES], "big"),
                int.from_bytes(signature[_COORDINATE_BYTES:], "big"),
            )
            self._key().public_key().verify(encoded, signed.encode(), ec.ECDSA(hashes.SHA256()))
            claims: Any = msgspec.json.decode(_decoded(claims_text))
        except (InvalidSignature, ValueError, binascii.Error, msgspec.DecodeError):
            return None
        return claims if isinstance(claims, dict) else None

    def _key(self) -> "EllipticCurvePrivateKey":
        if self._loaded is None:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            key = serialization.load_pem_private_key(self._load_key(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
                raise ValueError("tokens are signed with a P-256 key, and this is another one")
            self._loaded = key
        return self._loaded


def new_key() -> bytes:
    """Return a new signing key (PEM)."""
    from tinykube.server.certificates.authority import new_signing_key

    return new_signing_key()


def kept_key(data_dir: Path) -> bytes:
    """Return the signing key of a data directory; create it (0600) if it is missing or empty."""
    path = data_dir / _FILE
    try:
        kept = path.read_bytes()
    except FileNotFoundError:
        kept = b""
    if not kept.strip():
        kept = new_key()
        write_private(path, kept)
    return kept


def looks_signed(token: str) -> bool:
    """Return whether a bearer token may be one of these, without verifying it."""
    return token.count(".") == 2


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    if not text.isascii():
        raise ValueError("not base64url")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
