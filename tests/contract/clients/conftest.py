"""The embedded server for clients that others have written, a namespace for each test."""

import pytest

from endpointd.testing.apiserver import ThreadApiServer
from endpointd.testing.pytest_plugin import api_server_session

__all__ = ["api_server_session", "namespace"]


@pytest.fixture
def namespace(api_server_session: ThreadApiServer) -> str:
    return api_server_session.new_namespace("client")
