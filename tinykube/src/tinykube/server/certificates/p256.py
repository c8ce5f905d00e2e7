"""ECDSA on the curve P-256 (FIPS 186-5): keys and signatures, a few milliseconds each.

Not hardened against somebody who measures its running time: for keys made and used once, on one's own machine.
"""

import hashlib
import secrets
from typing import NamedTuple

_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_GX = 0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296
_GY = 0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5
_BYTES = 32


class PrivateKey(NamedTuple):
    """A key: its secret number, and the point that others may know."""

    secret: int
    x: int
    y: int

    @property
    def public_bytes(self) -> bytes:
        """The public point, uncompressed."""
        return b"\x04" + self.x.to_bytes(_BYTES, "big") + self.y.to_bytes(_BYTES, "big")

    @property
    def secret_bytes(self) -> bytes:
        """The secret number."""
        return self.secret.to_bytes(_BYTES, "big")


class Signature(NamedTuple):
    """The two numbers of a signature."""

    r: int
    s: int


def new_key() -> PrivateKey:
    """Return a key from the operating system's randomness."""
    secret = secrets.randbelow(_N - 1) + 1
    return PrivateKey(secret, *_base_times(secret))


def sign(key: PrivateKey, message: bytes) -> Signature:
    """Return a signature of a message's SHA-256."""
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        r = _base_times(nonce)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * key.secret) % _N
        if r and s:
            return Signature(r, s)


def _base_times(factor: int) -> tuple[int, int]:
    """Return the base point times a factor of 1 to the order, in Jacobian coordinates until the end."""
    x, y, z = 0, 1, 0
    for bit in f"{factor:b}":
        x, y, z = _doubled(x, y, z)
        if bit == "1":
            x, y, z = _plus_base(x, y, z)
    inverse = pow(z, -1, _P)
    square = inverse * inverse % _P
    return x * square % _P, y * square * inverse % _P


def _doubled(x: int, y: int, z: int) -> tuple[int, int, int]:
    if z == 0:
        return x, y, z
    delta, gamma = z * z % _P, y * y % _P
    beta = x * gamma % _P
    alpha = 3 * (x - delta) * (x + delta) % _P
    new_x = (alpha * alpha - 8 * beta) % _P
    new_z = 2 * y * z % _P
    return new_x, (alpha * (4 * beta - new_x) - 8 * gamma * gamma) % _P, new_z


def _plus_base(x: int, y: int, z: int) -> tuple[int, int, int]:
    if z == 0:
        return _GX, _GY, 1
    square = z * z % _P
    u, s = _GX * square % _P, _GY * z * square % _P
    h, r = (u - x) % _P, (s - y) % _P
    if h == 0:
        # The same point (twice it), or its opposite (nothing); neither is met below the order, and both are right.
        return _doubled(x, y, z) if r == 0 else (0, 1, 0)
    h_square = h * h % _P
    h_cube = h_square * h % _P
    v = x * h_square % _P
    new_x = (r * r - h_cube - 2 * v) % _P
    return new_x, (r * (v - new_x) - y * h_cube) % _P, h * z % _P
