"""Configuration of all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from aiokube.testing.memory_server import MemoryServer

# Tests must not depend on the speed of the machine.
settings.register_profile("endpointd", deadline=None)
settings.load_profile("endpointd")


@pytest.fixture(scope="module", params=["metadata only", "full answers"])
def both_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a controller's tests with partial write responses, as ``endpointd run`` requests, and with full ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryServer, "metadata_only", request.param == "metadata only")
        yield
