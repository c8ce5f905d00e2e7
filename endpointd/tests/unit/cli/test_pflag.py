"""The flags of ``run`` follow pflag, so a command line of kube-controller-manager means the same."""

import math
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.unit.cli.flag_cases import ACCEPTED, REFUSED, Accepted

from endpointd.cli.flags import select_controllers
from endpointd.cli.options import ALIASES, CONTROLLERS
from endpointd.cli.pflag import FlagForm, FlagForms, normalise_arguments, parse_float, split_list
from endpointd.cli.run import run

FORMS = FlagForms(
    by_name={"leader-elect": FlagForm("leader-elect", "true"), "v": FlagForm("v"), "name": FlagForm("name")},
    by_letter={"v": FlagForm("v"), "l": FlagForm("leader-elect", "true")},
)


def used(case: Accepted) -> Any:
    """Return the value that ``run`` uses."""
    if case.flag == "controllers":
        return select_controllers(case.value, CONTROLLERS, ALIASES)
    if case.flag == "kube-api-qps":
        return case.value if 0 < case.value < math.inf else 0.0
    return case.value


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_each_form_that_pflag_accepts_sets_the_same_value(case: Accepted) -> None:
    context = run.make_context("run", list(case.arguments))
    assert context.params[case.flag.replace("-", "_")] == pytest.approx(used(case))


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_values_that_pflag_rejects_exit_with_2_and_a_message(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(run, list(arguments))
    assert result.exit_code == 2
    assert "Error: " in result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "normalised"),
    [
        (["-lv2"], ["--leader-elect=true", "--v=2"]),
        (["-lv", "2"], ["--leader-elect=true", "--v=2"]),
        (["-l=false"], ["--leader-elect=false"]),
        (["--name", "--v"], ["--name=--v"]),
        (["--name", "-v2"], ["--name=-v2"]),
        (["--name=a_b=c"], ["--name=a_b=c"]),
        (["-v=-1"], ["--v=-1"]),
        (["word", "-v2"], ["word", "--v=2"]),
        (["--", "-v2"], ["--", "-v2"]),
        (["--leader_elect", "false"], ["--leader-elect=true", "false"]),
        (["--unknown_flag=1", "-v2"], ["--unknown_flag=1", "--v=2"]),
        (["-lx3"], ["--leader-elect=true", "-x3"]),
        (["--name"], ["--name"]),
        (["--help"], ["--help"]),
    ],
)
def test_flags_are_normalised_by_the_rules_of_pflag(arguments: list[str], normalised: list[str]) -> None:
    assert normalise_arguments(arguments, FORMS) == normalised


def test_a_misspelt_flag_is_answered_with_the_nearest_one() -> None:
    result = CliRunner().invoke(run, ["--leader-elct=false"])
    assert result.exit_code == 2
    assert "--leader-elect" in result.output


def test_a_request_rate_of_nan_sets_no_limit() -> None:
    assert run.make_context("run", ["--kube-api-qps=nan"]).params["kube_api_qps"] == 0.0


@pytest.mark.parametrize(("text", "words"), [("", []), ('"a,b",c', ["a,b", "c"]), ("a,,b", ["a", "", "b"])])
def test_a_list_is_split_as_a_csv_line(text: str, words: list[str]) -> None:
    assert split_list(text) == words


@pytest.mark.parametrize("text", ["0x1p9999", "0x.p1", "0x1", "1e", "e1", "1_e1", "_1", "infinit"])
def test_a_number_that_go_rejects_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a number|is out of range"):
        parse_float(text)


def test_the_help_flag_works_as_in_every_command() -> None:
    with pytest.raises(click.exceptions.Exit):
        run.make_context("run", ["--help"])
