"""pytest fixtures: a Kubernetes API for one test, or for the whole session.

Nothing is imported or started until a test uses a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tinykube.testing.api_server import ThreadApiServer


@pytest.fixture
def api_server() -> "Iterator[ThreadApiServer]":
    """Provide a new API server for this test: in this process, on loopback, stopped after the test."""
    from tinykube.testing.api_server import running_api_server

    with running_api_server() as server:
        yield server


@pytest.fixture(scope="session")
def api_server_session() -> "Iterator[ThreadApiServer]":
    """Provide one API server for the whole session: work in a namespace of your own (``new_namespace()``)."""
    from tinykube.testing.api_server import running_api_server

    with running_api_server() as server:
        yield server
