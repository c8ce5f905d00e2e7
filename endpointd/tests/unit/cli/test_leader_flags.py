"""The election flags are kube-controller-manager's, with its defaults and checks."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from endpointd.cli import run_program
from endpointd.cli.run import run
from endpointd.cli.run_settings import ElectionSettings, RunSettings, election_rules

Ran = Callable[..., RunSettings]


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return the settings of a command line without running it."""
    found: list[RunSettings] = []

    def keep(settings: RunSettings) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(run_program, "run_controllers", keep)
    monkeypatch.setattr("aiokube.process.logs.configure", lambda *_, **__: None)

    def of(*flags: str) -> RunSettings:
        result = CliRunner().invoke(run, list(flags), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return found[-1]

    return of


def test_leader_election_is_on_by_default(settings_of: Ran) -> None:
    defaults = ElectionSettings(15.0, 10.0, 2.0, name="endpointd", namespace="kube-system")
    assert settings_of().election == defaults
    assert settings_of("--leader-elect").election == defaults
    assert settings_of("--leader-elect=false").election is None


def test_every_flag_reaches_the_settings(settings_of: Ran) -> None:
    found = settings_of(
        "--leader-elect-lease-duration=1m",
        "--leader-elect-renew-deadline=30s",
        "--leader-elect-retry-period=500ms",
        "--leader-elect-resource-lock=leases",
        "--leader-elect-resource-name=mine",
        "--leader-elect-resource-namespace=here",
    )
    assert found.election == ElectionSettings(60.0, 30.0, 0.5, name="mine", namespace="here")


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        (
            "--leader-elect-lease-duration=10s",
            "'--leader-elect-lease-duration': 10s is not greater than the renew deadline of 10s",
        ),
        (
            "--leader-elect-renew-deadline=2.4s",
            "'--leader-elect-renew-deadline': 2.4s is not greater than 1.2 times the retry period of 2s",
        ),
        ("--leader-elect-retry-period=0s", "'--leader-elect-retry-period': it must be greater than zero"),
        ("--leader-elect-resource-lock=configmaps", "'configmaps' is not a supported lock type"),
        ("--leader-elect-resource-name=A/B", "'A/B' is not a valid object name"),
        ("--leader-elect-resource-namespace=", "'' is not a valid object name"),
    ],
)
def test_invalid_values_exit_with_2_and_one_line_that_names_the_flag(flag: str, told: str) -> None:
    result = CliRunner().invoke(run, [flag])
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert told in line


def test_durations_are_not_checked_without_leader_election(settings_of: Ran) -> None:
    assert settings_of("--leader-elect=false", "--leader-elect-lease-duration=1s").election is None


def test_each_process_has_a_unique_identity_that_starts_with_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    settings: Any = ElectionSettings(15.0, 10.0, 2.0, name="endpointd", namespace="kube-system")
    one, two = (election_rules(settings).identity for _ in range(2))
    assert one != two
    assert one.startswith("node-7_")
    assert len(one) == len("node-7_") + 36
