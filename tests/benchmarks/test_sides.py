"""The command lines of the compared programs."""

import importlib.util
from pathlib import Path

import pytest

from benchmarks import sides
from benchmarks.sides import (
    OUR_COMMAND,
    OURS,
    SIDES,
    THEIRS,
    child_environment,
    compile_ours,
    compile_package,
    make_sides,
)

KUBECONFIG = Path("/tmp/kubeconfig")


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    (tmp_path / THEIRS).touch()
    return tmp_path


def test_both_systems_run_the_same_controllers_as_the_same_user_without_election(assets: Path) -> None:
    theirs, ours = make_sides(SIDES, assets)
    common = [
        f"--kubeconfig={KUBECONFIG}",
        "--controllers=endpoints-controller,endpointslice-controller",
        "--leader-elect=false",
    ]
    assert ours.invocation(KUBECONFIG, "both")[-3:] == common
    invocation = theirs.invocation(KUBECONFIG, "both")
    assert invocation[0] == str(assets / THEIRS)
    assert invocation[1:4] == common
    assert {"--kube-api-qps=5000", "--kube-api-burst=5000"} < set(invocation)


def test_the_slices_variant_runs_one_controller_in_either_system(assets: Path) -> None:
    for side in make_sides(SIDES, assets):
        assert "--controllers=endpointslice-controller" in side.invocation(KUBECONFIG, "slices")


def test_the_command_of_endpointd_can_be_replaced(assets: Path) -> None:
    (ours,) = make_sides([OURS], assets, "python3.13 -X dev -m endpointd run '--v=4'")
    assert ours.command == ("python3.13", "-X", "dev", "-m", "endpointd", "run", "--v=4")
    with pytest.raises(ValueError, match="empty"):
        make_sides([OURS], assets, " ")


def test_the_error_for_a_missing_kube_controller_manager_names_the_flag_to_use(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--sides endpointd"):
        make_sides(SIDES, tmp_path)
    assert [side.name for side in make_sides([OURS], tmp_path)] == [OURS]


def test_a_package_is_compiled_as_pip_compiles_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    modules = [tmp_path / "package" / "one.py", tmp_path / "package" / "deeper" / "two.py"]
    for module in modules:
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text("answer = 42\n")
    assert compile_package(tmp_path / "package")
    assert all(Path(importlib.util.cache_from_source(str(module))).exists() for module in modules)
    assert capfd.readouterr() == ("", "")


def test_a_compile_failure_is_returned_without_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("answer =\n")
    assert not compile_package(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_the_default_command_alone_has_its_package_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Path] = []

    def compile_nothing(folder: Path) -> bool:
        compiled.append(folder)
        return True

    monkeypatch.setattr(sides, "compile_package", compile_nothing)
    assert compile_ours("python3.13 -m endpointd run")
    assert compiled == []
    assert compile_ours(OUR_COMMAND)
    assert [folder.name for folder in compiled] == ["endpointd"]
    assert (compiled[0] / "__main__.py").exists()


def test_child_processes_may_write_bytecode() -> None:
    ours = {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin"}
    assert child_environment(ours) == {"PATH": "/usr/bin"}
