"""The Endpoints, EndpointSlice and EndpointSliceMirroring controllers of Kubernetes, in Python."""

__version__ = "0.1.0.dev0"
