"""The configuration file: its values, flags that override them, and each mistake with its line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from endpointd.cli import run_program
from endpointd.cli.config_file import ConfigFileError, read_config_file
from endpointd.cli.options import BY_KEY, CONTROLLERS, SETTINGS
from endpointd.cli.run import run
from endpointd.cli.run_settings import RunSettings

HEADER = "apiVersion: endpointd.dev/v1alpha1\nkind: EndpointdConfiguration\n"


def write(folder: Path, text: str, *, header: str = HEADER) -> Path:
    path = folder / "endpointd.yaml"
    path.write_text(header + text)
    return path


def complaints(folder: Path, text: str, *, header: str = HEADER) -> list[str]:
    path = write(folder, text, header=header)
    with pytest.raises(ConfigFileError) as told:
        read_config_file(path)
    return [line.removeprefix(f"{path}:") for line in str(told.value).splitlines()]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[RunSettings]:
    """The settings of every program that would have been run."""
    kept: list[RunSettings] = []

    def keep(settings: RunSettings) -> int:
        kept.append(settings)
        return 0

    monkeypatch.setattr(run_program, "run_controllers", keep)
    monkeypatch.setattr("aiokube.process.logs.configure", lambda *_, **__: None)
    return kept


def test_the_files_values_apply_and_flags_override_them(tmp_path: Path, started: list[RunSettings]) -> None:
    path = write(
        tmp_path,
        "maxEndpointsPerSlice: 200\n"
        "concurrentServiceEndpointSyncs: 7\n"
        "endpointsliceUpdatesBatchPeriod: 1m30s\n"
        "endpointUpdatesBatchPeriod: 0\n"
        "leaderElect: false\n"
        "kubeApiQps: 20\n"
        "controllers: ['*', -endpoints-controller]\n",
    )
    done = CliRunner().invoke(run, ["--config", str(path), "--concurrent-service-endpoint-syncs=9"])
    assert done.exit_code == 0, done.output
    (settings,) = started
    assert settings.max_endpoints_per_slice == 200
    assert settings.concurrent_service_endpoint_syncs == 9
    assert settings.slice_batch_seconds == 90.0
    assert settings.endpoint_batch_seconds == 0.0
    assert settings.election is None
    assert settings.qps == 20.0
    assert settings.controllers == ("endpointslice-controller", "endpointslice-mirroring-controller")


def test_settings_made_without_flags_are_those_of_a_run_without_flags(started: list[RunSettings]) -> None:
    done = CliRunner().invoke(run, ["--leader-elect=false", "--metrics-bind-address="])
    assert done.exit_code == 0, done.output
    assert started == [RunSettings(kubeconfig="", controllers=CONTROLLERS)]


def test_a_flag_with_the_default_value_overrides_a_file(tmp_path: Path, started: list[RunSettings]) -> None:
    path = write(tmp_path, "maxEndpointsPerSlice: 200\n")
    CliRunner().invoke(run, ["--config", str(path), "--max-endpoints-per-slice=100"])
    (settings,) = started
    assert settings.max_endpoints_per_slice == 100


def test_a_file_has_the_same_limits_as_the_flags(tmp_path: Path) -> None:
    assert complaints(tmp_path, "maxEndpointsPerSlice: 0\nshadowGracePeriod: -5s\n") == [
        "3: maxEndpointsPerSlice: max-endpoints-per-slice must not be less than 1, but got 0",
        "4: shadowGracePeriod: '-5s' must not be negative",
    ]


def test_a_file_with_every_key_at_its_default_changes_nothing(
    tmp_path: Path, started: list[RunSettings]
) -> None:
    def shown(value: Any) -> str:
        return (
            repr(list(value))
            if isinstance(value, tuple)
            else str(value).lower()
            if value is True or value is False
            else repr(value)
        )

    lines = "".join(f"{setting.key}: {shown(setting.default)}\n" for setting in SETTINGS)
    done = CliRunner().invoke(run, ["--config", str(write(tmp_path, lines))])
    assert done.exit_code == 0, done.output
    CliRunner().invoke(run, [])
    assert started[0] == started[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "maxEndpointPerSlice: 5\n",
            "3: unknown field maxEndpointPerSlice (did you mean maxEndpointsPerSlice?)",
        ),
        (
            "max-endpoints-per-slice: 5\n",
            "3: unknown field max-endpoints-per-slice (did you mean maxEndpointsPerSlice?)",
        ),
        ("xyzzy: 5\n", "3: unknown field xyzzy"),
        ("maxEndpointsPerSlice: many\n", "3: maxEndpointsPerSlice: must be a whole number, not 'many'"),
        ("maxEndpointsPerSlice: true\n", "3: maxEndpointsPerSlice: must be a whole number, not true"),
        ("maxEndpointsPerSlice:\n", "3: maxEndpointsPerSlice: must be a whole number, not nothing"),
        (
            "maxEndpointsPerSlice: 1001\n",
            "3: maxEndpointsPerSlice: max-endpoints-per-slice must not be more than 1000, but got 1001",
        ),
        ("leaderElect: 'yes'\n", "3: leaderElect: must be true or false, not 'yes'"),
        ("kubeApiQps: [1]\n", "3: kubeApiQps: must be a number, not a list"),
        (
            "endpointUpdatesBatchPeriod: 5\n",
            "3: endpointUpdatesBatchPeriod: must be a duration, such as 15s or 1m30s, not 5",
        ),
        ("endpointUpdatesBatchPeriod: 5 s\n", "3: endpointUpdatesBatchPeriod: '5 s' is not a duration"),
        ("controllers: '*'\n", "3: controllers: must be a list of strings, not '*'"),
        ("controllers:\n- '*'\n- 7\n", "3: controllers: [1] must be a string, not 7"),
        ("controllers: [xyzzy]\n", "3: controllers: 'xyzzy' is not in the list of known controllers"),
        ("loggingFormat: xml\n", "3: loggingFormat: 'xml' is not one of 'text', 'json'"),
        ("leaderElect: true\nleaderElect: false\n", "4: leaderElect is set twice"),
        ("kubeconfig: {a: b}\n", "3: kubeconfig: must be a string, not a mapping"),
        ("a: [\n", "4: "),
    ],
)
def test_each_mistake_is_reported_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    (told,) = complaints(tmp_path, text)
    assert told.startswith(complaint)


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    told = complaints(tmp_path, "leaderElect: 1\nxyzzy: 2\n", header="kind: Deployment\n")
    assert [line.split(":")[0] for line in told] == ["1", "1", "2", "3"]
    assert "kind must be EndpointdConfiguration, not 'Deployment'" in told[1]
    assert "apiVersion is missing: it must be endpointd.dev/v1alpha1" in told[0]


@pytest.mark.parametrize("text", ["", "just words\n", "- a\n"])
def test_a_file_that_is_not_a_mapping_is_rejected(text: str, tmp_path: Path) -> None:
    (told,) = complaints(tmp_path, text, header="")
    assert "the file must be a mapping that starts with apiVersion" in told


def test_a_missing_file_exits_with_2_and_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endpointd", "run", "--config"]
    done = subprocess.run([*command, "/nowhere/x.yaml"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "endpointd: cannot read /nowhere/x.yaml: No such file or directory\n",
    )
    path = write(tmp_path, "xyzzy: 2\nleaderElect: 1\n")
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"endpointd: {path}:3: unknown field xyzzy",
        f"endpointd: {path}:4: leaderElect: must be true or false, not 1",
    ]


def test_keys_are_the_flags_in_camel_case_and_unique() -> None:
    assert len(BY_KEY) == len(SETTINGS) == len({setting.name for setting in SETTINGS})
    assert BY_KEY["leaderElectLeaseDuration"].flag == "leader-elect-lease-duration"
    assert BY_KEY["verbosity"].flag == "v"
