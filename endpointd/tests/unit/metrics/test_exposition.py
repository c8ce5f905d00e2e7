"""Metrics and their text format, checked with Prometheus' own parser if installed."""

import math

import pytest

from aiokube.runtime.exposition import (
    Family,
    Histogram,
    Sample,
    exponential_bounds,
    exposition,
    number_text,
)
from tests.differential.metrics_text import parse_metrics


def test_a_value_counts_in_every_bucket_whose_bound_is_not_smaller() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 1.5, 4, 9):
        histogram.observe(value)
    assert [(sample.suffix, sample.labels, sample.value) for sample in histogram.samples()] == [
        ("_bucket", (("le", "1"),), 2),
        ("_bucket", (("le", "2"),), 3),
        ("_bucket", (("le", "4"),), 4),
        ("_bucket", (("le", "+Inf"),), 5),
        ("_sum", (), 16.0),
        ("_count", (), 5),
    ]
    assert histogram.count == 5


def test_a_value_can_be_counted_several_times_at_once() -> None:
    histogram = Histogram((1,))
    histogram.observe(2, times=3)
    assert (histogram.count, histogram.sum) == (3, 6)


@pytest.mark.parametrize("bounds", [(), (2, 1), (1, 1)])
def test_bounds_that_do_not_increase_are_rejected(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a histogram needs ascending bounds"):
        Histogram(bounds)


def test_queue_bounds_equal_upstreams_to_the_last_digit() -> None:
    texts = [number_text(bound) for bound in exponential_bounds(10e-9, 10, 10)]
    assert texts == [
        "1e-08",
        "1e-07",
        "1e-06",
        "9.999999999999999e-06",
        "9.999999999999999e-05",
        "0.001",
        "0.01",
        "0.1",
        "1",
        "10",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.0, "3"), (0.25, "0.25"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")],
)
def test_numbers_are_printed_in_their_shortest_form(value: float, text: str) -> None:
    assert number_text(value) == text


def test_the_text_is_sorted_typed_and_escaped() -> None:
    text = exposition(
        [
            Family("b", "gauge", "second\nline \\", (Sample(1.5, (("x", 'a"b\\c\n'),)),)),
            Family("a", "counter", "first", (Sample(2),)),
        ]
    )
    assert text.decode() == (
        "# HELP a first\n# TYPE a counter\na 2\n"
        "# HELP b second\\nline \\\\\n# TYPE b gauge\n"
        'b{x="a\\"b\\\\c\\n"} 1.5\n'
    )


def test_a_family_without_samples_has_its_help_and_type() -> None:
    assert (
        exposition([Family("a", "gauge", "none yet", ())]).decode() == "# HELP a none yet\n# TYPE a gauge\n"
    )


def test_the_test_parser_reads_back_the_exposition() -> None:
    histogram = Histogram((1, 2))
    histogram.observe(1.5)
    metrics = parse_metrics(
        exposition(
            [
                Family("seconds", "histogram", "h", histogram.samples((("name", "a}b"),))),
                Family("changes", "counter", "c", (Sample(4, (("operation", "create"),)),)),
            ]
        ).decode()
    )
    assert metrics["seconds"].values == {(("name", "a}b"),): 1.5}
    assert metrics["seconds"].counts == {(("name", "a}b"),): 1}
    assert metrics["seconds"].bounds == ("1", "2", "+Inf")
    assert metrics["changes"].values == {(("operation", "create"),): 4}


@pytest.mark.parametrize("line", ["nonsense", "# TYPE a gauge\na x=1", "untyped 1"])
def test_the_test_parser_rejects_invalid_samples(line: str) -> None:
    with pytest.raises(ValueError, match=r"this is no sample|has no type"):
        parse_metrics(line)
