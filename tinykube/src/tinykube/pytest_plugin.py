"""Pytest fixtures: a Kubernetes API server per test, or one per session.

Nothing is imported or started until a test uses a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tinykube.testing.api_server import ThreadApiServer


@pytest.fixture
def api_server() -> "Iterator[ThreadApiServer]":
    """Provide a new in-process API server on loopback, stopped after the test."""
    from tinykube.testing.api_server import running_api_server

    with running_api_server() as server:
        yield server


@pytest.fixture(scope="session")
def api_server_session() -> "Iterator[ThreadApiServer]":
    """Provide one API server for the whole session. Isolate tests with ``new_namespace()``."""
    from tinykube.testing.api_server import running_api_server

    with running_api_server() as server:
        yield server
