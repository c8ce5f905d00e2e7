"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from aiokube.testing.memory_server import MemoryServer

# No test is about how fast a machine is.
settings.register_profile("endpointd", deadline=None)
settings.load_profile("endpointd")


@pytest.fixture(scope="module", params=["metadata only", "full answers"])
def both_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a controller's tests with writes answered as ``endpointd run`` asks for it, and once more in full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryServer, "metadata_only", request.param == "metadata only")
        yield
