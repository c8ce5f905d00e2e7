"""The Kubernetes API in one Python process, with simulated nodes, workloads and pods."""

__version__ = "0.1.0.dev0"
