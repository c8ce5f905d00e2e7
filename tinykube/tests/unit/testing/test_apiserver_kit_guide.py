"""The guides' tests of a controller and of faults run unchanged."""

import pytest

from docs.guide.examples.test_faults import (
    test_a_refused_create_is_reported,
    test_a_retry_after_a_lost_answer_creates_nothing_twice,
)
from docs.guide.examples.test_replica_labels import (
    apps,
    test_one_deployment_is_labelled_once,
    test_the_label_follows_the_deployment,
)
from tinykube.pytest_plugin import api_server

__all__ = [
    "api_server",
    "apps",
    "test_a_refused_create_is_reported",
    "test_a_retry_after_a_lost_answer_creates_nothing_twice",
    "test_one_deployment_is_labelled_once",
    "test_the_label_follows_the_deployment",
]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:kubernetes"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
