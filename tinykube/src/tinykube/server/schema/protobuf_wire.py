"""A decoder of the protobuf wire format: tags and values."""

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10

WireValue = int | memoryview


class ProtobufError(ValueError):
    """Bytes that are not a valid protobuf message of the expected type."""


def fields_of(message: memoryview) -> Iterator[tuple[int, int, WireValue]]:
    """Yield number, wire type and value of each field: an integer for varints, else the bytes.

    Raises ProtobufError for truncated messages and unknown wire types.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError(f"proto: illegal tag 0 (wire type {wire_type})")
        if wire_type == VARINT:
            value, at = varint(message, at)
            yield number, wire_type, value
            continue
        if wire_type == LENGTH:
            size, at = varint(message, at)
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
        else:
            raise ProtobufError(f"proto: wrong wireType = {wire_type} for field {number}")
        if size > end - at:
            raise ProtobufError("unexpected EOF")
        yield number, wire_type, message[at : at + size]
        at += size


def varint(message: memoryview, at: int) -> tuple[int, int]:
    """Decode the varint at a position; return it and its end. Raises ProtobufError."""
    value = 0
    for count in range(_MAX_VARINT_BYTES):
        if at >= len(message):
            raise ProtobufError("unexpected EOF")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ProtobufError("proto: integer overflow")


def signed(value: int, bits: int) -> int:
    """Interpret a varint as a signed number of that many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
