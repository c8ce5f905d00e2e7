"""``make up`` shows a shop that is published, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from endpointd.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.mark.usefixtures("endpointd_command")
def test_make_up_shows_what_is_published_until_it_is_interrupted(assets: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endpointd.testing.up"]
    process = ChildProcess(
        "up",
        command,
        log_path=tmp_path / "log",
        environment={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)},
    )
    with process:
        process.wait_for_log("Ctrl-C ends it all.", timeout_seconds=60)
        shown = process.log()
        rows = {line.split()[0]: line for line in shown.splitlines() if "(IPv4, 3)" in line}
        assert set(rows) == {"web", "api", "basket", "store"}
        assert "(IPv6, 3)" in rows["basket"]
        kubeconfig = re.findall(r"export KUBECONFIG=(.*)", shown)[0]
        look = [
            str(assets / "kubectl"),
            f"--kubeconfig={kubeconfig}",
            "-n",
            "shop",
            "get",
            "endpoints",
            "api",
        ]
        found = subprocess.run([*look, "-o", "json"], capture_output=True, text=True, check=True)
        assert '"port": 9000' in found.stdout
        process.signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert "Traceback" not in process.log()
    assert not Path(kubeconfig).exists()
    assert not list(tmp_path.glob("endpointd-controlplane-*"))
