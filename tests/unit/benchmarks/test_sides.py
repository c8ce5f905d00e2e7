"""How the programs are started."""

from pathlib import Path

import pytest
from benchmarks.sides import OURS, SIDES, THEIRS, make_sides

KUBECONFIG = Path("/tmp/kubeconfig")


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    (tmp_path / THEIRS).touch()
    return tmp_path


def test_both_sides_run_the_same_controllers_as_the_same_user_without_election(assets: Path) -> None:
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


def test_slices_alone_is_one_controller_on_either_side(assets: Path) -> None:
    for side in make_sides(SIDES, assets):
        assert "--controllers=endpointslice-controller" in side.invocation(KUBECONFIG, "slices")


def test_our_command_can_be_another_one(assets: Path) -> None:
    (ours,) = make_sides([OURS], assets, "python3.13 -X dev -m endpointd run '--v=4'")
    assert ours.command == ("python3.13", "-X", "dev", "-m", "endpointd", "run", "--v=4")
    with pytest.raises(ValueError, match="empty"):
        make_sides([OURS], assets, " ")


def test_without_kube_controller_manager_one_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--sides endpointd"):
        make_sides(SIDES, tmp_path)
    assert [side.name for side in make_sides([OURS], tmp_path)] == [OURS]
