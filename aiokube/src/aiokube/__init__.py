"""A Kubernetes client and controller runtime for asyncio."""

__version__ = "0.1.0.dev0"
