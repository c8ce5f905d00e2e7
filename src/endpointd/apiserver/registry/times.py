"""Timestamps as objects carry them."""

from datetime import timedelta

from endpointd.clock import Clock


def timestamp(clock: Clock, after_seconds: float = 0.0) -> str:
    """Return the present (or a time after it) as metav1.Time: UTC, whole seconds."""
    return (clock.wall() + timedelta(seconds=after_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
