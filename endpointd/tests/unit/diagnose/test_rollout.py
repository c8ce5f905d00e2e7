"""A rolling update is computed with the controllers' plans, within a Deployment's limits."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiokube.api.core import Pod
from aiokube.testing.builders import make_pod, make_service
from endpointd.cli.main import cli
from endpointd.diagnose.rollout import Rollout, RolloutSettings, int_or_percent, simulate_rollout
from endpointd.diagnose.rollout_text import plot, size

SHOP = Path(__file__).parents[4] / "examples" / "shop"


def pods(count: int) -> list[Pod]:
    return [
        make_pod(f"web-old-{number:04}", f"10.1.{number // 250}.{number % 250 + 1}")
        for number in range(count)
    ]


def rollout(count: int, **settings: object) -> Rollout:
    return simulate_rollout(make_service(), pods(count), lambda node: "zone-a", RolloutSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "total", "up", "wanted"),
    [
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        ("3", 10, True, 3),
        ("0", 10, False, 0),
        ("100%", 7, False, 7),
    ],
)
def test_a_share_is_a_number_or_a_percentage_rounded_as_deployments_do(
    text: str, total: int, up: bool, wanted: int
) -> None:
    assert int_or_percent(text, total, up=up) == wanted


@example(11, 0, 11)  # the last old pod has stopped before the last new one starts
@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 100), st.integers(0, 100))
def test_no_step_exceeds_max_unavailable_and_all_pods_are_replaced(count: int, surge: int, down: int) -> None:
    may = {"surge": f"{surge}%", "unavailable": f"{down}%"}
    if (
        count
        and not int_or_percent(may["surge"], count, up=True)
        and not int_or_percent(may["unavailable"], count, up=False)
    ):
        with pytest.raises(ValueError, match="no pod can be replaced"):
            rollout(count, **may)
        return
    found = rollout(count, **may)
    assert found.lowest_ready >= count - int_or_percent(may["unavailable"], count, up=False)
    last = found.steps[-1]
    assert (last.ready, last.not_ready, last.terminating) == (count, 0, 0)


def test_a_change_is_sent_as_one_slice_and_as_the_whole_endpoints() -> None:
    found = rollout(900)
    assert found.slices.largest_object_bytes * 5 < found.endpoints.largest_object_bytes
    assert found.slices.bytes_to_each_consumer < found.endpoints.bytes_to_each_consumer
    assert found.slices.bytes_to_all_consumers == found.slices.bytes_to_each_consumer * 100


def test_a_batch_period_makes_fewer_writes() -> None:
    assert rollout(200, batch_seconds=2.0).slices.writes < rollout(200).slices.writes / 2


def test_the_cost_of_an_update_is_deterministic() -> None:
    assert rollout(50) == rollout(50)


def test_the_plot_spans_all_steps_and_is_empty_without_any() -> None:
    lines = plot(rollout(400).steps)
    assert "█" in lines[0]
    assert "░" in lines[-3]
    assert plot(()) == []


def test_sizes_are_printed_in_readable_units() -> None:
    assert [size(count) for count in (0, 999, 1500, 152_000, 3_830_000_000)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "152 kB",
        "3.83 GB",
    ]


def test_the_command_prints_a_table_and_a_plot_or_json() -> None:
    arguments = ["plan", "-f", str(SHOP), "--rollout", "shop/web"]
    text = CliRunner().invoke(cli, arguments).stdout
    assert "6 pods replaced in" in text
    assert "sent to each consumer" in text
    found = json.loads(CliRunner().invoke(cli, [*arguments, "-o", "json"]).stdout)
    assert (found["pods"], found["steps"][-1]["ready"]) == (6, 6)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--rollout", "shop/xyzzy"], "the manifests have no service shop/xyzzy"),
        (["--rollout", "shop/mail"], "selects no pod"),
        (["--rollout", "shop/web", "--surge", "x"], "'x' is neither a number nor a percentage"),
        (["--rollout", "shop/web", "--surge", "0", "--unavailable", "0"], "no pod can be replaced"),
        (["-o", "text"], "-o text needs --rollout"),
    ],
)
def test_an_impossible_simulation_exits_with_code_2(flags: list[str], words: str) -> None:
    result = CliRunner().invoke(cli, ["plan", "-f", str(SHOP), *flags])
    assert (result.exit_code, words in result.output) == (2, True), result.output
