"""Test kit: the embedded server as a fixture, and real control planes on loopback."""
