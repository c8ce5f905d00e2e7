"""Nodes, workloads and pods that live and die in any API server, without a machine."""
