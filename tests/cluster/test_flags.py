"""The table of flag forms holds for kube-controller-manager itself: accepted values, results and errors."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.flag_cases import ACCEPTED, REFUSED, Accepted

from endpointd.cli.flags import parse_duration

NO_FILE = "/no-such-kubeconfig"
_LISTS = ("controllers",)
_LOGGED = re.compile(r'FLAG: --([a-z-]+)=(".*?")(?:\s|$)', re.MULTILINE)


def start(assets: Path, arguments: tuple[str, ...]) -> str:
    """Return kube-controller-manager's output about its flags; it then fails at the missing kubeconfig."""
    command = [str(assets / "kube-controller-manager"), f"--kubeconfig={NO_FILE}", "-v=1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    return done.stdout + done.stderr


def read(flag: str, text: str, sample: Any) -> Any:
    """Return a value printed by kube-controller-manager in the form of the table."""
    if isinstance(sample, bool):
        return text == "true"
    if isinstance(sample, list):
        return text.strip("[]").split(",")
    if isinstance(sample, float) and flag != "kube-api-qps":
        return parse_duration(text)
    return type(sample)(text)


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_kube_controller_manager_accepts_the_same_form_with_the_same_value(
    case: Accepted, assets: Path
) -> None:
    log = start(assets, case.arguments)
    assert f"stat {NO_FILE}" in log, log[-500:]
    values = {name: value.strip('"') for name, value in _LOGGED.findall(log)}
    if "json" in case.arguments:  # JSON logging prints the flags in another form
        return
    assert read(case.flag, values[case.flag], case.value) == pytest.approx(case.value)


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_kube_controller_manager_rejects_the_same_values(arguments: tuple[str, ...], assets: Path) -> None:
    log = start(assets, arguments)
    assert f"stat {NO_FILE}" not in log
