"""The guide's test of a controller runs, as it stands there."""

import pytest

from docs.guide.examples.test_replica_labels import (
    apps,
    test_one_deployment_is_labelled_once,
    test_the_label_follows_the_deployment,
)
from tinykube.pytest_plugin import api_server

__all__ = [
    "api_server",
    "apps",
    "test_one_deployment_is_labelled_once",
    "test_the_label_follows_the_deployment",
]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:kubernetes"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
