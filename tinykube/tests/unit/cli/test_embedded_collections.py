"""While a server runs, garbage collection is rare; afterwards the settings are restored."""

import gc
from pathlib import Path

from tinykube.cli.embedded import embedded_server
from tinykube.server.settings import ServerSettings


async def test_gc_thresholds_are_raised_while_the_server_runs_and_restored_afterwards(tmp_path: Path) -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    async with embedded_server(ServerSettings(), tmp_path / "kubeconfig"):
        assert gc.get_threshold()[0] > 10_000
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
