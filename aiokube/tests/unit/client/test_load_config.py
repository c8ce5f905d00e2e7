"""Sources of the configuration: their order, and a clear error if all are missing."""

from pathlib import Path

import pytest

from aiokube.client.errors import ConfigError
from aiokube.client.incluster import in_cluster_config
from aiokube.client.load_config import load_config
from aiokube.testing.virtual_time import ManualClock

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def kubeconfig(path: Path, server: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"current-context: a\ncontexts: [{{name: a, context: {{cluster: a}}}}]\n"
        f"clusters: [{{name: a, cluster: {{server: 'https://{server}'}}}}]\n"
    )
    return path


@pytest.fixture
def account(tmp_path: Path) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("PEM")
    (folder / "namespace").write_text("team\n")
    return folder


def found(tmp_path: Path, account: Path, path: str = "", context: str = "", **environ: str) -> str:
    return load_config(
        path,
        context,
        clock=ManualClock(),
        environ=environ,
        home=tmp_path / "home",
        service_account_folder=account,
    ).server


def test_config_is_loaded_from_the_named_file_then_the_variable_then_home_then_the_pod(
    tmp_path: Path, account: Path
) -> None:
    named = str(kubeconfig(tmp_path / "named", "named"))
    listed = str(kubeconfig(tmp_path / "listed", "listed"))
    at_home = kubeconfig(tmp_path / "home/.kube/config", "home")
    assert found(tmp_path, account, named, KUBECONFIG=listed, **IN_CLUSTER) == "https://named"
    assert found(tmp_path, account, KUBECONFIG=listed, **IN_CLUSTER) == "https://listed"
    assert found(tmp_path, account, **IN_CLUSTER) == "https://home"
    at_home.unlink()
    assert found(tmp_path, account, **IN_CLUSTER) == "https://10.96.0.1:443"
    with pytest.raises(
        ConfigError, match=r"no API server is configured: .* not a pod with a service account; name a"
    ):
        found(tmp_path, account)


def test_the_home_folder_is_taken_from_the_environment(tmp_path: Path) -> None:
    kubeconfig(tmp_path / ".kube/config", "home")
    assert load_config(clock=ManualClock(), environ={"HOME": str(tmp_path)}).server == "https://home"


def test_files_listed_in_the_variable_are_merged_and_missing_ones_are_skipped(
    tmp_path: Path, account: Path
) -> None:
    one = tmp_path / "one"
    one.write_text("current-context: a\nclusters: [{name: a, cluster: {server: 'https://one'}}]")
    two = kubeconfig(tmp_path / "two", "two")
    assert found(tmp_path, account, KUBECONFIG=f"{tmp_path / 'none'}::{one}:{two}:{one}") == "https://one"


def test_a_variable_that_lists_only_missing_files_is_an_error_without_fallback(
    tmp_path: Path, account: Path
) -> None:
    kubeconfig(tmp_path / "home/.kube/config", "home")
    with pytest.raises(
        ConfigError, match=r"KUBECONFIG lists /none, but no such file exists: fix or unset it"
    ):
        found(tmp_path, account, KUBECONFIG="/none", **IN_CLUSTER)


def test_a_named_file_must_exist(tmp_path: Path, account: Path) -> None:
    with pytest.raises(ConfigError, match="kubeconfig /none cannot be read"):
        found(tmp_path, account, "/none")


def test_a_named_context_never_falls_back_to_the_service_account(tmp_path: Path, account: Path) -> None:
    with pytest.raises(ConfigError, match="a context was named"):
        found(tmp_path, account, context="a", **IN_CLUSTER)


# ------------------------------------------------------------------------------------------------ in a pod


async def test_the_in_cluster_config_uses_the_service_account(account: Path) -> None:
    config = in_cluster_config(clock=ManualClock(), environ=IN_CLUSTER, folder=account)
    assert config.server == "https://10.96.0.1:443"
    assert config.tls.ca_file == account / "ca.crt"
    assert config.namespace == "team"
    assert (await config.credentials.current()).authorization == "Bearer t"
    assert config.origin == f"the service account in {account}"


def test_an_ipv6_service_address_is_bracketed(account: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00:10:96::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster_config(clock=ManualClock(), environ=environ, folder=account)
    assert config.server == "https://[fd00:10:96::1]:443"


def test_the_namespace_is_taken_from_the_environment_or_defaults_to_default(account: Path) -> None:
    named = in_cluster_config(
        clock=ManualClock(), environ={**IN_CLUSTER, "POD_NAMESPACE": "mine"}, folder=account
    )
    assert named.namespace == "mine"
    (account / "namespace").unlink()
    assert in_cluster_config(clock=ManualClock(), environ=IN_CLUSTER, folder=account).namespace == "default"


def test_missing_parts_of_the_in_cluster_environment_are_reported(
    account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match=r"not a pod: KUBERNETES_SERVICE_HOST .* name a kubeconfig"):
        in_cluster_config(clock=ManualClock(), environ={}, folder=account)
    (account / "ca.crt").unlink()
    assert in_cluster_config(clock=ManualClock(), environ=IN_CLUSTER, folder=account).tls.ca_file is None
    assert "trusting the system's" in caplog.text
    (account / "token").unlink()
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster_config(clock=ManualClock(), environ=IN_CLUSTER, folder=account)
