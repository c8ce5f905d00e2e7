"""pytest fixtures: a Kubernetes API for each test, or one for the whole run.

Nothing is imported, started or listened on until a test asks for a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tinykube.testing.api_server import ThreadApiServer


@pytest.fixture
def api_server() -> "Iterator[ThreadApiServer]":
    """Give a fresh API server for this test alone, in this process, on loopback; gone when the test has ended."""
    from tinykube.testing.api_server import running_api_server

    with running_api_server() as server:
        yield server


@pytest.fixture(scope="session")
def api_server_session() -> "Iterator[ThreadApiServer]":
    """Give one API server for all tests that ask for it: keep to namespaces of your own (``new_namespace()``)."""
    from tinykube.testing.api_server import running_api_server

    with running_api_server() as server:
        yield server
