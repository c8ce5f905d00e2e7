"""Health checks of external load balancers (C-71 to C-71d, scenarios 8.4)."""

import json

import pytest

from aiokube.api.meta import ObjectKey
from aiokube.discovery import HealthAnswer, HealthChecks, ProxyHealth, is_leaving

A, B, C, D = (ObjectKey("ns", name) for name in "abcd")


def answer(checks: HealthChecks, service: ObjectKey = A, *, proxy_is_healthy: bool = True) -> HealthAnswer:
    found = checks.answer(service, proxy_is_healthy=proxy_is_healthy)
    assert found is not None
    return found


def reported(checks: HealthChecks, service: ObjectKey = A) -> tuple[int, int]:
    found = answer(checks, service)
    return found.status, json.loads(found.body)["localEndpoints"]


def test_a_service_is_healthy_if_it_has_endpoints_on_this_node() -> None:
    """18, 0, 11, unknown."""
    checks = HealthChecks()
    checks.sync_services({A: 9376})
    assert reported(checks) == (503, 0)
    for counts, expected in (({A: 18}, (200, 18)), ({A: 0}, (503, 0)), ({A: 11}, (200, 11)), ({}, (503, 0))):
        checks.sync_counts(counts)
        assert reported(checks) == expected


def test_the_response_is_json_with_the_endpoint_count_as_weight() -> None:
    """C-71b."""
    checks = HealthChecks()
    checks.sync_services({A: 9376})
    checks.sync_counts({A: 18})
    found = answer(checks)
    assert found.headers == {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "X-Load-Balancing-Endpoint-Weight": "18",
    }
    assert json.loads(found.body) == {
        "service": {"namespace": "ns", "name": "a"},
        "localEndpoints": 18,
        "serviceProxyHealthy": True,
    }


def test_an_unhealthy_proxy_responds_503_with_the_endpoint_count() -> None:
    """C-71b."""
    checks = HealthChecks()
    checks.sync_services({A: 9376})
    checks.sync_counts({A: 18})
    found = answer(checks, proxy_is_healthy=False)
    assert (found.status, found.headers["X-Load-Balancing-Endpoint-Weight"]) == (503, "18")
    assert json.loads(found.body)["serviceProxyHealthy"] is False


def test_health_check_services_are_added_removed_and_change_ports() -> None:
    """C-71c: the count of a new port is 0 until the next counts; counts without a port are dropped."""
    checks = HealthChecks()
    checks.sync_services({A: 1, B: 2, C: 3})
    checks.sync_counts({A: 10, B: 20, C: 30, D: 40})
    checks.sync_services({A: 1, B: 22, D: 4})
    assert checks.ports == {A: 1, B: 22, D: 4}
    assert [reported(checks, each) for each in (A, B, D)] == [(200, 10), (503, 0), (503, 0)]
    assert checks.answer(C, proxy_is_healthy=True) is None
    checks.sync_counts({A: 11, D: 44})
    assert [reported(checks, each) for each in (A, B, D)] == [(200, 11), (503, 0), (200, 44)]


def test_a_proxy_is_live_unless_a_change_has_been_pending_too_long() -> None:
    """Healthz, Livez: per family; the oldest waiting change counts; a starting family does not."""
    proxy = ProxyHealth(timeout_seconds=10.0)
    assert proxy.is_live(0.0)
    proxy.noticed("IPv4", 0.0)
    assert proxy.is_live(100.0)  # it has never been applied: it is starting
    proxy.in_force("IPv4")
    proxy.in_force("IPv6")
    proxy.noticed("IPv4", 100.0)
    proxy.noticed("IPv4", 109.0)
    assert proxy.is_live(109.9)
    assert not proxy.is_live(110.0)
    proxy.in_force("IPv6")
    assert not proxy.is_live(110.0)
    proxy.in_force("IPv4")
    assert proxy.is_live(110.0)


@pytest.mark.parametrize(
    ("taints", "deleted_at", "expected"),
    [
        ([], None, True),
        (["other"], None, True),
        (["other", "ToBeDeletedByClusterAutoscaler"], None, False),
        ([], "2026-01-01T00:00:00Z", False),
    ],
)
def test_a_node_being_removed_is_unhealthy_but_live(
    taints: list[str], deleted_at: str | None, expected: bool
) -> None:
    """C-71d."""
    proxy = ProxyHealth(timeout_seconds=10.0)
    assert proxy.is_healthy(0.0, node_is_leaving=is_leaving(taints, deleted_at)) is expected
    assert proxy.is_live(0.0)
