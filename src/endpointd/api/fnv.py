"""FNV-1a with 128 bits, as Kubernetes hashes what it orders."""

_OFFSET_BASIS = 0x6C62272E07BB014262B821756295C58D
_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1


def fnv1a_128(data: bytes) -> int:
    """Return the hash of the data: about 0.1 us a byte."""
    value = _OFFSET_BASIS
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value
