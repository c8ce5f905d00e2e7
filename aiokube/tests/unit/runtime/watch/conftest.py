"""All async tests here run in virtual time."""

from collections.abc import Callable, Mapping
from typing import Any

from aiokube.testing.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], Any]]:
    return {"virtual": VirtualTimeLoop}
