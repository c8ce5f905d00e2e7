"""The Endpoints, EndpointSlice and EndpointSliceMirroring controllers of Kubernetes, in Python.

Nothing is imported here, so that ``endpointd --help`` starts fast: import the package you need
(``endpointd.runtime`` to write a controller, ``endpointd.client`` to talk to an API server).
"""

__version__ = "0.1.0.dev0"
