"""Flags are spelled and refused as kube-controller-manager spells and refuses them (behaviour 0.1)."""

import click
import pytest
from click.testing import CliRunner

from endpointd.cli.flags import Duration, GoBool, in_range, parse_duration, select_controllers

KNOWN = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
ALIASES = {"endpoint": KNOWN[0], "endpointslice": KNOWN[1], "endpointslicemirroring": KNOWN[2]}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1h0m0s", 3600.0),
        ("-1s", -1.0),
    ],
)
def test_durations_are_parsed_from_their_go_format(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "s", "-", "--1s", "1s ", "1 s", "1d", "1s2"])
def test_an_invalid_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write a number with a unit"):
        parse_duration(text)


@click.command()
@click.option("--leader-elect", type=GoBool(), is_flag=False, flag_value="true", default="true")
@click.option("--period", type=Duration(), default="0s")
@click.option("--max-endpoints-per-slice", type=int, default=100, callback=in_range(1, 1000))
def show(leader_elect: bool, period: float, max_endpoints_per_slice: int) -> None:
    print(leader_elect, period, max_endpoints_per_slice)


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "True 0.0 100"),
        (["--leader-elect"], "True 0.0 100"),
        (["--leader-elect=false"], "False 0.0 100"),
        (["--leader-elect=0", "--period=500ms"], "False 0.5 100"),
        (["--max-endpoints-per-slice=1000"], "True 0.0 1000"),
    ],
)
def test_values_are_accepted_in_gos_notations(arguments: list[str], printed: str) -> None:
    assert CliRunner().invoke(show, arguments).output.strip() == printed


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (
            "--max-endpoints-per-slice=1001",
            "max-endpoints-per-slice must not be more than 1000, but got 1001",
        ),
        ("--max-endpoints-per-slice=-1", "max-endpoints-per-slice must not be less than 1, but got -1"),
        ("--max-endpoints-per-slice=0", "max-endpoints-per-slice must not be less than 1, but got 0"),
        ("--period=-5s", "'-5s' must not be negative"),
        ("--leader-elect=maybe", "'maybe' is neither true nor false"),
        ("--period=5", "'5' is not a duration"),
    ],
)
def test_a_value_out_of_range_is_rejected_with_upstreams_message(argument: str, text: str) -> None:
    result = CliRunner().invoke(show, [argument])
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("texts", "selected"),
    [
        (["*"], KNOWN),
        (["endpointslice-controller"], (KNOWN[1],)),
        (["endpointslice,endpoint"], (KNOWN[0], KNOWN[1])),
        (["*", "-endpointslice-mirroring-controller"], (KNOWN[0], KNOWN[1])),
        (["-endpoint,*"], (KNOWN[1], KNOWN[2])),
        (["-endpoint", "endpoint"], ()),
        ([""], ()),
    ],
)
def test_controllers_are_chosen_by_name_alias_star_and_minus(
    texts: list[str], selected: tuple[str, ...]
) -> None:
    assert select_controllers(texts, KNOWN, ALIASES) == selected


def test_an_unknown_controller_is_reported_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="'deployment' is not in the list of known controllers: endpoints-controller"
    ):
        select_controllers(["deployment"], KNOWN, ALIASES)
