"""Validation rules of kinds that are stored without effect."""

import pytest

from aiokube import InvalidError
from tinykube import ThreadApiServer


def test_value_and_preemption_policy_of_a_priority_class_are_immutable(api_server: ThreadApiServer) -> None:
    base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}}
    api_server.apply({**base, "value": 1, "description": "a"})
    api_server.apply({**base, "description": "b"})
    with pytest.raises(InvalidError, match=r"value: Forbidden: may not be changed in an update\."):
        api_server.apply({**base, "value": 2})
    with pytest.raises(InvalidError, match=r"preemptionPolicy: Invalid value: .*field is immutable"):
        api_server.apply({**base, "preemptionPolicy": "Never"})
