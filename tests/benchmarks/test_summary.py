"""The reported statistics."""

import pytest

from benchmarks.summary import Spread, median, percentile, ratios


def test_a_percentile_is_a_measured_sample() -> None:
    samples = [float(number) for number in range(100, 0, -1)]
    assert percentile(samples, 50) == 50.0
    assert percentile(samples, 99) == 99.0
    assert percentile(samples, 100) == 100.0
    assert percentile(samples, 0) == 1.0


def test_the_99th_percentile_of_few_samples_is_the_largest() -> None:
    assert percentile([3.0, 9.0, 1.0], 99) == 9.0
    assert percentile([7.0], 99) == 7.0


def test_the_median_of_an_even_number_of_samples_is_between_the_middle_two() -> None:
    assert median([4.0, 1.0, 3.0]) == 3.0
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5


def test_an_empty_sample_has_no_percentile_or_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 50)
    with pytest.raises(ValueError, match="no samples"):
        median([])


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert Spread.of([5.0, 1.0, 2.0]) == Spread(2.0, 1.0, 5.0)


def test_ratios_are_computed_per_run() -> None:
    # The second run was on a machine half as fast: the ratio of medians would be 1.5.
    assert ratios([1.0, 2.0, 1.0], [1.0, 2.0, 1.0]) == Spread(1.0, 1.0, 1.0)
    assert ratios([1.0, 4.0], [2.0, 4.0]) == Spread(0.75, 0.5, 1.0)


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1.0], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0])])
def test_unpaired_runs_and_division_by_zero_have_no_ratio(ours: list[float], theirs: list[float]) -> None:
    assert ratios(ours, theirs) is None
