"""Certificates (RFC 5280) and keys (RFC 5208, 5915) as DER and PEM: just what a TLS server and its authority need."""

import base64
import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import datetime

from tinykube.server.certificates.p256 import PrivateKey, sign

_INTEGER, _BITS, _OCTETS, _OID, _UTF8, _UTC_TIME, _LATE_TIME = 0x02, 0x03, 0x04, 0x06, 0x0C, 0x17, 0x18
_SEQUENCE, _SET, _TRUE = 0x30, 0x31, b"\x01\x01\xff"
_FIRST_LATE_YEAR = 2050

_EC_KEY = "1.2.840.10045.2.1"
_P256 = "1.2.840.10045.3.1.7"
_ECDSA_SHA256 = "1.2.840.10045.4.3.2"
_COMMON_NAME = "2.5.4.3"
_SUBJECT_KEY, _KEY_USAGE, _ALT_NAMES = "2.5.29.14", "2.5.29.15", "2.5.29.17"
_CONSTRAINTS, _AUTHORITY_KEY, _EXTENDED_USAGE = "2.5.29.19", "2.5.29.35", "2.5.29.37"
_SERVER_AUTH = "1.3.6.1.5.5.7.3.1"
_SIGNS_CERTIFICATES = b"\x02\x04"  # bit 5 of keyUsage: keyCertSign
_SIGNS_HANDSHAKES = b"\x07\x80"  # bit 0: digitalSignature


def authority_certificate(name: str, key: PrivateKey, begins: datetime, ends: datetime) -> bytes:
    """Return the certificate (DER) of an authority, signed by itself; it may sign servers, not other authorities."""
    extensions = [
        _extension(_CONSTRAINTS, _der(_SEQUENCE, _TRUE + _integer(0)), critical=True),
        _extension(_KEY_USAGE, _der(_BITS, _SIGNS_CERTIFICATES), critical=True),
        _extension(_SUBJECT_KEY, _der(_OCTETS, _key_id(key))),
    ]
    return _certificate(name, key, name, key, begins, ends, extensions)


def server_certificate(
    hosts: Sequence[str],
    key: PrivateKey,
    authority: str,
    authority_key: PrivateKey,
    begins: datetime,
    ends: datetime,
) -> bytes:
    """Return the certificate (DER) of a server that is reached under these DNS names and addresses."""
    names = b"".join(_general_name(host) for host in hosts)
    extensions = [
        _extension(_CONSTRAINTS, _der(_SEQUENCE, b""), critical=True),
        _extension(_KEY_USAGE, _der(_BITS, _SIGNS_HANDSHAKES), critical=True),
        _extension(_EXTENDED_USAGE, _der(_SEQUENCE, _oid(_SERVER_AUTH))),
        _extension(_ALT_NAMES, _der(_SEQUENCE, names)),
        _extension(_SUBJECT_KEY, _der(_OCTETS, _key_id(key))),
        _extension(_AUTHORITY_KEY, _der(_SEQUENCE, _der(0x80, _key_id(authority_key)))),
    ]
    return _certificate(hosts[0], key, authority, authority_key, begins, ends, extensions)


def private_key(key: PrivateKey) -> bytes:
    """Return a key as PKCS #8 (DER)."""
    inner = _der(
        _SEQUENCE,
        _integer(1) + _der(_OCTETS, key.secret_bytes) + _der(0xA1, _der(_BITS, b"\0" + key.public_bytes)),
    )
    return _der(_SEQUENCE, _integer(0) + _key_algorithm() + _der(_OCTETS, inner))


def pem(label: str, der: bytes) -> bytes:
    """Return DER as PEM."""
    text = base64.b64encode(der).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", "")).encode()


def _certificate(
    subject: str,
    key: PrivateKey,
    issuer: str,
    issuer_key: PrivateKey,
    begins: datetime,
    ends: datetime,
    extensions: Sequence[bytes],
) -> bytes:
    algorithm = _der(_SEQUENCE, _oid(_ECDSA_SHA256))
    body = _der(
        _SEQUENCE,
        _der(0xA0, _integer(2))
        + _integer(secrets.randbits(127) | 1 << 126)
        + algorithm
        + _name(issuer)
        + _der(_SEQUENCE, _time(begins) + _time(ends))
        + _name(subject)
        + _der(_SEQUENCE, _key_algorithm() + _der(_BITS, b"\0" + key.public_bytes))
        + _der(0xA3, _der(_SEQUENCE, b"".join(extensions))),
    )
    signature = sign(issuer_key, body)
    signed = _der(_SEQUENCE, _integer(signature.r) + _integer(signature.s))
    return _der(_SEQUENCE, body + algorithm + _der(_BITS, b"\0" + signed))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    encoded = bytes((first * 40 + second,))
    for number in rest:
        septets = [number & 0x7F]
        while number := number >> 7:
            septets.append(number & 0x7F | 0x80)
        encoded += bytes(reversed(septets))
    return _der(_OID, encoded)


def _name(common_name: str) -> bytes:
    attribute = _der(_SEQUENCE, _oid(_COMMON_NAME) + _der(_UTF8, common_name.encode()))
    return _der(_SEQUENCE, _der(_SET, attribute))


def _time(moment: datetime) -> bytes:
    if moment.year < _FIRST_LATE_YEAR:
        return _der(_UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())
    return _der(_LATE_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())


def _key_algorithm() -> bytes:
    return _der(_SEQUENCE, _oid(_EC_KEY) + _oid(_P256))


def _key_id(key: PrivateKey) -> bytes:
    return hashlib.sha256(key.public_bytes).digest()[:20]


def _extension(oid: str, value: bytes, *, critical: bool = False) -> bytes:
    return _der(_SEQUENCE, _oid(oid) + (_TRUE if critical else b"") + _der(_OCTETS, value))


def _general_name(host: str) -> bytes:
    try:
        return _der(0x87, ipaddress.ip_address(host).packed)
    except ValueError:
        return _der(0x82, host.encode("ascii"))
