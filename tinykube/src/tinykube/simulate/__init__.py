"""Simulated nodes, workloads and pods on any API server."""
