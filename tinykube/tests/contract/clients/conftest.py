"""The embedded server for third-party clients, with a new namespace for each test."""

import pytest

from tinykube.pytest_plugin import api_server_session
from tinykube.testing.api_server import ThreadApiServer

__all__ = ["api_server_session", "namespace"]


@pytest.fixture
def namespace(api_server_session: ThreadApiServer) -> str:
    return api_server_session.new_namespace("client")
