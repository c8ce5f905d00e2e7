"""The kubeconfig of a server: written and removed by one process."""

from pathlib import Path

import pytest

from tinykube.cli.own_kubeconfig import KubeconfigTakenError, claim_kubeconfig


def test_instances_in_one_directory_get_separate_files_and_remove_them(tmp_path: Path) -> None:
    default = tmp_path / ".endpointd" / "kubeconfig"
    with claim_kubeconfig(None, "endpointd", tmp_path) as first:
        first.write("first")
        with claim_kubeconfig(None, "endpointd", tmp_path) as second:
            second.write("second")
            assert (first.path, second.path) == (default, default.with_name("kubeconfig-2"))
            assert first.path.read_text().endswith("first")
        assert first.path.exists()
        assert not second.path.exists()
    assert list(tmp_path.iterdir()) == []


def test_an_explicit_path_that_is_in_use_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    with (
        claim_kubeconfig(path),
        pytest.raises(KubeconfigTakenError, match="in use by another tinykube"),
        claim_kubeconfig(path),
    ):
        pass


def test_a_users_own_kubeconfig_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n")
    with (
        pytest.raises(KubeconfigTakenError, match="was not written by tinykube"),
        claim_kubeconfig(path),
    ):
        pass
    assert path.read_text() == "apiVersion: v1\nkind: Config\n"


def test_a_file_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / ".tinykube" / "kubeconfig"
    with claim_kubeconfig(path) as killed:
        killed.write("stale")
        left = path.read_bytes()
    path.parent.mkdir()
    path.write_bytes(left)
    (path.parent / ".kubeconfig.lock").touch()  # an unused lock
    with claim_kubeconfig(None, "tinykube", tmp_path) as own:
        own.write("fresh")
        assert own.path == path
        assert path.read_text().endswith("fresh")
