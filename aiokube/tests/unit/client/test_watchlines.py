"""Lines are complete, for any chunks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokube.client.errors import LineTooLongError
from aiokube.client.watchlines import LineSplitter


def chunks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"."))),
    st.binary(max_size=20).map(lambda rest: rest.replace(b"\n", b".")),
    st.lists(st.integers(0, 400)),
)
def test_any_chunking_gives_the_same_lines(lines: list[bytes], rest: bytes, cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + rest
    splitter = LineSplitter()
    found = [line for chunk in chunks_of(data, cuts) for line in splitter.feed(chunk)]
    assert found == [line for line in lines if line]
    assert splitter.pending_bytes == len(rest)


def test_an_incomplete_line_is_buffered_until_its_end_arrives() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"ab") == []
    assert splitter.feed(b"c\nd") == [b"abc"]
    assert splitter.feed(b"\n") == [b"d"]
    assert splitter.feed(b"") == []


class CountingBytes(bytes):
    """Bytes that count how many of them are searched for a newline."""

    looked_at = 0

    def rfind(self, *arguments: object) -> int:
        CountingBytes.looked_at += len(self)
        return super().rfind(*arguments)  # type: ignore[arg-type]


def test_a_two_mebibyte_line_in_tiny_chunks_is_scanned_once() -> None:
    CountingBytes.looked_at = 0
    splitter = LineSplitter()
    piece = CountingBytes(b"x" * 64)
    for _ in range(32 * 1024):
        assert splitter.feed(piece) == []
    (line,) = splitter.feed(CountingBytes(b"\n"))
    assert len(line) == 2 * 1024 * 1024
    assert CountingBytes.looked_at == 2 * 1024 * 1024 + 1


@pytest.mark.parametrize(
    "chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"ok\n" + b"x" * 11], [b"x" * 11 + b"\n"]]
)
def test_a_line_over_the_limit_is_rejected_whether_complete_or_not(chunks: list[bytes]) -> None:
    splitter = LineSplitter(max_line_bytes=10)
    *first, last = chunks
    for chunk in first:
        splitter.feed(chunk)
    with pytest.raises(LineTooLongError, match="longer than 10 bytes"):
        splitter.feed(last)


def test_lines_at_the_limit_and_full_chunks_of_short_lines_are_accepted() -> None:
    splitter = LineSplitter(max_line_bytes=10)
    assert splitter.feed(b"x" * 10) == []
    assert splitter.feed(b"\n" + b"ab\n" * 10) == [b"x" * 10] + [b"ab"] * 10
