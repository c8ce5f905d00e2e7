"""The plan of a benchmark command."""

import pytest

from benchmarks.plan import Plan, SizePlan, flips_for, make_plan
from benchmarks.runner import in_turn
from benchmarks.sides import OURS, THEIRS, Side
from benchmarks.sizes import Size


def part(plan: Plan, size: str) -> SizePlan:
    (found,) = (each for each in plan.sizes if str(each.size) == size)
    return found


def test_without_options_every_scenario_has_its_own_sizes_except_the_huge_one() -> None:
    plan = make_plan()
    assert [str(each.size) for each in plan.sizes] == ["1x100", "1x1000", "1x5000", "1000x5"]
    small, middle = part(plan, "1x100").sessions[0], part(plan, "1x1000").sessions[0]
    assert (small.cold, small.flip is not None, small.churn) == (False, True, None)
    assert middle.cold
    assert middle.flip is not None
    assert middle.churn is not None
    assert (middle.churn.per_second, middle.churn.changes) == (200.0, 2000)
    assert plan.growth == ((Size(1, 100), Size(1, 5000)),)


def test_steady_is_a_slower_churn_of_the_same_sizes() -> None:
    for each in make_plan().sizes:
        session = each.sessions[0]
        assert (session.steady is None) == (session.churn is None)
        if session.steady is not None:
            assert (session.steady.per_second, session.steady.changes) == (50.0, 500)
    assert {str(each.size) for each in make_plan(scenarios=["steady"]).sizes} == {
        "1x1000",
        "1x5000",
        "1000x5",
    }


def test_long_measurements_are_made_only_on_request() -> None:
    def far(with_huge: bool) -> set[str]:
        sizes = {str(each.size) for each in make_plan(with_huge=with_huge).sizes}
        return sizes & {"1x20000", "10x2", "10000x2"}

    assert far(with_huge=False) == set()
    assert far(with_huge=True) == {"1x20000", "10x2", "10000x2"}


def test_huge_sizes_extend_growth_and_measure_it_by_number_of_services() -> None:
    plan = make_plan(with_huge=True)
    assert [(str(small), str(large)) for small, large in plan.growth] == [
        ("1x100", "1x5000"),
        ("1x100", "1x20000"),
        ("10x2", "10000x2"),
    ]
    for size in ("1x100", "1x20000", "10x2", "10000x2"):
        both, alone = part(plan, size).sessions
        assert (both.variant, alone.variant) == ("both", "slices")
        assert both.flip is not None
        assert both.flip == alone.flip
    crowd = part(plan, "10000x2").sessions[0]
    assert (crowd.cold, crowd.steady, crowd.churn) == (False, None, None)


def test_growth_also_measures_flips_of_the_slice_controller_alone_at_both_ends() -> None:
    plan = make_plan()
    for size in ("1x100", "1x5000"):
        both, alone = part(plan, size).sessions
        assert (both.variant, alone.variant) == ("both", "slices")
        assert alone.flip == both.flip
        assert not alone.cold
        assert alone.churn is None
    assert len(part(plan, "1x1000").sessions) == 1


def test_the_growth_scenario_alone_measures_only_flips() -> None:
    plan = make_plan(scenarios=["growth"])
    assert [str(each.size) for each in plan.sizes] == ["1x100", "1x5000"]
    assert all(
        session.flip and not session.cold and not session.churn
        for each in plan.sizes
        for session in each.sessions
    )


def test_requested_sizes_apply_to_every_scenario() -> None:
    plan = make_plan(sizes=[Size(1, 10), Size(2, 10), Size(1, 200)])
    assert [str(each.size) for each in plan.sizes] == ["1x10", "2x10", "1x200"]
    assert all(
        each.sessions[0].cold and each.sessions[0].flip and each.sessions[0].churn for each in plan.sizes
    )
    assert plan.growth == ((Size(1, 10), Size(1, 200)),)
    pairs = make_plan(sizes=[Size(400, 2), Size(10, 2), Size(7, 3), Size(1, 2)]).growth
    assert pairs == ((Size(10, 2), Size(400, 2)),)


def test_with_one_size_there_is_no_growth() -> None:
    assert make_plan(sizes=[Size(1, 10)]).growth == ()
    with pytest.raises(ValueError, match="two sizes of one service"):
        make_plan(scenarios=["growth"], sizes=[Size(1, 10), Size(5, 10)])


def test_an_empty_plan_is_rejected() -> None:
    with pytest.raises(ValueError, match="nothing to measure"):
        make_plan(scenarios=[])


def test_fewer_flips_are_made_at_large_sizes() -> None:
    assert [flips_for(Size.parse(text)) for text in ("1x100", "1x5000", "1x20000", "1000x5")] == [
        100,
        60,
        30,
        100,
    ]
    assert make_plan(flips=7).sizes[0].sessions[0].flip is not None
    flip = make_plan(flips=7).sizes[0].sessions[0].flip
    assert flip is not None
    assert flip.flips == 7


def test_the_order_of_the_systems_alternates_from_run_to_run() -> None:
    theirs, ours = Side(THEIRS, ("kcm",)), Side(OURS, ("endpointd",))
    assert in_turn([theirs, ours], 0) == [theirs, ours]
    assert in_turn([theirs, ours], 1) == [ours, theirs]
    assert in_turn([theirs, ours], 2) == [theirs, ours]
    assert in_turn([ours], 1) == [ours]
